"""Runs ours: a daemon and a training loop, with tuned or with fixed settings."""

import contextlib
import json
import os
import pathlib
import subprocess
import time

import course
from processes import Failed, Process, Sampler, memory_bytes, neighbours

HERE = pathlib.Path(__file__).resolve().parent
STARTS_WITHIN = 60  # seconds until the daemon listens, and until the first batch


class Ours:
    def __init__(self, options, folder, datasets):
        self._folder = folder
        self._python = options.python
        self._daemon = options.build / "server" / "millraced"
        self._cli = options.build / "client" / "cli" / "millrace"
        self._datasets = datasets
        self._count = 0

    @contextlib.contextmanager
    def _serve(self, load, threads, folder):
        port_file = folder / "port"
        config = folder / "config.yaml"
        config.write_text(json.dumps({"plugins": {"busy": {
            "path": str(HERE / "plugin"), "python": str(self._python)}}}))
        command = [self._daemon, "serve", "--config", config, "--listen", "127.0.0.1:0",
                   "--batch-listen", "127.0.0.1:0", "--state", folder / "state", "--port-file",
                   port_file]
        if load.source != "python":
            command += ["--dataset", f"data={self._datasets[load.source]}"]
        if threads:
            command += ["--threads", threads]
        if load.memory_limit:
            command += ["--memory-limit", load.memory_limit]
        daemon = Process("the daemon", command, folder / "daemon.log", lines=False)
        try:
            end = time.monotonic() + STARTS_WITHIN
            while not (port_file.exists() and port_file.read_text().strip()):
                if not daemon.running():
                    raise daemon.failure()
                if time.monotonic() > end:
                    raise Failed(f"the daemon does not listen; see {daemon.log}")
                time.sleep(0.02)
            yield daemon, port_file.read_text().strip()
        finally:
            daemon.close()

    def _ask(self, *words):
        """The output of a command of `millrace`; None if it fails."""
        with contextlib.suppress(subprocess.SubprocessError):
            return subprocess.run([str(self._cli), *words], stdin=subprocess.DEVNULL,
                                  capture_output=True, check=True, timeout=10).stdout.decode()
        return None

    def measure(self, load, times, seconds, threads=None, prefetch=None, disturbed=None,
                expanded=None):
        """Trains for some seconds. With `threads`, nothing is tuned. `disturbed`: seconds from and
        to which a neighbour takes half the CPUs. `expanded`: how many batches lie expanded ahead of
        the loop, if not as many as usual. Returns a Course."""
        self._count += 1
        folder = self._folder / f"ours-{self._count}-{load.name}"
        folder.mkdir()
        pipeline = folder / "pipeline.yaml"
        pipeline.write_text(json.dumps(load.pipeline()))
        name = "tuned" if threads is None else f"{threads} threads"
        with self._serve(load, threads, folder) as (daemon, address):
            command = [self._python, HERE / "trainer.py", "--address", address, "--pipeline",
                       pipeline, "--seconds", seconds, "--schedule", course.schedule(load, times)]
            if threads is not None:
                command += ["--no-tune"]
            if prefetch:
                command += ["--prefetch-bytes", prefetch]
            if expanded is not None:
                command += ["--expanded-batches", expanded]
            trainer = Process("the training", command, folder / "trainer.log")
            memory = Sampler(0.2, lambda: memory_bytes(daemon.pid) or None)
            statuses = Sampler(1.0, lambda: self._status(address))
            # A job's story can be asked for only while the job is there.
            # Each question is a process, whose CPU time the loop lacks.
            stories = Sampler(seconds / 4, lambda: self._ask("tune", "--explain", "tuning", "--address",
                                                     address)) if threads is None else None
            try:
                follow(trainer, seconds, disturbed, folder)
                told = course.Course.of(name, trainer)
            finally:
                memory.close()
                statuses.close()
                if stories:
                    stories.close()
                trainer.close()
            told.memory = [(at - trainer.began, value) for at, value in memory.samples]
            told.statuses = [(at - trainer.began, value) for at, value in statuses.samples]
            if stories and stories.samples:
                told.explained = stories.samples[-1][1]
            return told

    def _status(self, address):
        text = self._ask("status", "--address", address, "--format", "json")
        return json.loads(text) if text else None


def follow(process, seconds, disturbed, folder):
    """Waits until a training has ended, with neighbours meanwhile if they are wanted."""
    end = time.monotonic() + STARTS_WITHIN
    while process.began is None:
        if not process.running():
            raise process.failure()
        if time.monotonic() > end:
            raise Failed(f"{process.name}: no batch within {STARTS_WITHIN} s; see {process.log}")
        time.sleep(0.02)
    if disturbed:
        begin, until = disturbed
        time.sleep(max(0, process.began + begin - time.monotonic()))
        with neighbours(half_of_the_cpus(), folder):
            time.sleep(max(0, process.began + until - time.monotonic()))
    process.wait(process.began + seconds + STARTS_WITHIN - time.monotonic())


def half_of_the_cpus():
    return max(1, len(os.sched_getaffinity(0)) // 2)
