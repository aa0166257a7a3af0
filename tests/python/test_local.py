"""A local daemon: it comes with its session, and goes with it."""

import gc
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest
from conftest import in_a_fork, pipeline
from patience import tries

import millrace
from millrace import _binaries


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
        millrace.local({"data": tmp_path / "nothing"}, pipeline(), attach_timeout=600)


def test_bad_files_are_left_out_where_that_is_asked_for(dataset, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(dataset, folder)
    bad = sorted(folder.glob("**/*.bin"))[-1]  # no other file needs this one
    os.truncate(bad, bad.stat().st_size // 2)
    with pytest.raises(millrace.Error, match=bad.name):
        millrace.local({"data": folder}, pipeline(), attach_timeout=600)
    without = tmp_path / "without"
    shutil.copytree(dataset, without, ignore=lambda _, names: {bad.name, "millrace.index"} & {*names})
    expected = [b.digest for _, b in millrace.reference(pipeline(), without).next_epoch()]
    with millrace.local({"data": folder}, pipeline(), packed=True, skip_bad=True) as session:
        assert [b.digest for _, b in session.next_epoch()] == expected


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
    assert any(not alive(pid) for _ in tries())


class Child:
    """A process that was forked from this one, and holds all descriptors that this one has now."""

    def __enter__(self):
        self._pid = os.fork()
        if self._pid == 0:
            signal.pause()
            os._exit(0)
        return self

    def __exit__(self, *_):
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def test_a_daemon_ends_as_it_should_while_a_forked_child_lives(dataset):
    session = millrace.local({"data": dataset}, pipeline())
    next(iter(session.next_epoch()))
    daemon = session.server._child.process
    with Child():
        session.close()
        assert daemon.returncode == 0  # it was not killed


_KILLED = """
import os, signal, sys, millrace
server = millrace.LocalServer({"data": sys.argv[1]})
child = os.fork()
if child == 0:
    signal.pause()
print(server.pid, child, server._folder, flush=True)
signal.pause()
"""


def test_a_killed_process_leaves_nothing_for_long(dataset, tmp_path, monkeypatch):
    """Its daemon ends though a child lives; the next server removes its folder, and no other."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "millrace-local-of-a-user").mkdir()
    owner = subprocess.Popen([sys.executable, "-c", _KILLED, str(dataset)], stdout=subprocess.PIPE,
                             text=True)
    daemon, child, folder = owner.stdout.readline().split()
    owner.kill()
    owner.wait()
    assert any(not alive(int(daemon)) for _ in tries())
    os.kill(int(child), signal.SIGKILL)
    assert any(not alive(int(child)) for _ in tries())
    assert pathlib.Path(folder).is_dir()
    with millrace.LocalServer({"data": dataset}) as first, \
            millrace.LocalServer({"data": dataset}) as second:
        assert not pathlib.Path(folder).exists()
        assert first._folder.is_dir() and second._folder.is_dir()
    assert os.listdir(tmp_path) == ["millrace-local-of-a-user"]


def test_two_ranks_share_a_local_server(dataset):
    with millrace.LocalServer({"data": dataset}) as server:
        ranks = [millrace.connect(server.address, pipeline=pipeline(8), job="two", rank=rank,
                                  world_size=2) for rank in range(2)]
        steps = [next(iter(session.next_epoch()))[0] for session in ranks]
        assert steps == [0, 0]
        for session in ranks:
            session.close()


def test_a_session_ends_with_a_server_that_is_closed(dataset):
    server = millrace.LocalServer({"data": dataset})
    session = millrace.connect(server, pipeline=pipeline())
    server.close()
    with pytest.raises(millrace.Cancelled, match="closed"):
        for epoch in session.epochs():
            for _ in epoch:
                pass


def test_a_folder_of_the_users_is_kept(dataset, tmp_path):
    state = tmp_path / "state"
    with millrace.local({"data": dataset}, pipeline(), state=state):
        pass
    assert state.is_dir() and os.listdir(state)


_INTERRUPTED = """
import json, os, signal, sys, millrace
session = millrace.local({"data": sys.argv[1]}, json.loads(sys.argv[2]))
steps = iter(session.next_epoch())
next(steps)
try:
    os.killpg(0, signal.SIGINT)
    signal.pause()
except KeyboardInterrupt:
    pass
print(1 + sum(1 for epoch in session.epochs(1) for _ in epoch), len(session))
"""


def run_alone(code, *arguments):
    """The words that a script prints. The script runs in a process group of its own, as from a
    terminal, and must print no warning."""
    done = subprocess.run([sys.executable, "-c", code, *map(str, arguments)], capture_output=True,
                          text=True, check=False, start_new_session=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split()


def test_ctrl_c_in_a_terminal_leaves_the_daemon(dataset):
    given, steps = run_alone(_INTERRUPTED, dataset, json.dumps(pipeline()))
    assert given == steps


def test_a_session_says_that_its_daemon_has_ended(dataset):
    with millrace.local({"data": dataset}, pipeline()) as session:
        state = session.state_dict()
        session.seek(1)
        os.kill(session.server.pid, signal.SIGKILL)
        with pytest.raises(millrace.ConnectionError, match="the local daemon .* by signal 9"):
            for epoch in session.epochs():
                for _ in epoch:
                    pass
        with pytest.raises(millrace.ConnectionError, match="the local daemon .* by signal 9"):
            session.load_state_dict(state)
        state = session.state_dict()  # a new session could go on with it
        assert (state["epoch"], state["step"]) >= (1, 0)


def left_of(session):
    """The process and the folder of the session's daemon."""
    return session.server.pid, session.server._folder


def test_a_session_that_nobody_has_leaves_no_daemon(dataset):
    session = millrace.local({"data": dataset}, pipeline())
    next(iter(session.next_epoch()))
    pid, folder = left_of(session)
    assert alive(pid) and folder.is_dir()
    del session
    gc.collect()
    assert not alive(pid) and not folder.exists()


def test_a_script_that_ends_leaves_nothing(dataset):
    code = ("import json, sys, millrace\n"
            "session = millrace.local({'data': sys.argv[1]}, json.loads(sys.argv[2]))\n"
            "next(iter(session.next_epoch()))\n"
            "print(session.server.pid, session.server._folder)")
    pid, folder = run_alone(code, dataset, json.dumps(pipeline()))
    assert not alive(int(pid)) and not pathlib.Path(folder).exists()


def test_a_server_that_cannot_be_leaves_no_folder(dataset, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(millrace.ConfigError, match="expected folders by dataset id"):
        millrace.local(str(dataset), pipeline())
    with pytest.raises(millrace.Error, match="nothing is no folder"):
        millrace.local({"data": tmp_path / "nothing"}, pipeline(), attach_timeout=600)
    monkeypatch.setattr(_binaries, "__file__", str(tmp_path / "_binaries.py"))
    monkeypatch.delenv("MILLRACE_BIN", raising=False)
    with pytest.raises(millrace.ConfigError, match="millraced is in none of .*MILLRACE_BIN"):
        millrace.local({"data": dataset}, pipeline())
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_a_forked_child_leaves_its_parents_daemon(dataset):
    with millrace.local({"data": dataset}, pipeline()) as session:
        pid, folder = left_of(session)

        def work():
            session.close()
            return 0

        assert in_a_fork(work) == 0
        assert alive(pid) and folder.is_dir()
        assert sum(1 for _ in session.next_epoch()) == len(session)


def test_a_local_daemon_keeps_examples_in_a_folder(dataset, tmp_path):
    expected = [batch.digest for _, batch in millrace.reference(pipeline(), dataset).next_epoch()]
    cached = pipeline(cache={"examples": "disk"})
    for _ in range(2):
        with millrace.local({"data": dataset}, cached, packed=True, cache_bytes="32MiB",
                            cache_dir=tmp_path / "kept", cache_dir_bytes=64 << 20) as session:
            assert [batch.digest for _, batch in session.next_epoch()] == expected
    assert list((tmp_path / "kept").glob("millrace-*.examples"))
    with pytest.raises(millrace.Error, match="cache_bytes"):
        millrace.local({"data": dataset}, cached, cache_bytes="much", attach_timeout=600)
