"""A plugin for faults: an example does what it is told to."""

import ctypes
import os
import subprocess
import sys
import threading
import time

import numpy as np

__all__ = ["Faulty", "Varying"]
SHIFT = int(os.environ.get("SHIFT", "0"))


class Faulty:
    def __init__(self, size, how="", at=()):
        self.size = size
        self.how = how
        self.at = frozenset(at)
        self.kept = []

    def __len__(self):
        return self.size

    def spec(self):
        return {"x": "float32[*]", "n": "int64"}

    def __getitem__(self, i):
        example = {"x": np.arange(i % 30, dtype=np.float32) + SHIFT, "n": i}
        return getattr(self, self.how)(example) if i in self.at else example

    def exception(self, example):
        return self.look_up(example)

    def look_up(self, example):
        return example["label"]

    def dtype(self, example):
        return {**example, "x": example["x"].astype(np.float64)}

    def shape(self, example):
        return {**example, "x": example["x"][None]}

    def nothing(self, example):
        return None

    def exit(self, example):
        sys.exit(5)

    def hard_exit(self, example):
        print("said before the end", flush=True)
        os._exit(4)

    def segfault(self, example):
        ctypes.string_at(0)

    def memory(self, example):
        while True:
            self.kept.append(np.ones(1 << 22))
            time.sleep(0.001)

    def hang(self, example):
        while True:
            time.sleep(1)

    def hang_with_gil(self, example):
        while True:
            ctypes.PyDLL(None).pause()  # PyDLL does not release the GIL

    def noise(self, example):
        threading.Thread(target=lambda: time.sleep(100000), daemon=True).start()
        if os.fork() == 0:
            return example  # comes back into code that is not its own
        subprocess.Popen(["sleep", "100000"])
        print("a line\n" * (1 << 16), flush=True)
        print("no line break " * (1 << 15), flush=True)
        return example


class Varying(Faulty):
    def spec(self):
        return {"x": "float64[*]", "n": "int64"}

    def example(self, i, epoch, rng):
        return {"x": rng.random(i % 30), "n": epoch}
