"""Trains on batches of torch's DataLoader, for tests/bench/tuning.

A worker process makes a whole batch in one call, and torch hands it over in shared memory. The
sampler has no end, so that workers never pause between epochs. Batches held are those that workers
have begun and the loop has not taken.
"""

import ctypes
import multiprocessing
import random

import torch

import loop
import work


def endless(count, batch):
    """Batches of a random order, epoch after epoch."""
    while True:
        order = random.sample(range(count), count)
        for begin in range(0, count - batch + 1, batch):
            yield order[begin:begin + batch]


def main():
    parser = loop.parser(__doc__)
    work.add_arguments(parser)
    parser.add_argument("--workers", type=int, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    begun = multiprocessing.Value(ctypes.c_int64)

    def count():
        with begun.get_lock():
            begun.value += 1

    source = work.Counted(work.SOURCES[options.source](options.file, options.milliseconds), count)
    loader = torch.utils.data.DataLoader(
        source, batch_sampler=endless(len(source), options.batch), num_workers=options.workers,
        collate_fn=lambda arrays: [torch.from_numpy(array) for array in arrays])
    taken = 0

    def batches():
        nonlocal taken
        for batch in loader:
            taken += 1
            yield [tensor.numpy() for tensor in batch]

    def held(mean):
        held_batches = max(0, begun.value - taken)
        return held_batches, held_batches * mean

    loop.run(batches(), options, held)


if __name__ == "__main__":
    main()
