"""The limits of tests. A limit ends what hangs; it says nothing about how quick the machine is.

So limits count seconds of now(), which goes on like the wall clock, but slower while this process
and those that it started wait for a CPU: if they get a third of the CPU time that they could use, a
second of now() takes three. `tests/support/main.cc` counts likewise for tests in C++. CTest's own
limit is in seconds of the wall clock, so it is long.
"""

import faulthandler
import os
import signal
import sys
import threading
import time

PATIENCE = float(os.environ.get("MILLRACE_TEST_PATIENCE", "90"))  # for one wait
WHOLE_TEST = 600
SAMPLE_SECONDS = 0.5  # between two looks at what the processes got


def _read(path):
    try:
        with open(path) as file:
            return file.read().split()
    except OSError:
        return []


def _threads():
    """{thread: (nanoseconds on a CPU, nanoseconds of waiting for one)} of this process and of all
    that it started. Empty if the kernel does not tell."""
    found, todo = {}, [str(os.getpid())]
    while todo:
        process = f"/proc/{todo.pop()}/task"
        try:
            threads = os.listdir(process)
        except OSError:
            continue
        for thread in threads:
            if len(times := _read(f"{process}/{thread}/schedstat")) == 3:
                found[thread] = int(times[0]), int(times[1])
            todo += _read(f"{process}/{thread}/children")
    return found


class _Clock:
    def __init__(self):
        self._lock = threading.Lock()
        self._at, self._threads = time.monotonic(), _threads()
        self._counted = self._shown = 0.0
        self._rate = 1.0

    def now(self):
        with self._lock:
            passed = time.monotonic() - self._at
            if passed >= SAMPLE_SECONDS:
                before, self._threads = self._threads, _threads()
                ran, waited = (sum(max(0, times[i] - before.get(thread, (0, 0))[i])
                                   for thread, times in self._threads.items()) / 1e9 for i in (0, 1))
                busy = min(passed, ran + waited)
                self._rate = 1 - busy / passed * waited / (ran + waited) if waited > 0 else 1
                self._counted += passed * self._rate
                self._at += passed
                passed = 0
            self._shown = max(self._shown, self._counted + passed * self._rate)
            return self._shown


now = _Clock().now


def tries(seconds=PATIENCE, pause=0.02):
    """Yields again and again, until `seconds` have been counted."""
    end = now() + seconds
    while now() < end:
        yield
        time.sleep(pause)


_end = None


def watch(seconds=WHOLE_TEST):
    """Ends the test that begins now if it is not done after `seconds`, wherever it hangs."""
    global _end
    if _end is None:
        signal.signal(signal.SIGALRM, _interrupt)
        threading.Thread(target=_watch, daemon=True).start()
    _end = now() + seconds


def _interrupt(*_):
    raise AssertionError("the test hangs")


def _watch():
    global _end
    interrupted = None
    while True:
        time.sleep(1)
        if now() < _end:
            continue
        if interrupted == _end:  # where no exception of Python comes through
            faulthandler.dump_traceback(sys.__stderr__)
            os._exit(1)
        _end = interrupted = now() + 60
        os.kill(os.getpid(), signal.SIGALRM)
