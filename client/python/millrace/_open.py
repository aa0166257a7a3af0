"""Opens sessions: with a dispatcher, or over a plan in this process."""

from __future__ import annotations

import inspect
import itertools
import json
import os
import sys
import typing

from . import _ranks
from ._core import PlanReader, SessionReader, session_options
from ._holders import Holders
from ._server import Server
from ._session import Session
from .errors import ConfigError, JobError

if typing.TYPE_CHECKING:
    from ._core import SessionKeywords

_DEFAULTS = {option["name"]: option["default"] for option in session_options()}
# Options that connect passes on unchanged. The table of the C++ client's options has their names
# and their help.
_KEYWORDS = {option["name"] for option in session_options() if option["keyword"]}


def _with_options(function):
    """Adds the options that a function passes on unchanged to its signature and its help."""
    shown = [option for option in session_options() if option["keyword"]]
    signature = inspect.signature(function)
    own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
    function.__signature__ = signature.replace(parameters=own + [
        inspect.Parameter(option["name"], inspect.Parameter.KEYWORD_ONLY,
                          default=option["default"], annotation=type(option["default"]).__name__)
        for option in shown])
    function.__doc__ = (function.__doc__ or "").rstrip() + "".join(
        f"\n    {option['name']}: {option['help']}." for option in shown) + "\n    "
    return function


@_with_options
def connect(address: str | Server = _DEFAULTS["address"], *,
            pipeline: str | os.PathLike | dict, job: str | None = None, variant: str | None = None,
            set: dict | list[str] | None = None,  # noqa: A002
            rank: int | str | None = None, world_size: int | None = None, mesh: object = None,
            replica: int | None = None, cursor: str | dict | None = None,
            device: object = None, validate: bool = False, repeat_first: bool | int = False,
            log_level: str = "warning",
            **options: typing.Unpack[SessionKeywords]) -> Session:
    """Attaches one rank of a job to a dispatcher and gives its Session.

    address: host:port of the dispatcher's control port. If there are several dispatchers, give all,
        with commas between them. A LocalServer may stand here too.
    pipeline: a path, the YAML text itself, or a dict of it. `variant` names one of its variants.
        `set` changes single keys: {"batch.size": 64}.
    job: a name that is the same on all ranks, and that no other training uses now. By default
        MILLRACE_JOB, or, with several ranks, the id that torchrun or Slurm gives. If there is none
        and only one rank, the session makes up a name of its own.
    rank, world_size: by default those of torch.distributed or JAX, or RANK and WORLD_SIZE from the
        environment. rank="slurm" and rank="mpi" take those of Slurm and MPI.
    mesh: a DeviceMesh, whose data-parallel axis gives rank and world size. Processes that differ
        only on its other axes read the same batches. replica: if there is no mesh, the number of
        this process among those that share a rank and read the same batches.
    cursor: the place to go on at: what Session.cursor or Session.state_dict() gave; by default the
        start of epoch 0. All ranks have to begin at one place.
    device: the memory that tensors are delivered to: "cpu", or a GPU of this machine, as "cuda:0".
    log_level: the level of the session's messages on stderr: debug, info, warning, error or off.
    validate: checks every batch against the spec; batches must be in the host's memory.
    repeat_first: repeats the first batch without end (True) or so many times (a number). This shows
        how fast the training is if it never waits for a batch.
    """
    if unknown := options.keys() - _KEYWORDS:
        raise TypeError(f"connect() got an unexpected keyword argument {min(unknown)!r}")
    server = address if isinstance(address, Server) else None
    if server is not None:
        address = server.address
    place = _ranks.find(rank, world_size, mesh, replica)
    variable = None if job else _job_variable(place)
    options.update(
        address=address, pipeline=pipeline_text(pipeline), variant=variant or "",
        overrides=overrides(set), job=job or _default_job(place, variable), rank=place.rank,
        world_size=place.world_size, replica=place.replica,
        device=str(device or _DEFAULTS["device"]), log_level=log_level)
    _refuse_forked()
    if validate and options["device"] not in ("cpu", "host"):
        raise ConfigError(f"device={options['device']!r}: validate reads batches in the host's memory")
    held = (address, options["job"], place.rank, place.replica)
    plan = (options["pipeline"], variant, tuple(options["overrides"]), place.world_size)
    _holders.refuse_second(held, plan, bool(job),
                           f"{options['job']} (from {variable})" if variable else options["job"])
    import logging  # a tenth of the package's import time

    log = logging.getLogger("millrace")
    if place.warning:
        log.warning("job %s: %s", options["job"], place.warning)
    log.info(
        "job %s: rank %d of %d (%s), replica %d, dispatcher %s", options["job"], place.rank,
        place.world_size, place.source, place.replica, address)

    def attach(at):
        reader = SessionReader({**options, "cursor": at or ""})
        if server is not None:
            reader = server.watch(reader)
        reader.attach()
        return reader

    about = {"address": address, "job": options["job"], "rank": place.rank,
             "world_size": place.world_size, "replica": place.replica,
             "micro": options.get("micro", _DEFAULTS["micro"])}
    session = Session(attach, cursor, about, validate=validate, repeat_first=repeat_first,
                      alone=place.alone)
    _holders.add(held, plan, session)
    return session


def reference(pipeline: str | os.PathLike | dict,
              dataset: str | os.PathLike | dict | None = None, *,
              variant: str | None = None, set: dict | list[str] | None = None,  # noqa: A002
              rank: int = _DEFAULTS["rank"], world_size: int = _DEFAULTS["world_size"],
              cursor: str | dict | None = None, index_dtype: str = _DEFAULTS["index_dtype"],
              micro: int = _DEFAULTS["micro"],
              index_file: str | os.PathLike | None = None,
              plugins: dict[str, str | os.PathLike] | None = None, validate: bool = False,
              repeat_first: bool | int = False, packed: bool = False) -> Session:
    """Opens a Session without a server. It gives the same batches, and builds them in this process,
    one after another.

    dataset: the folder of the pipeline's dataset, or a dict of folders by dataset id; none for a
    pipeline whose source is a plugin. plugins: folders by the names of the Python modules in them
    that the pipeline names; they run in processes of this interpreter's own kind (sys.executable).
    packed: batches come as they travel, for tools and tests: with narrow types, numbers of nodes
    within their graph, and without added edges.

    Besides the batches of the order, `batch_of` builds those of any examples.
    """
    if packed and micro != 1:
        raise ConfigError(f"packed=True: expected micro=1, got {micro}")
    if packed and validate:
        raise ConfigError("packed=True: expected no validate, which looks at the delivered form")
    if dataset is None:
        folders = {}
    else:
        folders = dataset if isinstance(dataset, dict) else {"": dataset}
    options = {
        "pipeline": pipeline_text(pipeline), "variant": variant or "", "overrides": overrides(set),
        "datasets": {name: os.fspath(folder) for name, folder in folders.items()},
        "plugins": {name: os.fspath(folder) for name, folder in (plugins or {}).items()},
        "python": sys.executable,
        "index_file": os.fspath(index_file) if index_file else "", "rank": rank,
        "world_size": world_size, "micro": micro, "index_dtype": index_dtype, "as_packed": packed,
    }

    def attach(at):
        reader = PlanReader({**options, "cursor": at or ""})
        reader.attach()
        return reader

    return Session(attach, cursor, {"address": "", "job": "", "rank": rank,
                                    "world_size": world_size, "replica": 0, "micro": micro},
                   validate=validate, repeat_first=repeat_first)


def pipeline_text(pipeline):
    """The YAML text of a pipeline, which is given as a path, a text or a dict."""
    if isinstance(pipeline, dict):
        return json.dumps(pipeline)  # JSON is YAML
    if isinstance(pipeline, str) and ("\n" in pipeline or pipeline.lstrip().startswith("{")):
        return pipeline
    try:
        with open(pipeline, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"pipeline {pipeline}: {error.strerror}", "NOT_FOUND") from error


def overrides(changes):
    """Changes of keys, {"batch.size": 64} or ["batch.size=64"], as the compiled part takes them."""
    if changes is None:
        return []
    if isinstance(changes, dict):
        return [f"{key}={_yaml(value)}" for key, value in changes.items()]
    if isinstance(changes, str) or not all(isinstance(change, str) for change in changes):
        raise ConfigError("set=: expected a dict of keys, {'batch.size': 64}, or a list of "
                          f"'key=value', got {changes!r}")
    return list(changes)


def _yaml(value):
    return value if isinstance(value, str) else json.dumps(value)


_network_of = []  # id of the process in which the network library runs; empty until it does


def _refuse_forked():
    """Raises JobError in a child of a process that used gRPC: gRPC would hang after the fork."""
    if not _network_of:
        _network_of.append(os.getpid())
    elif _network_of[0] != os.getpid():
        raise JobError(f"this process was forked from process {_network_of[0]}, which has used "
                       "millrace: start it with the method 'spawn', or connect after the fork only")


_holders = Holders()  # the sessions of this process
_nameless = itertools.count(1)  # numbers the sessions of this process that make up a job's name


def _job_variable(place):
    """The variable of the environment that names the job. None if there is none. A session that
    reads by itself is not of the launcher's job, of which each process may have several."""
    launchers = () if place.alone else ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
    return next((name for name in ("MILLRACE_JOB", *launchers)
                 if os.environ.get(name) not in (None, "", "none")), None)


def _default_job(place, variable):
    if variable is not None:
        return os.environ[variable]
    if place.world_size == 1:
        return f"{os.uname().nodename}-{os.getpid()}-{next(_nameless)}"
    raise ConfigError("job=: expected one name for all ranks, which no other training uses now")
