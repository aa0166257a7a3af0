"""A worker keeps to its memory_limit, even if its consumers want it to build far ahead."""

import os

from harness import Skipped, check, cluster, wait_for

LIMIT = 64 << 20
LARGE_BATCHES = """millrace: 1
dataset: data
source: proof_states
shuffle: {seed: 7}
closure: {max_subgraph_size: 4096}
batch: {size: 64, remainder: keep}
"""


def stopped_consumer(c):
    """A consumer that has asked for far more than the limit, as it does after some batches if its
    bytes ahead are not tuned, and then reads nothing."""
    consumer = c.consumer(4, epochs=100, extra=["--no-tune", "--prefetch-bytes", "1000000000",
                                                "--delay", "0.05"])
    wait_for(lambda: len(c.delivered(consumer.log)) > 80, "no batches", consumer.popen)
    consumer.stop()
    return consumer


def test_a_worker_builds_no_further_ahead_than_its_memory_limit_allows():
    if os.environ.get("MILLRACE_TEST_SANITIZE"):
        raise Skipped("a sanitizer keeps what was freed")
    with cluster(None) as c:
        c.dataset = c.folder / "data"
        c.run("generate", c.dataset, "--nodes", "2000000")
        c.pipeline.write_text(LARGE_BATCHES)

        # With a large limit, the worker does build this much.
        generous = c.serve("--memory-limit", "1GiB")
        consumer = stopped_consumer(c)
        wait_for(lambda: generous.memory_bytes() > LIMIT, "little is built ahead", generous.popen)
        consumer.kill()
        generous.kill()

        frugal = c.serve("--memory-limit", LIMIT, state="frugal-state")
        consumer = stopped_consumer(c)
        seen = []

        def is_full():
            seen.append(frugal.memory_bytes())
            worker = c.status()["workers"][0]
            return int(worker["buffered_bytes"]) > 0.75 * int(worker["memory_limit_bytes"])

        wait_for(is_full, "it could build further ahead", frugal.popen)
        # The batch that is needed next is built in any case.
        before = len(c.delivered(consumer.log))
        consumer.resume()
        wait_for(lambda: seen.append(frugal.memory_bytes()) or
                 len(c.delivered(consumer.log)) > before + 50, "it stands still", consumer.popen)
        check(max(seen) < LIMIT, f"{max(seen)} bytes, expected less than {LIMIT}")
        consumer.kill()
