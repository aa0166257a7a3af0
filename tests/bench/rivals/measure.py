"""The parts that all rival programs share: options, time and CPU, checksums, and the printed line.

A rival program measures for `--seconds` after its own set-up and a warm-up. `--seed` shuffles the
examples, so that no two samples have the same order. Every array that the program makes is read: it
enters an XXH3-128.
"""

import argparse
import importlib.metadata
import json
import resource
import time

import numpy as np
import xxhash


def options(**more):
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="dataset folder")
    parser.add_argument("--csr", help="the dataset as arrays, see csr.py")
    parser.add_argument("--scratch", help="folder for files of this run")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--seed", type=int, default=0)
    for name, default in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default)
    return parser.parse_args()


def versions(*packages):
    return {p: importlib.metadata.version(p) for p in packages}


def emit(name, value, unit, **params):
    print(json.dumps({"name": name, "value": value, "unit": unit, "limit_name": "", "limit": 0,
                      "params": {k: str(v) for k, v in params.items()}}), flush=True)


def cpu_seconds(*pids):
    """CPU seconds of this process, of its ended children, and of the running processes `pids`."""
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    for pid in pids:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / 100
    return total


class Meter:
    """Counts until the time is over. `take` says whether there is time for more. With `one_core` the
    rate is over wall time or over the CPU time of all threads, whichever is better for the rival.
    Our own rate is over the CPU time of one thread."""

    def __init__(self, seconds, one_core=False):
        self._seconds = seconds
        self._one_core = one_core
        self._hash = xxhash.xxh3_128()
        self.warm = False
        self.count = 0
        self.nbytes = 0
        self._restart()

    def _restart(self):
        self.began = time.perf_counter()
        self.began_cpu = time.process_time()
        self.count = 0
        self.nbytes = 0

    def touch(self, *arrays):
        """Reads every byte of the arrays."""
        for array in arrays:
            self._hash.update(np.ascontiguousarray(array))
            self.nbytes += array.nbytes

    def took(self):
        return time.perf_counter() - self.began

    def take(self, n=1):
        """Counts n examples (or messages). The first tenth of the time warms up and does not count."""
        self.count += n
        if not self.warm:
            if self.took() < self._seconds / 10:
                return True
            self.warm = True
            self._restart()
            return True
        return self.took() < self._seconds

    def rate(self):
        took = self.took()
        if self._one_core:
            took = min(took, time.process_time() - self.began_cpu)
        return self.count / took

    def checksum(self):
        return self._hash.hexdigest()
