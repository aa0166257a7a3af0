"""The places where a process finds its rank."""

import pytest

from millrace import ConfigError, _ranks


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "PMI_RANK", "PMI_SIZE",
                 "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMIX_SIZE"):
        monkeypatch.delenv(name, raising=False)


def test_one_rank_by_default():
    place = _ranks.find()
    assert (place.rank, place.world_size, place.replica) == (0, 1, 0)


def test_arguments_come_first(monkeypatch):
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "8")
    assert _ranks.find(1, 4).rank == 1
    place = _ranks.find()
    assert (place.rank, place.world_size, place.source) == (5, 8, "RANK and WORLD_SIZE")


@pytest.mark.parametrize("name, missing", [("RANK", "WORLD_SIZE"), ("WORLD_SIZE", "RANK")])
def test_half_of_a_place_in_the_environment_is_refused(monkeypatch, name, missing):
    monkeypatch.setenv(name, "1")
    with pytest.raises(ConfigError, match=f"{name}='1' is in the environment, and {missing} is not"):
        _ranks.find()
    assert _ranks.find(2, 4).rank == 2


def test_a_rank_is_a_whole_number():
    with pytest.raises(ConfigError, match="rank=1.7: expected an integer"):
        _ranks.find(1.7, 2)
    with pytest.raises(ConfigError, match="world_size='2': expected an integer"):
        _ranks.find(1, "2")


def test_slurm_and_mpi_when_asked_for(monkeypatch):
    monkeypatch.setenv("SLURM_PROCID", "3")
    monkeypatch.setenv("SLURM_NTASKS", "4")
    assert _ranks.find().world_size == 1
    assert _ranks.find("slurm").rank == 3
    with pytest.raises(ConfigError, match="OMPI_COMM_WORLD_RANK"):
        _ranks.find("mpi")
    monkeypatch.setenv("PMI_RANK", "1")
    monkeypatch.setenv("PMI_SIZE", "2")
    assert _ranks.find("mpi").world_size == 2


@pytest.mark.parametrize("what, variable", [
    ("slurm", "SLURM_NTASKS"), ("mpi", "OMPI_COMM_WORLD_SIZE"), ("mpi", "PMI_SIZE")])
def test_ranks_of_a_launcher_that_nobody_asked_for_are_named(monkeypatch, what, variable):
    monkeypatch.setenv(variable, "1")
    assert _ranks.find().warning == ""
    monkeypatch.setenv(variable, "3")
    assert f'{variable}=3' in _ranks.find().warning and f'rank="{what}"' in _ranks.find().warning
    assert _ranks.find(0, 1).warning == ""
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert _ranks.find().warning == ""


def test_a_process_reads_by_itself_unless_it_has_ranks_or_replicas(monkeypatch):
    assert _ranks.find().alone and _ranks.find(0, 1).alone
    assert not _ranks.find(0, 2).alone and not _ranks.find(0, 1, replica=0).alone
    assert not _ranks.find(mesh=Mesh()).alone
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_NTASKS", "2")
    assert not _ranks.find("slurm").alone


def test_what_cannot_be_is_said(monkeypatch):
    with pytest.raises(ConfigError, match="'slurm' or 'mpi'"):
        _ranks.find("pbs")
    with pytest.raises(ConfigError, match="together"):
        _ranks.find(rank=1)
    monkeypatch.setenv("RANK", "one")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match="RANK='one'"):
        _ranks.find()


class Mesh:
    """A DeviceMesh of 2 x 3, as the process at (1, 2) sees it."""

    mesh_dim_names = ("dp", "tp")

    def size(self, dimension=None):
        return 6 if dimension is None else (2, 3)[dimension]

    def get_local_rank(self, name=None):
        return {"dp": 1, "tp": 2}[name]


def test_a_mesh_gives_rank_and_replica():
    place = _ranks.find(mesh=Mesh())
    assert (place.rank, place.world_size, place.replica) == (1, 2, 2)
    place = _ranks.find(mesh=(Mesh(), "tp"))
    assert (place.rank, place.world_size, place.replica) == (2, 3, 1)
    with pytest.raises(ConfigError, match="the mesh has dp, tp"):
        _ranks.find(mesh=(Mesh(), "pp"))
    with pytest.raises(ConfigError, match="either"):
        _ranks.find(0, 1, mesh=Mesh())
    with pytest.raises(ConfigError, match="a mesh numbers the replicas"):
        _ranks.find(mesh=Mesh(), replica=1)
