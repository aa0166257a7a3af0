"""The programs that make the table, and the names of the plots of their figures. {data} stands for
the dataset, {large} for a generated one. The table also names the programs that are not built."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Benchmark:
    letter: str
    title: str
    programs: tuple        # command lines without the folder; each is run once for each sample
    quick: tuple           # the same, but ready in a few seconds, for tests
    plots: dict            # unit -> name of the plot that shows its figures
    seconds: float = 120   # the runner gives up a run after this time


def closure(*arguments, rounds="100"):
    return ("bench_closure", "{data}", "--json", "--rounds", rounds, *arguments)


def stream(*arguments, seconds="2"):
    return ("bench_end_to_end", "{data}", "--json", "--seconds", seconds, *arguments)


BENCHMARKS = (
    Benchmark("limits", "what the machine can do",
              (("bench_limits", "--json", "--seconds", "1"),),
              (("bench_limits", "--json", "--seconds", "0.05", "--buffer", "16", "--hand-overs",
                "500"),),
              {"us": "machine-hand-over-time", "GB/s": "machine-copy-and-network-rate",
               "CPU s/GB": "machine-network-cpu", "M reads/s": "machine-random-read-rate"}),
    Benchmark("a", "closure",
              (closure("--size", "512"), closure("--size", "512", "--kernel", "table"),
               closure("--size", "32"), closure("--size", "4096"),
               closure("--size", "64", "--source", "definitions")),
              (closure("--size", "64", rounds="2"),),
              {"examples/s": "closure-rate-by-batch-size", "edges/s": "closure-edge-rate"}),
    Benchmark("b", "packing and expansion", (("bench_expand", "--json"),),
              (("bench_expand", "--json", "--batches", "2", "--rounds", "2"),),
              {"GB/s": "packing-byte-rate", "M examples/s": "packing-example-rate"}),
    Benchmark("c", "wire", (("bench_wire", "--json", "--seconds", "2"),),
              (("bench_wire", "--json", "--seconds", "0.2", "--kib", "64"),),
              {"GB/s": "wire-rate-by-payload-size", "CPU s/GB": "wire-cpu-by-payload-size"}),
    Benchmark("d", "shared memory", (("bench_shm", "--json"),), (("bench_shm", "--json"),),
              {"GiB/s": "shared-memory-rate", "us": "shared-memory-hand-over-time"}),
    Benchmark("e", "end to end",
              (stream("--batch", "512"), stream("--batch", "64"), stream("--batch", "2048"),
               stream("--batch", "512", "--network"), stream("--batch", "64", "--network"),
               stream("--batch", "512", "--threads", "2"),
               stream("--batch", "512", "--consumers", "2"),
               ("bench_fleet", "{large}", "--json")),
              (stream("--batch", "16", seconds="0.3"),
               ("bench_fleet", "{large}", "--json", "--batch", "8", "--seconds", "0.3")),
              {"examples/s": "end-to-end-example-rate", "GB/s": "end-to-end-byte-rate",
               "CPU s": "end-to-end-cpu"}),
    Benchmark("f", "dispatcher", (("bench_dispatcher", "--json"),),
              (("bench_dispatcher", "--json"),),
              {"1/s": "dispatcher-rates", "s": "dispatcher-times", "CPU s": "dispatcher-cpu-time",
               "B": "dispatcher-memory", "cores": "dispatcher-cores"}),
    Benchmark("g", "index",
              (("bench_index", "{large}", "--json"),
               ("bench_permutation", "--json", "--sizes", "1000000", "50000000", "--calls",
                "1000000")),
              (("bench_index", "{large}", "--json", "--rounds", "1"),
               ("bench_permutation", "--json", "--sizes", "1000", "--calls", "10000")),
              {"M nodes/s": "index-build-node-rate", "GB/s": "index-build-byte-rate",
               "ms": "index-opening-time", "ns": "order-lookup-time"}),
    Benchmark("h", "what a trainer waits for",
              (("bench_waits", "{data}", "--json", "--batch", "256"),),
              (("bench_waits", "{data}", "--json", "--batch", "8", "--epochs", "2", "--seconds",
                "0.5"),),
              {"ms": "trainer-waits", "us": "epoch-end-step-time"}),
)
LETTERS = tuple(b.letter for b in BENCHMARKS)
