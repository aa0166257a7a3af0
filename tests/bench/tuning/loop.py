"""The training loop that every loader is measured with, and what it tells of each second.

A step takes a batch, reads every byte of it, and sleeps for the rest of the step, as a loop does
that waits for its GPU. The loop prints one JSON object a second,
and besides one when it begins and one at its end:

    batches         taken in this second
    waited          seconds in which the loop waited for its next batch, of all of them. The first
                    HAND_OVER of each wait is not counted: so long takes a batch that is there
    longest         the longest wait, with that
    late            seconds in which steps lasted longer than they should: others had the loop's
                    CPU or, in its process, Python's lock
    bytes           of the batches, as the loop gets them
    held_batches    batches that the loader had begun and the loop had not taken, in the mean
    held_bytes      the same in bytes
    held_most       the most of these bytes

Time begins with the first batch, so the start of a loader does not count.
"""

import argparse
import json
import time

import numpy as np

HAND_OVER = 0.0005  # seconds


def parser(description):
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--seconds", type=float, required=True, help="length of the measurement")
    made.add_argument("--schedule", default="0:0.02",
                      help="SECOND:STEP,…: seconds of a step from that second on")
    return made


def step_at(schedule, second):
    """The step's seconds at a second of the run."""
    found = 0.0
    for begin, step in schedule:
        if second >= begin:
            found = step
    return found


def read_schedule(text):
    return [tuple(map(float, part.split(":"))) for part in text.split(",")]


def touch(array):
    """The sum of an array's bytes, read as words."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    whole = flat.size & ~7
    return int(flat[:whole].view(np.uint64).sum(dtype=np.uint64)) + int(flat[whole:].sum())


class Second:
    def __init__(self):
        self.batches = self.bytes = 0
        self.waited = self.longest = self.late = 0.0
        self.held = []  # (batches, bytes)

    def line(self):
        held = self.held or [(0, 0)]
        return {"batches": self.batches, "waited": self.waited, "longest": self.longest,
                "late": self.late, "bytes": self.bytes, "held_batches": sum(h[0] for h in held) / len(held),
                "held_bytes": sum(h[1] for h in held) / len(held),
                "held_most": max(h[1] for h in held)}


def run(batches, options, held):
    """Trains on an iterator of batches, which are lists of arrays. `held(mean)` gives the batches
    that the loader holds and their bytes; `mean` is the mean size of a batch as the loop gets it."""
    schedule = read_schedule(options.schedule)
    checked = 0
    next(batches)
    print(json.dumps({"began": True}), flush=True)
    began = asked = time.perf_counter()
    second, number, looked = Second(), 0, 0.0
    mean = 0.0
    while asked - began < options.seconds:
        if asked - looked > 0.02:  # before the loop takes a batch, so that the batch still counts
            looked = asked
            second.held.append(held(mean))
        asked = time.perf_counter()
        arrays = next(batches)
        taken = time.perf_counter()
        size = sum(array.nbytes for array in arrays)
        mean += (size - mean) / 16 if mean else size
        for array in arrays:
            checked ^= touch(array)
        second.batches += 1
        second.bytes += size
        second.waited += max(0.0, taken - asked - HAND_OVER)
        second.longest = max(second.longest, taken - asked)
        step = step_at(schedule, taken - began)
        rest = step - (time.perf_counter() - taken)
        if rest > 0:
            time.sleep(rest)
        asked = time.perf_counter()
        if step > 0:
            second.late += max(0.0, asked - taken - step)
        # A long wait is told in as many seconds as it took.
        while int(asked - began) > number:
            print(json.dumps(second.line()), flush=True)
            second, number = Second(), number + 1
    print(json.dumps({"checked": f"{checked:x}"}), flush=True)
