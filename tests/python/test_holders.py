"""Sessions of one process that would have one job and rank."""

import gc

import pytest
from conftest import pipeline, run

import millrace

ANOTHER = pipeline(8)


@pytest.fixture
def named(monkeypatch, request):
    """Sets MILLRACE_JOB, and none of the variables of launchers."""
    for name in ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_NTASKS", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MILLRACE_JOB", request.node.name)


@pytest.mark.parametrize("of", [pipeline(), ANOTHER])
def test_a_second_session_without_a_name_is_refused(connect, named, of):
    first = connect(job=None)
    steps = iter(first.next_epoch())
    next(steps)
    with pytest.raises(millrace.ConfigError, match="from MILLRACE_JOB.*an open session.*job="):
        connect(of, job=None)
    assert [step for step, _ in steps] == list(range(1, len(first)))
    assert connect(of, job=f"{len(of)} {of['batch']['size']}").next_epoch().number == 0


@pytest.mark.parametrize("variable", ["TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"])
def test_sessions_of_one_rank_have_jobs_of_their_own(connect, named, monkeypatch, variable):
    monkeypatch.delenv("MILLRACE_JOB")
    monkeypatch.setenv(variable, "77")
    for session in [connect(of, job=None, attach_timeout=600) for of in (pipeline(), ANOTHER)]:
        assert sum(1 for _ in session.next_epoch()) == len(session)


def test_ranks_of_a_launcher_have_its_job(connect, named, monkeypatch):
    monkeypatch.delenv("MILLRACE_JOB")
    monkeypatch.setenv("SLURM_JOB_ID", "78")
    ranks = [connect(job=None, rank=rank, world_size=2) for rank in range(2)]
    assert [rank.describe()["millrace/job"] for rank in ranks] == ["78", "78"]
    with pytest.raises(millrace.ConfigError, match="job 78 .from SLURM_JOB_ID.: this process has"):
        connect(job=None, rank=1, world_size=2)


def test_another_pipeline_of_an_open_sessions_job_is_refused(connect):
    first = connect(job="cell")
    with pytest.raises(millrace.ConfigError, match="open session of it with another pipeline"):
        connect(ANOTHER, job="cell")
    first.close()
    assert len(connect(ANOTHER, job="cell")) > len(first)


def test_a_session_that_nobody_refers_to_gives_way(server, named):
    session = millrace.connect(server, pipeline=pipeline())
    session.itself = session  # so that only the garbage collector closes it
    gc.disable()
    try:
        del session
        with millrace.connect(server, pipeline=ANOTHER) as other:
            assert sum(1 for _ in other.next_epoch()) == len(other)
    finally:
        gc.enable()


def test_a_session_that_was_ended_gives_way(connect, server):
    first = connect(job="ended")
    run("jobs", "end", "ended", "--address", server.address)
    with pytest.raises(millrace.Error):
        for epoch in first.epochs():
            for _ in epoch:
                pass
    assert connect(ANOTHER, job="ended").next_epoch().number == 0


def test_a_cancelled_session_does_not_give_way_until_it_is_closed(connect):
    first = connect(job="cancelled")
    first.cancel()
    with pytest.raises(millrace.Cancelled):
        next(iter(first.next_epoch()))
    with pytest.raises(millrace.ConfigError, match="open session"):
        connect(ANOTHER, job="cancelled")
    first.close()
    connect(ANOTHER, job="cancelled")
