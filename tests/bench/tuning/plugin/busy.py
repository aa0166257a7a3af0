"""A source whose batches of ROWS examples cost some milliseconds of CPU time in Python."""

import time

import numpy as np

__all__ = ["Busy"]

ROWS = 32
VALUES = 2048


class Busy:
    """Rows of random numbers, each after its share of a batch's work."""

    def __init__(self, milliseconds=5, size=1 << 16):
        self._share = milliseconds / 1e3 / ROWS
        self._size = size
        self._values = np.random.default_rng(0).random(size + VALUES, np.float32)

    def __len__(self):
        return self._size

    def spec(self):
        return {"x": f"float32[{VALUES}]", "y": "int64"}

    def __getitem__(self, i):
        # CPU time, not elapsed time: a neighbour does not do the work for it.
        end = time.thread_time() + self._share
        spent = i
        while time.thread_time() < end:
            for _ in range(20):
                spent = (spent * 48271 + 11) % 2147483647
        # How far it came depends on the machine, so the example has nothing of it.
        return {"x": self._values[i:i + VALUES], "y": np.int64(i)}
