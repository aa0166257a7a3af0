"""Plugins that fail, hang, crash, grow, fork and print, and their processes when daemons die."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import time

import checker
from cluster import EXAMPLES, check, wait_for
from fault import Impossible, fault

MODULE = pathlib.Path(__file__).resolve().parent / "plugin" / "faulty.py"
SLOWLY = {"delay": 0.01, "ahead": 30000}


def python_with_numpy():
    told = os.environ.get("MILLRACE_NUMPY_PYTHON")
    for python in [told] if told else ["/usr/bin/python3", "python3"]:
        if subprocess.run([python, "-c", "import numpy"], capture_output=True,
                          check=False).returncode == 0:
            return python
    raise Impossible("no python with numpy; set MILLRACE_NUMPY_PYTHON")


class Plugin:
    """A folder with the module `faulty`, and the options with which daemons list it."""

    def __init__(self, c, name="plugin", change="", **keys):
        self.folder = c.folder / name
        self.folder.mkdir()
        (self.folder / "faulty.py").write_text(MODULE.read_text() + change)
        self.config = c.folder / f"{name}.json"
        listed = {"path": str(self.folder), "python": python_with_numpy(), "processes": 2, **keys}
        self.config.write_text(json.dumps({"plugins": {"faulty": listed}}))

    @property
    def options(self):
        return ["--config", self.config]


def write_pipeline(c, how="", at=(), source=None, **more):
    """The pipeline of a cluster, whose source fails as told."""
    text = {"millrace": 1, "source": {"python": "faulty:Faulty", "args": {
        "how": how, "at": list(at), "size": EXAMPLES}, "timeout": 2, **(source or {})},
        "shuffle": {"seed": 7}, "batch": {"size": 8, "remainder": "keep"}, **more}
    path = c.folder / f"pipeline-{c._count}.json"
    path.write_text(json.dumps(text))
    c.pipeline = path


def reference(c, plugin, epoch, world_size=1):
    """The epoch as one process builds it, without a server."""
    with c.with_env(MILLRACE_PYTHON=python_with_numpy()):
        done = subprocess.run([os.environ["MILLRACE_CLI_BINARY"], "digest", str(c.pipeline), "--plugin",
                               f"faulty={plugin.folder}", "--epoch", str(epoch), "--world-size",
                               str(world_size)], env={**os.environ, **c.env}, capture_output=True,
                              text=True, timeout=300, check=False)
    check(done.returncode == 0, done.stderr[-2000:])
    return checker.parse(done.stdout, "digest")


def expect(c, plugin, consumer, world_size=1, epochs=1):
    """Checks E and B."""
    expected = [line for epoch in range(epochs) for line in reference(c, plugin, epoch, world_size)]
    checker.check(consumer.lines(), expected, world_size, EXAMPLES)


def below(pid):
    """The processes that a process has started, and theirs."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rsplit(")", 1)[1].split()
            if fields[0] != "Z":
                parents[int(stat.parent.name)] = int(fields[1])
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        children = [child for child, parent in parents.items() if parent == one]
        found += children
        todo += children
    return found


def processes_of(worker):
    """A worker's processes of plugins; right after one was killed there may be none for a moment."""
    found = []

    def some():
        found[:] = below(worker.popen.pid)
        return found

    wait_for(some, "the worker has no processes of plugins")
    return found


def with_processes(workers):
    """Those that have processes of plugins. A worker has some once it was asked for batches, and a
    process that was killed is replaced when it is asked again."""
    return wait_for(lambda: [worker for worker in workers if below(worker.popen.pid)],
                    "no worker has processes of plugins")


def is_gone(pid):
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] == "Z"


def expect_gone(pids):
    wait_for(lambda: all(map(is_gone, pids)), "processes of plugins are left")


# The words that the error must have, for each way to fail.
WAYS = {
    "exception": ("KeyError: 'label'", "in look_up"),
    "dtype": ('tensor "x": float64[', "expected float32[*]"),
    "shape": ('tensor "x": float32[1, ', "expected float32[*]"),
    "nothing": ("a NoneType in place of a dict of tensors",),
    "exit": ("SystemExit: 5",),
    "hard_exit": ("exit code 4", "said before the end"),
    "segfault": ("signal 11", "in segfault"),
    "memory": ("memory",),
}


@fault("43", "a plugin raises, gives other types, exits, crashes or takes too much memory", "L; E B without the example",
       ci=True, conditions=(
    "two workers; each of these ways, at an example that the seed chooses; then a job excludes the "
    "example, and one with `drop` drops what raises"))
def a_plugin_fails(run):
    with run.cluster() as c:
        plugin = Plugin(c, memory="400MiB")
        c.dispatcher(extra=plugin.options)
        workers = [c.worker(extra=plugin.options) for _ in range(2)]
        for how, said in WAYS.items():
            bad = run.random.randrange(1, EXAMPLES - 1)
            write_pipeline(c, how, [bad])
            consumer = c.consume(1, job=how, delay=0)
            code, _ = consumer.expect_error("faulty:Faulty", f"example {bad}", *said,
                                            f"exclude: {{examples: [{bad}]}}")
            check(code == 3, f"{how}: exit code {code}, expected 3")
            check(all(worker.alive() for worker in workers), "a worker died")
        write_pipeline(c, "segfault", [bad], exclude={"examples": [bad]})
        consumer = c.consume(1, job="excluding", delay=0)
        consumer.expect_success()
        expect(c, plugin, consumer)
        write_pipeline(c, "exception", [bad], {"drop": ["LookupError"]})
        consumer = c.consume(1, job="dropping", delay=0)
        consumer.expect_success()
        expect(c, plugin, consumer)
        check([bad, "plugin"] in [one for line in consumer.lines() for one in line["dropped"]],
              "the example is not dropped")


@fault("44", "a plugin hangs, with and without the GIL", "L P", ci=True, conditions=(
    "timeout 2 s an example; two workers; a hang in Python, and one in C that holds the GIL; three "
    "tries take 6 s; meanwhile another job goes on at the same workers"))
def a_plugin_hangs(run):
    with run.cluster() as c:
        plugin = Plugin(c)
        c.dispatcher(extra=plugin.options)
        for _ in range(2):
            c.worker(threads=2, extra=plugin.options)
        for how in ("hang", "hang_with_gil"):
            write_pipeline(c)
            other = c.consume(1, job=f"beside {how}", epochs=1000, **SLOWLY)
            other.wait_for_batches(5)
            write_pipeline(c, how, [run.random.randrange(1, EXAMPLES - 1)])
            began = time.monotonic()
            code, _ = c.consume(1, job=how, delay=0).expect_error("faulty:Faulty", f"in {how}")
            check(code == 3, f"exit code {code}, expected 3")
            run.within("the job's end", time.monotonic() - began, 20)
            run.within("longest stall of the other job", other.stall(began), 3)
            c.stop(other)


@fault("45", "kill -9 a worker with children alive, and processes of plugins", "E B P, no process is left",
       ci=True, conditions=(
    "two workers, 1 to 3 ranks, examples that change from epoch to epoch; eight processes of plugins "
    "are killed, then a worker, and another one begins"))
def a_worker_is_killed_with_its_children(run):
    with run.cluster() as c:
        plugin = Plugin(c)
        world_size = run.random.choice([1, 2, 3])
        write_pipeline(c, source={"python": "faulty:Varying", "args": {"size": EXAMPLES}})
        c.dispatcher(extra=plugin.options)
        workers = [c.worker(threads=2, extra=plugin.options) for _ in range(2)]
        # Workers build up to 4 s ahead; the job is longer than that.
        consumer = c.consume(world_size, epochs=10, **SLOWLY)
        for _ in range(8):
            consumer.wait_for_more(run.random.randrange(5, 20))
            worker = run.random.choice(with_processes(workers))
            with contextlib.suppress(ProcessLookupError):
                os.kill(run.random.choice(processes_of(worker)), 9)
        worker = run.random.choice(with_processes(workers))
        children = processes_of(worker)
        killed = time.monotonic()
        worker.kill()
        expect_gone(children)
        c.worker(extra=plugin.options)
        consumer.expect_success()
        run.within("longest stall", consumer.stall(killed), 3)
        expect(c, plugin, consumer, world_size, 10)


@fault("46", "a plugin starts threads and forks, and prints without end", "E B M", ci=True, conditions=(
    "every 50th example starts a thread that never ends, forks a process that comes back into the "
    "plugin's code, starts a program, and prints 1 MiB, part of it without line breaks"))
def a_plugin_is_noisy(run):
    with run.cluster() as c:
        plugin = Plugin(c)
        write_pipeline(c, "noise", range(run.random.randrange(50), EXAMPLES, 50), {"timeout": 30})
        c.dispatcher(extra=plugin.options)
        workers = [c.worker(extra=plugin.options) for _ in range(2)]
        consumer = c.consume(1, epochs=2, delay=0)
        consumer.expect_success()
        expect(c, plugin, consumer, epochs=2)
        run.note("memory of the worker", c.check_memory(200, *workers), "MiB")
        for worker in workers:
            check(not re.search(r"[^\n]{20000}", worker.text()), "a line of the log has no end")
            children = below(worker.popen.pid)
            worker.terminate()
            worker.expect_success()
            expect_gone(children)


@fault("47", "the module of a plugin was changed on one host", "L, no bad batch", ci=True, conditions=(
    "one worker has another version of the module, then lacks it, then has another variable on which "
    "values depend; the other worker joins later; meanwhile the module is overwritten below the "
    "running job"))
def a_module_is_changed(run):
    for how, said in (("changed", "file 'faulty.py'"), ("lacking", "plugin:faulty"), ("variable", "tensor x")):
        with run.cluster() as c:
            plugin = Plugin(c)
            write_pipeline(c)
            other = {"changed": lambda c: Plugin(c, "other", "\n# another line\n").options,
                     "lacking": lambda c: [],
                     "variable": lambda c: Plugin(c, "other", env={"SHIFT": "1"}).options}[how](c)
            c.dispatcher(extra=plugin.options)
            c.worker(extra=other)
            consumer = c.consume(1, epochs=2, **SLOWLY)
            wait_for(lambda said=said, c=c: said in c.run("status", "--address", c.address),
                     f"status does not say what differs ({how})")
            check(consumer.batches() == 0, f"a batch came from another plugin ({how})")
            c.worker(extra=plugin.options)
            consumer.wait_for_batches(run.random.randrange(1, 50))
            module = plugin.folder / "faulty.py"
            before = module.read_text()
            module.write_text("raise SystemError('half a file')")
            consumer.expect_success()  # what was hashed is what runs
            module.write_text(before)
            expect(c, plugin, consumer, epochs=2)
