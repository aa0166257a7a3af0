"""Measures ways to sample neighbourhoods, in rounds, and prints the median round.

A way is an iterator that makes a batch when it is asked for the next one. No batch occurs twice.
The rate is edges over the wall time or the CPU time of all threads and processes, whichever is
better for the rival.

  sample    sampling alone, with compaction: nodes of the batch numbered from 0, without duplicates
  features  and the rows of node_feature/x of these nodes, by torch.index_select
  loader    the same through the rival's own loader with one worker process, up to the batch in the
            process that trains, which reads every byte of it

The clock stands still between two batches except with `loader`, so that only making them counts.
"""

import dataclasses
import json
import multiprocessing
import statistics
import time

import measure

@dataclasses.dataclass
class Batch:
    nodes: int
    edges: int
    arrays: list  # all that a training step reads


@dataclasses.dataclass
class Round:
    batches: int = 0
    roots: int = 0
    nodes: int = 0
    edges: int = 0
    wall: float = 0
    cpu: float = 0

    def add(self, batch, roots):
        self.batches += 1
        self.roots += roots
        self.nodes += batch.nodes
        self.edges += batch.edges

    def seconds(self):
        return min(self.wall, self.cpu)


def options(**more):
    return measure.options(mode="sample", rounds=5, roots="", feature="x", mapped=0, **more)


def _clocks(parallel):
    children = [child.pid for child in multiprocessing.active_children()] if parallel else []
    return time.perf_counter(), measure.cpu_seconds(*children)


class _Touched:
    """Sums up what is read, so that no batch can be left unmade."""

    def __init__(self):
        self._meter = measure.Meter(0)

    def read(self, batch):
        self._meter.touch(*batch.arrays)

    def checksum(self):
        return self._meter.checksum()


def run(batches, parsed, roots_of_a_batch):
    """Returns the rounds and a checksum. A tenth of the time before them warms up."""
    parallel = parsed.mode == "loader"
    touched = _Touched()
    rounds = []
    for length in [parsed.seconds / 10] + [parsed.seconds / parsed.rounds] * parsed.rounds:
        one = Round()
        if parallel:
            _read_through(batches, one, touched, length, roots_of_a_batch)
        else:
            while one.wall < length or one.batches < 2:
                wall, cpu = _clocks(False)
                batch = next(batches)
                after, cpu_after = _clocks(False)
                one.wall += after - wall
                one.cpu += cpu_after - cpu
                one.add(batch, roots_of_a_batch)
                touched.read(batch)
        rounds.append(one)
    return rounds[1:], touched.checksum()


def _read_through(batches, one, touched, length, roots_of_a_batch):
    wall, cpu = _clocks(True)
    while one.wall < length or one.batches < 2:
        batch = next(batches)
        touched.read(batch)
        one.add(batch, roots_of_a_batch)
        one.wall = time.perf_counter() - wall
    _, after = _clocks(True)
    one.cpu = after - cpu


def report(rival, parsed, rounds, checksum, checked, versions):
    """`checked`: edges of some batches, and how many there are by the definition of sampling
    without replacement."""
    rate = statistics.median(r.edges / r.seconds() for r in rounds)
    middle = min(rounds, key=lambda r: abs(r.edges / r.seconds() - rate))
    print(json.dumps({
        "name": "sampled edges", "value": rate, "unit": "edges/s", "limit_name": "", "limit": 0,
        "params": {"checksum": checksum, "roots/s": f"{middle.roots / middle.seconds():.0f}",
                   **versions},
        "rival": rival, "mode": parsed.mode, "edges_per_s": rate, "rounds": len(rounds),
        "batches": middle.batches, "edges": middle.edges, "nodes": middle.nodes,
        "edges_a_batch": middle.edges / middle.batches,
        "nodes_a_batch": middle.nodes / middle.batches,
        "wall_seconds": middle.wall, "cpu_seconds": middle.cpu,
        "edges_per_wall_second": middle.edges / middle.wall,
        "edges_per_cpu_second": middle.edges / middle.cpu, "checked": checked}), flush=True)
