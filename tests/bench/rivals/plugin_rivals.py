#!/usr/bin/env python3
"""What other ways of building batches in Python reach with the source of plugin_source.py.

  plugin_rivals.py SIZE ROWS SECONDS [loop | multiprocessing | torch | grain]

Prints a line `NAME EXAMPLES/s CPU-SECONDS/EXAMPLE`. Every way ends with a batch in this process:
all values of x one after another with their lengths, y and n as arrays. torch and grain are left
out if they are not installed.
"""

import os
import sys
import time

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from plugin_source import Source  # noqa: E402


class Batch:
    """Memory of a batch, used again for the next one."""

    def __init__(self, rows, size):
        self.x = np.empty(rows * {"small": 110, "large": 72000}[size], np.float32)
        self.y = np.empty((rows, 20), np.float32)
        self.n = np.empty(rows, np.int64)
        self.splits = np.zeros(rows + 1, np.int64)

    def write(self, row, example):
        x = example["x"]
        begin = self.splits[row]
        end = begin + len(x)
        self.x[begin:end] = x
        self.splits[row + 1] = end
        self.y[row] = example["y"]
        self.n[row] = example["n"]


def ids(rows, step):
    return [i % 4096 for i in range(step * rows, (step + 1) * rows)]


def loop(size, rows):
    source, batch, step = Source(size), Batch(rows, size), 0
    while True:
        for row, i in enumerate(ids(rows, step)):
            batch.write(row, source[i])
        step += 1
        yield


def start_worker(size):
    global worker_source
    worker_source = Source(size)


def build_in_worker(numbers):
    return [worker_source[i] for i in numbers]


def multiprocessing(size, rows):
    import multiprocessing as module

    batch = Batch(rows, size)
    with module.get_context("fork").Pool(1, start_worker, (size,)) as pool:
        for examples in pool.imap(build_in_worker, (ids(rows, step) for step in range(1 << 40))):
            for row, example in enumerate(examples):
                batch.write(row, example)
            yield


def collate(examples):
    return (np.concatenate([one["x"] for one in examples]), [len(one["x"]) for one in examples],
            np.stack([one["y"] for one in examples]), np.array([one["n"] for one in examples]))


def torch(size, rows):
    from torch.utils.data import DataLoader

    while True:
        yield from DataLoader(Source(size), batch_size=rows, num_workers=1, collate_fn=collate)


def grain(size, rows):
    import grain.python as module

    data = module.MapDataset.source(Source(size)).repeat().batch(rows, batch_fn=collate)
    data = data.to_iter_dataset().mp_prefetch(module.MultiprocessingOptions(num_workers=1))
    yield from data


def cpu_seconds():
    """Of this process and of its children, dead or alive."""
    total = sum(os.times()[:4])
    ticks = os.sysconf("SC_CLK_TCK")
    for child in open(f"/proc/self/task/{os.getpid()}/children").read().split():
        fields = open(f"/proc/{child}/stat").read().rsplit(") ", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def main():
    size, rows, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    for name in sys.argv[4:]:
        try:
            batches = globals()[name](size, rows)
            for _ in range(3):
                next(batches)
        except ImportError:
            continue
        begin, cpu, count = time.monotonic(), cpu_seconds(), 0
        while time.monotonic() - begin < seconds:
            next(batches)
            count += rows
        elapsed = time.monotonic() - begin
        print(name, count / elapsed, (cpu_seconds() - cpu) / count, flush=True)
        batches.close()


if __name__ == "__main__":
    main()
