"""The ends of sessions: errors, closing, signals, forks."""

import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest
from conftest import in_a_fork, pipeline

import millrace


def test_errors_are_a_tree_with_codes(connect, server, tmp_path):
    with pytest.raises(millrace.JobError, match="did you mean shuffle") as caught:
        connect({**pipeline(), "shufle": {}})
    assert caught.value.code == "FAILED_PRECONDITION" and isinstance(caught.value, millrace.Error)
    with pytest.raises(millrace.ConfigError, match="did you mean shuffle") as caught:
        millrace.reference({**pipeline(), "shufle": {}}, "/nowhere")
    assert caught.value.code == "INVALID_ARGUMENT" and isinstance(caught.value, ValueError)
    with pytest.raises(millrace.ConfigError, match="missing.yaml") as caught:
        millrace.connect(server.address, pipeline=tmp_path / "missing.yaml")
    assert caught.value.code == "NOT_FOUND"
    with pytest.raises(millrace.ConfigError, match="rank 2 of world size 2"):
        connect(rank=2, world_size=2)
    with pytest.raises(millrace.ConnectionError) as caught:
        millrace.connect("127.0.0.1:1", pipeline=pipeline(), job="none", connect_timeout=0.3)
    assert isinstance(caught.value, ConnectionError)
    with pytest.raises(millrace.ConfigError, match="option|unexpected|not known"):
        from millrace._core import SessionReader
        SessionReader({"adress": "x", "pipeline": "x", "job": "x"})


def test_a_newer_session_takes_the_rank_over(connect):
    old = connect(job="taken")
    steps = iter(old.next_epoch())
    next(steps)
    connect(job="taken")
    with pytest.raises(millrace.JobError, match="taken over"):
        for _ in range(1000):  # the rest of an epoch may have come already
            for _ in steps:
                pass
            steps = iter(old.next_epoch())


def test_a_closed_session_says_so(connect):
    session = connect()
    session.close()
    session.close()
    with pytest.raises(millrace.Cancelled, match="closed"):
        next(iter(session.next_epoch()))


def test_what_a_session_did_is_known_after_its_end(connect, dataset):
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        for _ in session.next_epoch():
            pass
        stats = session.stats()
        assert stats["batches"] == len(session) and stats["moved_failed"] == 0
        session.close()
        assert f"{len(session)} steps" in session.report()
        assert session.stats().get("batches") == stats.get("batches")
        assert session.held() == []


def test_cancel_ends_a_wait_of_another_thread(server):
    # The session reads without end, so that only the cancellation can end it.
    session = millrace.connect(server.address, pipeline=pipeline(), job="cancelled")
    threading.Timer(0.2, session.cancel).start()
    with pytest.raises(millrace.Cancelled):
        while True:
            for epoch in session.epochs():
                for _ in epoch:
                    pass
    session.close()


_WAITS = """
import sys, millrace
print("waiting", flush=True)
millrace.connect({address!r}, pipeline={pipeline!r}, job="x", connect_timeout=100_000)
"""


def test_ctrl_c_ends_a_wait_at_once():
    code = _WAITS.format(address="127.0.0.1:1", pipeline=json.dumps(pipeline()))
    waits = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert waits.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    waits.send_signal(signal.SIGINT)
    _, err = waits.communicate(timeout=30)
    assert "KeyboardInterrupt" in err


def stand_still(pid):
    """Stops the process, and returns when all its threads stand still: kill() does not wait."""
    os.kill(pid, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{pid}/task")
    while any(t.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "T"
              for t in threads.iterdir()):
        time.sleep(0.01)


def test_a_wait_beyond_read_timeout_is_an_error_with_its_name(dataset):
    with millrace.LocalServer({"data": dataset}) as server:
        # The session's address is a text, so that it does not look at the daemon itself.
        session = millrace.connect(server.address, pipeline=pipeline(), job="late",
                                   read_timeout=0.5, prefetch_bytes=1)
        try:
            stand_still(server.pid)
            with pytest.raises(millrace.ConnectionError,
                               match="no batch came for 0.5 s .read_timeout. at .*: the loop "
                                     "waits for (lease|connect|build|queue|transfer)"):
                for epoch in session.epochs():
                    for _ in epoch:
                        pass
        finally:
            os.kill(server.pid, signal.SIGCONT)
        # It can go on where it was.
        session.load_state_dict(session.state_dict())
        next(iter(session.next_epoch()))
        session.close()


def test_signals_are_handled_while_the_vocabulary_is_waited_for(dataset):
    """The handler wakes the server. If it did not run, the vocabulary would never come."""
    with millrace.LocalServer({"data": dataset}) as server:
        session = millrace.connect(server.address, pipeline=pipeline(), job="vocabulary")
        next(iter(session.next_epoch()))  # so that a worker is known
        old = signal.signal(signal.SIGALRM, lambda *_: os.kill(server.pid, signal.SIGCONT))
        try:
            stand_still(server.pid)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            assert len(session.vocabulary["node_label_names"]) == session.spec.tables["node_labels"].rows
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
            os.kill(server.pid, signal.SIGCONT)
        session.close()


def test_a_wait_for_the_vocabulary_ends_with_the_session(dataset):
    with millrace.LocalServer({"data": dataset}) as server:
        session = millrace.connect(server.address, pipeline=pipeline(), job="vocabulary")
        next(iter(session.next_epoch()))  # so that a worker is known
        try:
            stand_still(server.pid)
            threading.Timer(0.3, session.cancel).start()
            with pytest.raises(millrace.Cancelled, match="cancelled"):
                session.context(0)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        session.close()


def test_a_forked_process_is_refused_and_ends(connect):
    session = connect()
    iterator = iter(session.next_epoch())
    held = list(next(iterator))
    held.append(held[1]["node_label"])

    def work():
        try:
            next(iterator)
            return 1
        except millrace.JobError as error:
            held.clear()
            gc.collect()
            session.close()
            return 0 if "forked" in str(error) else 2

    assert in_a_fork(work) == 0
    assert next(iterator)[0] == 1  # the parent goes on


def test_a_forked_process_cannot_connect_after_its_parent_did(connect):
    connect()

    def work():
        try:
            connect(job="child")
            return 1
        except millrace.JobError as error:
            return 0 if "spawn" in str(error) else 2

    assert in_a_fork(work) == 0
