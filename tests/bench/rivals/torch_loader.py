"""PyTorch DataLoader: closures of closures.py in worker processes, batches of 512 to the main
process through shared memory.

This does less than Millrace end to end: no network, no contexts, arguments or tactics, no checksum
on the way, no reversed edges and no self edges.
"""

import numpy as np
import torch

import closures
import measure


def collate(examples):
    return {k: torch.from_numpy(np.ascontiguousarray(v))
            for k, v in closures.collate(examples).items()}


def main():
    parsed = measure.options(workers=1, batch=512)
    torch.manual_seed(parsed.seed)
    loader = torch.utils.data.DataLoader(
        closures.Closures(parsed.csr), batch_size=parsed.batch, shuffle=True, drop_last=True,
        collate_fn=collate, num_workers=parsed.workers, persistent_workers=True, prefetch_factor=4)
    meter = measure.Meter(parsed.seconds)
    while True:
        for batch in loader:
            meter.touch(*(t.numpy() for t in batch.values()))
            if not meter.take(parsed.batch):
                measure.emit("examples", meter.rate(), "examples/s", checksum=meter.checksum(),
                             **measure.versions("torch", "numpy"))
                return


if __name__ == "__main__":
    main()
