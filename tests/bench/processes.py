"""Processes of a measurement: they end with it, however it ends."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

_PDEATHSIG = 1  # prctl


def _end_with_parent():
    ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


class Failed(Exception):
    """A process did not do what it should; the message says what."""


class Process:
    """A running program with a group of its own. Lines of JSON that it prints are kept."""

    def __init__(self, name, command, log, env=None, lines=True):
        self.name = name
        self.lines = []
        self.began = None  # when the first line came
        self._log = open(log, "wb")
        self.log = log
        self.popen = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if lines else self._log, stderr=self._log,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}, start_new_session=True,
            preexec_fn=_end_with_parent)
        self._reader = None
        if lines:
            self._reader = threading.Thread(target=self._read, daemon=True)
            self._reader.start()

    def _read(self):
        for line in self.popen.stdout:
            if line.startswith(b"{"):
                self.lines.append(json.loads(line))
                self.began = self.began or time.monotonic()

    @property
    def pid(self):
        return self.popen.pid

    def running(self):
        return self.popen.poll() is None

    def failure(self):
        """What went wrong, from the end of its log."""
        with open(self.log, errors="replace") as log:
            last = [line for line in log.read().splitlines() if line.strip()][-3:]
        return Failed(f"{self.name} ended with {self.popen.returncode}: {' | '.join(last)[-600:]}")

    def wait(self, seconds):
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.name} does not end within {seconds:.0f} s; see {self.log}") from None
        if self._reader:
            self._reader.join()
        if self.popen.returncode != 0:
            raise self.failure()

    def close(self):
        """Ends the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()
        if self._reader:
            self._reader.join()
        self._log.close()


def memory_bytes(pid):
    """Memory of a process without the page cache, as memory_limit counts it; 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            parts = [line.split() for line in status]
    except OSError:
        return 0
    return sum(int(part[1]) << 10 for part in parts
               if part[0] in ("RssAnon:", "RssShmem:", "VmSwap:"))


class Sampler:
    """Calls a function again and again on a thread of its own, until it is closed."""

    def __init__(self, seconds, function):
        self.samples = []  # (monotonic time, what the function gave)
        self._stop = threading.Event()
        self._seconds, self._function = seconds, function
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._stop.wait(self._seconds):
            found = self._function()
            if found is not None:
                self.samples.append((time.monotonic(), found))

    def close(self):
        self._stop.set()
        self._thread.join()


@contextlib.contextmanager
def neighbours(count, folder):
    """Processes that take a CPU each."""
    running = []
    try:
        for number in range(count):
            running.append(Process("neighbour", [sys.executable, "-c", "while True: pass"],
                                   folder / f"neighbour-{number}.log", lines=False))
        yield
    finally:
        for process in running:
            process.close()
