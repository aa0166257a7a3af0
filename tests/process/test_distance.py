"""Streams over a long distance, and beside consumers that stand still: their batches, and their
rate.

Rates are compared between consumers that run at the same time, as a share of each other.
"""

import os
import pathlib

from harness import check, check_same, cluster, wait_for

DATA = pathlib.Path(os.environ.get("MILLRACE_TEST_DATA", "/nonexistent"))
NETWORK = ["--no-shared-memory"]
# A training step, so that the processor is not the bottleneck, and the epochs that then take some
# seconds.
STEP = ["--delay", "0.01"]
EPOCHS = 20  # each has 24 batches


def lines(consumer):
    """The number of batches that a consumer has logged."""
    return consumer.log.read_bytes().count(b"\n") if consumer.log.exists() else 0


def share(one, other, first, last):
    """How many batches `one` gets for each batch of `other`. Counts from when both have `first`
    until either has `last`."""
    wait_for(lambda: lines(one) >= first and lines(other) >= first, "no batches")
    begin = lines(one), lines(other)
    check(max(begin) < last, f"one was through before the other had begun: {begin}")
    wait_for(lambda: lines(one) >= last or lines(other) >= last, "no more batches")
    end = lines(one), lines(other)
    return (end[0] - begin[0]) / max(1, end[1] - begin[1])


def test_a_long_way_changes_no_batch_and_costs_little():
    with cluster(DATA, batch="size: 64") as c:
        c.serve()
        near_address = c.address
        c.serve_far(delay_ms=20)
        far = c.consumer(1, epochs=EPOCHS, extra=NETWORK + STEP)
        c.address = near_address
        near = c.consumer(1, epochs=EPOCHS, extra=NETWORK + STEP)
        got = share(far, near, 5 * 24, (EPOCHS - 1) * 24)
        near.expect_success()
        far.expect_success()
        expected = c.reference(0, 1) + c.reference(EPOCHS - 1, 1)
        delivered = c.delivered(far.log)
        check_same([l for l in delivered if l["epoch"] in (0, EPOCHS - 1)], expected)
        check(delivered == c.delivered(near.log), "the same log, far and near")
        check(got > 0.5, f"20 ms each way leave {got:.2f} of the rate")


# Sanitizers keep freed memory for a while, and their own work hides the program's costs.
SANITIZED = bool(os.environ.get("MILLRACE_TEST_SANITIZE"))


def past_one_that_stands_still(extra):
    """One of two consumers of a worker is stopped. The other is compared with the only consumer of
    another worker."""
    with cluster(DATA, batch="size: 64") as c:
        c.serve("--memory-limit", "16MiB", state="another-state")
        alone_address = c.address
        worker = c.serve("--memory-limit", "16MiB")
        stopped = c.consumer(1, job="stopped", epochs=10000, extra=extra)
        # By then the consumer has taken more batches than the worker has memory for.
        wait_for(lambda: lines(stopped) > 100 * 24, "no batches", stopped.popen)
        before = worker.memory_bytes()
        stopped.stop()
        beside = c.consumer(1, job="beside", epochs=EPOCHS, extra=[*extra, *STEP])
        c.address = alone_address
        alone = c.consumer(1, job="alone", epochs=EPOCHS, extra=[*extra, *STEP])
        got = share(beside, alone, 5 * 24, (EPOCHS - 1) * 24)
        # The limit leaves room for memory that malloc keeps, and for a second job. All batches
        # together have some 80 MB.
        grown = worker.memory_bytes() - before
        if not SANITIZED:
            check(got > 0.5, f"beside one that stands still: {got:.2f} of the rate without it")
            check(grown < 24 << 20, f"the worker's memory has grown by {grown} bytes")
        for consumer in (beside, alone):
            consumer.expect_success()
        check_same([l for l in c.delivered(beside.log) if l["epoch"] == EPOCHS - 1],
                   c.reference(EPOCHS - 1, 1))
        stopped.resume()
        there = lines(stopped)
        wait_for(lambda: lines(stopped) > there + 5 * 24, "it does not go on", stopped.popen)


def test_a_consumer_stopped_on_the_network_costs_others_no_rate():
    past_one_that_stands_still(NETWORK)


def test_a_consumer_stopped_in_shared_memory_costs_others_no_rate():
    past_one_that_stands_still([])
