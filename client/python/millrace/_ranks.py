"""Finds out which rank this process is, of how many, and notes where this is from."""

import dataclasses
import operator
import os
import sys

from .errors import ConfigError

_SLURM = (("SLURM_PROCID", "SLURM_NTASKS"),)
_MPI = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"),
        ("PMIX_RANK", "PMIX_SIZE"))
_DEFAULT = "default"
_DATA_AXES = ("dp", "data", "data_parallel", "dp_replicate", "batch")


@dataclasses.dataclass(frozen=True)
class Place:
    """A rank of a job. Replicas of a rank read the same batches."""

    rank: int
    world_size: int
    replica: int
    source: str
    alone: bool = False  # whether this process reads by itself: there is one rank and no replica
    warning: str = ""  # what may be wrong with it


def find(rank=None, world_size=None, mesh=None, replica=None):
    """The place of this process: as given, from a mesh, or found out.

    To find it out, this looks at torch.distributed if it is initialised, then at JAX if it has
    several processes, then at RANK and WORLD_SIZE. Otherwise there is one rank.
    """
    if mesh is not None:
        if rank is not None or world_size is not None:
            raise ConfigError("give either mesh= or rank= and world_size=")
        if replica is not None:
            raise ConfigError("give either mesh= or replica=: a mesh numbers the replicas")
        return _of_mesh(mesh)
    if rank == "slurm":
        return _of_variables(_SLURM, "slurm", replica)
    if rank == "mpi":
        return _of_variables(_MPI, "mpi", replica)
    if isinstance(rank, str):
        raise ConfigError(f"rank={rank!r}: expected a number, 'slurm' or 'mpi'")
    if (rank is None) != (world_size is None):
        raise ConfigError("give rank= and world_size= together, or neither")
    if rank is not None:
        return _place(_whole("rank", rank), _whole("world_size", world_size), replica, "arguments")
    found = _of_torch() or _of_jax() or _of_environment() or (0, 1, _DEFAULT)
    return _place(*found[:2], replica, found[2], "" if found[2] != _DEFAULT else _others())


def _place(rank, world_size, replica, source, warning=""):
    return Place(rank, world_size, replica or 0, source, world_size == 1 and replica is None,
                 warning)


def _others():
    """A warning if a launcher has started several processes, and its ranks were not asked for."""
    for what, names in (("slurm", _SLURM), ("mpi", _MPI)):
        for _, size in names:
            if os.environ.get(size, "1") != "1":
                return (f"{size}={os.environ[size]} is in the environment, and this session is "
                        f"rank 0 of 1, which reads all batches: rank=\"{what}\" deals them out to "
                        "the processes; rank=0, world_size=1 says that this one is to read all")
    return ""


def _of_torch():
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed.get_rank(), distributed.get_world_size(), "torch.distributed"


def _of_jax():
    jax = sys.modules.get("jax")
    if jax is None or not hasattr(jax, "process_count") or jax.process_count() == 1:
        return None
    return jax.process_index(), jax.process_count(), "jax"


def _of_environment():
    given = [name for name in ("RANK", "WORLD_SIZE") if name in os.environ]
    if not given:
        return None
    if len(given) == 1:
        missing = "WORLD_SIZE" if given == ["RANK"] else "RANK"
        raise ConfigError(f"{given[0]}={os.environ[given[0]]!r} is in the environment, and {missing} "
                          "is not: set both or neither, or give rank= and world_size=")
    return _number("RANK"), _number("WORLD_SIZE"), "RANK and WORLD_SIZE"


def _of_variables(names, what, replica):
    for rank, size in names:
        if rank in os.environ and size in os.environ:
            return _place(_number(rank), _number(size), replica, f"{rank} and {size}")
    wanted = " or ".join(f"{rank} and {size}" for rank, size in names)
    raise ConfigError(f"rank={what!r}: expected {wanted} in the environment, found neither")


def _whole(name, number):
    try:
        return operator.index(number)
    except TypeError:
        raise ConfigError(f"{name}={number!r}: expected an integer") from None


def _number(name):
    try:
        return int(os.environ[name])
    except ValueError:
        raise ConfigError(f"{name}={os.environ[name]!r}: expected a number") from None


def _of_mesh(mesh):
    """The place in `mesh`: a DeviceMesh, or (mesh, name of its data-parallel axis). Processes that
    differ only on the other axes are replicas."""
    mesh, axis = mesh if isinstance(mesh, tuple) else (mesh, None)
    names = mesh.mesh_dim_names or ()
    if axis is None:
        known = [name for name in names if name in _DATA_AXES]
        if len(known) == 1:
            axis = known[0]
        elif len(names) <= 1:
            return Place(mesh.get_local_rank(), mesh.size(), 0, "mesh")
        else:
            raise ConfigError(f"mesh={names}: which axis is data-parallel? Give mesh=(mesh, name)")
    if axis not in names:
        raise ConfigError(f"mesh axis {axis!r}: the mesh has {', '.join(names)}")
    replica = 0
    for dimension, name in enumerate(names):
        if name != axis:
            replica = replica * mesh.size(dimension) + mesh.get_local_rank(name)
    return Place(mesh.get_local_rank(axis), mesh.size(names.index(axis)), replica,
                 f"mesh axis {axis}")
