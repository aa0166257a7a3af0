"""Processes of plugins and their ends, fleets whose workers differ or die, and commands."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import run
from fleet import Fleet, config_of, family_of, gone
from patience import tries
from plugin_files import CORPUS, RANDOM, all_rows, digests, of_plugin, write

import millrace
from millrace import _binaries


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_plugins_processes_end_with_the_daemon(corpus, how):
    server = millrace.LocalServer({}, plugins=corpus)
    session = millrace.connect(server, pipeline=of_plugin())
    next(iter(session.next_epoch()))
    family = family_of(server.pid)
    assert len(family) >= 2  # the fork server and a process
    os.kill(server.pid, how)
    assert gone(family)
    session.close()
    server.close()


FORKS = """
    import multiprocessing
    import os
    import signal
    import subprocess
    import sys
    import time

    __all__ = ["Terminated", "Handled"]

    ASK = ("import signal as s; print(s.getsignal(s.SIGTERM) is s.SIG_DFL, "
           "s.getsignal(s.SIGINT) is s.default_int_handler)")


    class Terminated:
        '''Whether a process goes on that is told to end right after it was forked.'''

        def __len__(self):
            return 60

        def spec(self):
            return {"lost": "int64"}

        def __getitem__(self, i):
            process = multiprocessing.Process(target=time.sleep, args=(600,))
            process.start()
            os.kill(process.pid, signal.SIGTERM if i % 2 else signal.SIGINT)
            process.join(30)
            lost = process.is_alive()
            if lost:
                process.kill()
                process.join()
            return {"lost": int(lost)}


    class Handled:
        '''Whether a program and a process have the usual handling of both signals.'''

        def __len__(self):
            return 1

        def spec(self):
            return {"program": "str", "process": "int64"}

        def __getitem__(self, i):
            program = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
            process = multiprocessing.Process(target=self.ask)
            process.start()
            process.join()
            return {"program": program.stdout.strip(), "process": process.exitcode}

        def ask(self):
            usual = [signal.getsignal(number) is signal.SIG_DFL
                     for number in (signal.SIGTERM, signal.SIGINT)]
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [])
            sys.exit(0 if all(usual) and not blocked else 1)
"""


def test_what_a_plugin_forks_ends_when_it_is_told_to(tmp_path):
    plugins = {"forks": write(tmp_path, "forks", FORKS)}
    rows = all_rows(millrace.reference(of_plugin("forks:Terminated"), plugins=plugins), "lost")
    assert [lost for _, lost in rows] == [0] * 60
    rows = all_rows(millrace.reference(of_plugin("forks:Handled"), plugins=plugins), "program",
                    "process")
    assert [(bytes(program), process) for _, program, process in rows] == [(b"True True", 0)]


def test_a_plugins_processes_end_with_the_reference(corpus, tmp_path):
    write(tmp_path, "corpus", CORPUS)
    code = ("import json, os, sys, millrace\n"
            "session = millrace.reference(json.loads(sys.argv[1]), plugins={'corpus': sys.argv[2]})\n"
            "next(iter(session.next_epoch()))\n"
            "print('ready', flush=True); sys.stdin.read()\n")
    owner = subprocess.Popen([sys.executable, "-c", code, json.dumps(of_plugin()), str(tmp_path)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert owner.stdout.readline() == "ready\n"
    family = family_of(owner.pid)
    assert len(family) >= 2
    owner.kill()
    owner.wait()
    assert gone(family)


def test_processes_that_are_killed_are_replaced_and_change_nothing(corpus):
    pipeline = of_plugin("corpus:Noisy", {"args": {"size": 400}})
    expected = digests(millrace.reference(pipeline, plugins=corpus))
    killed = 0
    # Little is fetched ahead, so that the kills meet work.
    with millrace.local({}, pipeline, plugins=corpus, packed=True, prefetch_bytes=4096) as session:
        got = []
        for step, batch in session.next_epoch():
            got.append(batch.digest)
            family = family_of(session.server.pid)
            if step % 10 == 0 and family:
                with contextlib.suppress(ProcessLookupError):  # it is being replaced
                    os.kill(family[step // 10 % len(family)], signal.SIGKILL)
                    killed += 1
        assert got == expected
    assert killed > 1


def test_what_a_plugin_prints_is_in_the_log_under_its_name(tmp_path):
    text = CORPUS.replace("        self.size = size", "        self.size = size\n"
                          "        print('opened the corpus')", 1)
    plugins = {"corpus": write(tmp_path, "corpus", text)}
    with millrace.local({}, of_plugin(), plugins=plugins, packed=True) as session:
        digests(session)
        server = session.server
        server_log = server.log()
    assert "opened the corpus" not in server_log  # it is no warning
    server = millrace.LocalServer({}, plugins=plugins, log_level="info")
    with server, millrace.connect(server, pipeline=of_plugin()) as session:
        next(iter(session.next_epoch()))
        line = next(line for line in server.log().splitlines() if "opened the corpus" in line)
    assert "corpus" in line.replace("opened the corpus", "") and "plugin says" in line


def test_workers_that_are_killed_change_nothing(corpus, tmp_path):
    pipeline = of_plugin("corpus:Noisy", {"args": {"size": 600}})
    expected = digests(millrace.reference(pipeline, plugins=corpus))
    config = config_of(tmp_path / "config", corpus, processes=2)
    with Fleet(tmp_path / "fleet", [config, config]) as fleet:
        got = []
        session = fleet.connect(pipeline)
        for step, batch in session.next_epoch():
            got.append(batch.digest)
            if step == 20:
                fleet.replace_a_worker()
        assert got == expected
        session.close()


@pytest.mark.parametrize("other", ["none", "changed"])
def test_a_worker_without_the_same_plugin_gets_no_work(corpus, tmp_path, other):
    config = config_of(tmp_path / "good", corpus, processes=1)
    if other == "none":
        listed = {"other": write(tmp_path / "listed", "other", CORPUS)}
        lacks = config_of(tmp_path / "other", listed, processes=1)
    else:
        changed = {"corpus": write(tmp_path / "changed", "corpus", CORPUS + "\n# repaired\n")}
        lacks = config_of(tmp_path / "other", changed, processes=1)
    expected = digests(millrace.reference(of_plugin(), plugins=corpus))
    with Fleet(tmp_path / "fleet", [config, lacks]) as fleet:
        session = fleet.connect(of_plugin())
        assert digests(session) == expected
        for _ in tries(pause=0.1):
            said = run("status", "--address", fleet.address)
            if ("dataset plugin:corpus" if other == "none" else "file 'corpus.py'") in said:
                break
        else:
            pytest.fail(said)
        session.close()


def _bucketed_by(column):
    return {"bucket": {"by": column, "count": 3, "size": 4}, "remainder": "keep"}


UNLISTED = {
    "a source": of_plugin("corpus:Noisy", {"args": {"size": 600}}),
    "its columns": of_plugin(batch=_bucketed_by("frames")),
    "measured columns": of_plugin("corpus:Measured", batch=_bucketed_by("features.length")),
}


@pytest.mark.parametrize("what", UNLISTED)
def test_a_dispatcher_without_the_plugin_asks_the_workers(corpus, tmp_path, what):
    pipeline = UNLISTED[what]
    expected = digests(millrace.reference(pipeline, plugins=corpus))
    config = config_of(tmp_path / "config", corpus, processes=1)
    bare = config_of(tmp_path / "bare", {})
    with Fleet(tmp_path / "fleet", [config, config], of_dispatcher=bare) as fleet:
        session = fleet.connect(pipeline)
        assert digests(session) == expected
        session.close()


def test_a_plugin_that_nobody_lists_ends_the_job(tmp_path):
    bare = config_of(tmp_path / "bare", {})
    other = config_of(tmp_path / "other", {"other": write(tmp_path / "listed", "other", CORPUS)})
    with Fleet(tmp_path / "fleet", [other], of_dispatcher=bare) as fleet:
        with pytest.raises(millrace.Error, match="neither the dispatcher nor one of its 1 workers "
                           "has plugin:corpus.*--plugin corpus=FOLDER"):
            fleet.connect(of_plugin())


def test_commands_name_plugins_too(corpus, tmp_path):
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(of_plugin()))
    listed = ["--plugin", f"corpus={corpus['corpus']}"]
    env = {**os.environ, "MILLRACE_PYTHON": sys.executable}
    lines = run("digest", path, *listed, "--epoch", 0, env=env).splitlines()
    expected = digests(millrace.reference(of_plugin(), plugins=corpus))
    assert [json.loads(line)["hash"] for line in lines] == expected
    inspected = run("inspect", path, *listed, env=env)
    assert 'source.python="corpus:Corpus"' in inspected
    assert "example 7 of corpus:Corpus" in run("batch", path, *listed, "--example", 7, env=env)
    checked = run("check", path, *listed, env=env)
    for line in ("corpus:Corpus", "features: float32[*, 3]", "frames: int64", "60 built",
                 "same bytes"):
        assert line in checked
    done = subprocess.run([_binaries.path("millrace"), "digest", path, "--epoch", "0"], env=env,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--plugin corpus=FOLDER" in done.stderr


COMPANY = """
    import numpy as np

    __all__ = ["Padded", "Fails"]


    class Padded:
        '''Pads each example to the longest one that is built with it.'''

        def __len__(self):
            return 40

        def spec(self):
            return {"x": "int64[*]"}

        def __getitem__(self, i):
            return self.__getitems__([i])[0]

        def __getitems__(self, ids):
            return [{"x": np.arange(max(i % 5 for i in ids))} for i in ids]


    class Fails(Padded):
        def __getitems__(self, ids):
            raise ValueError("bad key 'a\\x00b' in row 17")
"""


def check(tmp_path, named, text):
    module = named.partition(":")[0]
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(of_plugin(named)))
    return subprocess.run([_binaries.path("millrace"), "check", path, "--plugin",
                           f"{module}={write(tmp_path, module, text)}"],
                          env={**os.environ, "MILLRACE_PYTHON": sys.executable},
                          capture_output=True, text=True, check=False)


def test_check_finds_examples_that_depend_on_their_company(tmp_path):
    done = check(tmp_path, "company:Padded", COMPANY)
    assert done.returncode == 2, done.stderr
    assert "tensor x: two processes give different bytes" in done.stderr
    assert "at once with it" in done.stderr


def test_check_stops_early_where_all_fails_and_says_same_bytes_of_nothing(tmp_path):
    done = check(tmp_path, "company:Fails", COMPANY)
    assert done.returncode == 2, done.stderr
    assert "0 built, 0 dropped, 3 failed, of 40 to be tried" in done.stdout
    assert "same bytes" not in done.stdout
    assert r"bad key 'a\x00b' in row 17" in done.stdout and "\0" not in done.stdout


def test_check_names_the_tensor_that_differs(tmp_path):
    folder = write(tmp_path, "chance", RANDOM)
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps(of_plugin("chance:Source")))
    done = subprocess.run([_binaries.path("millrace"), "check", path, "--plugin", f"chance={folder}"],
                          env={**os.environ, "MILLRACE_PYTHON": sys.executable},
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "example 0, tensor x: two processes give different bytes" in done.stderr
