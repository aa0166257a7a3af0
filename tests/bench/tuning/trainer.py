"""Trains on our batches, for tests/bench/tuning. Run with a Python that has the package."""

import loop
import millrace


def main():
    parser = loop.parser(__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--pipeline", required=True)
    parser.add_argument("--no-tune", action="store_true")
    parser.add_argument("--prefetch-bytes", type=int)
    parser.add_argument("--expanded-batches", type=int, default=2, help="that lie ahead of the loop")
    options = parser.parse_args()
    more = {"prefetch_bytes": options.prefetch_bytes} if options.prefetch_bytes else {}
    session = millrace.connect(options.address, pipeline=options.pipeline, job="tuning",
                               tune=not options.no_tune, expanded_batches=options.expanded_batches,
                               **more)

    def batches():
        for epoch in session.epochs():
            for _, batch in epoch:
                yield [batch[name].numpy() for name in batch]

    def held(mean):
        stats = session.stats()
        count = stats["buffered_batches"]
        # Packed as they came, and some of them expanded besides.
        return count, stats["buffered_bytes"] + min(options.expanded_batches, count) * mean

    with session:
        loop.run(batches(), options, held)


if __name__ == "__main__":
    main()
