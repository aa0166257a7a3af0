"""A generated dataset, a daemon over it, and the reference that batches are compared with."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest
from plugin_files import BROKEN, CORPUS, write

import millrace
from millrace import _binaries

# The folder of real datasets, looked for as in the C++ tests (tests/support/skip.h).
SHARED = pathlib.Path(os.environ.get("MILLRACE_SHARED")
                      or pathlib.Path(__file__).resolve().parents[3] / "shared")

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import patience  # noqa: E402


def pytest_runtest_logstart():
    patience.watch()


def pytest_collection_modifyitems(items):
    for item in items:
        if "real_dataset" in getattr(item, "fixturenames", ()) and not SHARED.is_dir():
            item.add_marker(pytest.mark.skip(reason=f"the real datasets are not at {SHARED}"))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """Sets an exit code of its own if every test was skipped, because that is no success."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    done = {outcome for outcome in ("passed", "failed", "error") if reporter.stats.get(outcome)}
    if exitstatus == 0 and not done:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def run(*arguments, **options):
    done = subprocess.run([_binaries.path("millrace"), *map(str, arguments)],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "generated"
    run("generate", folder, "--nodes", 40000, "--files", 6, "--seed", 5)
    return folder


@pytest.fixture(scope="session")
def real_dataset():
    """The dataset mini_stdlib. Its folder cannot be written, so its index is kept elsewhere."""
    return SHARED / "data" / "mini_stdlib"


@pytest.fixture(scope="session")
def server(dataset):
    with millrace.LocalServer({"data": dataset}) as daemon:
        yield daemon


def pipeline(size=16, remainder="keep", **more):
    return {"millrace": 1, "dataset": "data", "source": "proof_states", "shuffle": {"seed": 7},
            "closure": {"max_subgraph_size": 64}, "batch": {"size": size, "remainder": remainder},
            **more}


@pytest.fixture
def connect(server, request):
    """connect(pipeline, job=…, **options) opens a session, which is closed when the test ends."""
    opened = []

    def open_session(of=None, **options):
        options.setdefault("job", request.node.name)
        session = millrace.connect(server.address, pipeline=of or pipeline(), **options)
        opened.append(session)
        return session

    yield open_session
    for session in opened:
        session.close()


def digest(dataset, of, epoch, world_size=1, folder=None):
    """The batch log of an epoch, made by the command-line tool without a server."""
    path = folder / "pipeline.json"
    path.write_text(json.dumps(of))
    text = run("digest", path, "--dataset", f"data={dataset}", "--epoch", epoch, "--world-size",
               world_size)
    return [json.loads(line) for line in text.splitlines()]


def taken(session, until):
    """(epoch, step, hash) of every batch before epoch `until`."""
    return [(epoch.number, step, batch.digest)
            for epoch in session.epochs(until) for step, batch in epoch]


def in_a_fork(work):
    """The exit code of a forked process: what `work` returns there, or 99 if it raises."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    for _ in patience.tries(pause=0.01):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the forked process hangs")


@pytest.fixture(scope="session")
def corpus(tmp_path_factory):
    """The plugin `corpus` of plugin_files, as sessions list it."""
    return {"corpus": write(tmp_path_factory.mktemp("corpus"), "corpus", CORPUS)}


@pytest.fixture(scope="session")
def broken(tmp_path_factory):
    """The plugin `broken`, likewise."""
    return {"broken": write(tmp_path_factory.mktemp("broken"), "broken", BROKEN)}
