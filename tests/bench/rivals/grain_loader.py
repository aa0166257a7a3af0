"""Grain: closures of closures.py, a shuffled MapDataset, batches of 512 made in worker processes.

This does less than Millrace end to end: no network, no contexts, arguments or tactics, no checksum
on the way, no reversed edges and no self edges.
"""

import logging

import grain

import closures
import measure


def main():
    parsed = measure.options(workers=1, batch=512)
    logging.disable(logging.WARNING)
    dataset = (grain.MapDataset.source(closures.Closures(parsed.csr)).shuffle(seed=parsed.seed)
               .repeat().batch(parsed.batch, drop_remainder=True, batch_fn=closures.collate)
               .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=4))
               .mp_prefetch(grain.MultiprocessingOptions(num_workers=parsed.workers)))
    meter = measure.Meter(parsed.seconds)
    for batch in dataset:
        meter.touch(*batch.values())
        if not meter.take(parsed.batch):
            break
    measure.emit("examples", meter.rate(), "examples/s", checksum=meter.checksum(),
                 **measure.versions("grain", "numpy"))


if __name__ == "__main__":
    # Grain reads flags when its workers start.
    from absl import app
    import sys
    own, sys.argv = sys.argv, sys.argv[:1]

    def run(_):
        sys.argv = own
        main()

    app.run(run)
