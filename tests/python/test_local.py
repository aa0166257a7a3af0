"""A daemon of one's own: it is there with the session, and gone with it."""

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import pipeline

import millrace


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_local_gives_the_references_batches(dataset):
    expected = [batch.digest for _, batch in millrace.reference(pipeline(), dataset).next_epoch()]
    with millrace.local({"data": dataset}, pipeline(), packed=True) as session:
        assert [batch.digest for _, batch in session.next_epoch()] == expected
        pid = session.server.pid
        assert alive(pid)
    assert not alive(pid)


def test_what_the_daemon_says_is_in_the_error(tmp_path):
    with pytest.raises(millrace.Error, match="nothing is no folder"):
        millrace.local({"data": tmp_path / "nothing"}, pipeline(), attach_timeout=20)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_daemon_ends_with_the_process_that_started_it(dataset, how):
    code = ("import sys, time, millrace; server = millrace.LocalServer({'data': sys.argv[1]}); "
            "print(server.pid, flush=True); time.sleep(600)")
    owner = subprocess.Popen([sys.executable, "-c", code, str(dataset)], stdout=subprocess.PIPE,
                             text=True)
    pid = int(owner.stdout.readline())
    assert alive(pid)
    owner.send_signal(how)
    owner.wait()
    end = time.monotonic() + 30
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.02)
    assert not alive(pid)


def test_two_ranks_share_a_local_server(dataset):
    with millrace.LocalServer({"data": dataset}) as server:
        ranks = [millrace.connect(server.address, pipeline=pipeline(8), job="two", rank=rank,
                                  world_size=2) for rank in range(2)]
        steps = [next(iter(session.next_epoch()))[0] for session in ranks]
        assert steps == [0, 0]
        for session in ranks:
            session.close()


def test_a_folder_of_the_users_is_kept(dataset, tmp_path):
    state = tmp_path / "state"
    with millrace.local({"data": dataset}, pipeline(), state=state):
        pass
    assert state.is_dir() and os.listdir(state)
