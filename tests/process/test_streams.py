"""Any fleet delivers the same batches, through kills, restarts and resumes."""

import os
import pathlib
import subprocess
import sys

from harness import (check, check_examples_once, check_same, binary, cluster, wait_for, Failure)

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from recording_proxy import RecordingProxy, hello_priority  # noqa: E402

DATA = pathlib.Path(os.environ.get("MILLRACE_TEST_DATA", "/nonexistent"))


# Steps of 5 ms and few batches received ahead, so that the consumer still needs the process that
# dies.
LITTLE_AHEAD = ["--delay", "0.005", "--prefetch-bytes", "60000"]


def test_make_dataset():
    """A small generated dataset, shared by the tests of this folder."""
    if (DATA / ".complete").exists():
        return
    subprocess.run([binary("cli"), "generate", DATA, "--force", "--nodes", "60000", "--files", "8",
                    "--proof-states", "1500", "--seed", "3"], check=True)
    subprocess.run([binary("cli"), "index", DATA], check=True)
    (DATA / ".complete").write_text("")


def stream_with(workers, world_size):
    with cluster(DATA) as c:
        c.dispatcher()
        for _ in range(workers):
            c.worker()
        consumer = c.consumer(world_size, epochs=2)
        consumer.expect_success()
        expected = c.reference(0, world_size) + c.reference(1, world_size)
        check_same(c.delivered(consumer.log), expected)
        for epoch in (0, 1):
            lines = [line for line in expected if line["epoch"] == epoch]
            check(len(check_examples_once(lines)) == 1500, "an epoch has every example once")


def test_one_worker_one_consumer():
    stream_with(1, 1)


def test_two_workers_two_consumers():
    stream_with(2, 2)


def test_four_workers_three_consumers():
    stream_with(4, 3)


def test_four_workers_eight_consumers():
    stream_with(4, 8)


def test_one_worker_eight_consumers():
    stream_with(1, 8)


def test_serve_in_one_process():
    with cluster(DATA) as c:
        c.serve()
        consumer = c.consumer(2)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 2))


def test_consumers_as_processes_of_their_own():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        c.worker()
        consumers = [c.consumer(3, ranks=r) for r in range(3)]
        lines = []
        for consumer in consumers:
            consumer.expect_success()
            lines += c.delivered(consumer.log)
        check_same(lines, c.reference(0, 3))


def test_a_worker_killed_in_the_middle():
    with cluster(DATA) as c:
        c.dispatcher()
        workers = [c.worker(), c.worker()]
        consumer = c.consumer(2, epochs=8, extra=LITTLE_AHEAD)
        wait_for(lambda: len(c.delivered(consumer.log)) > 20, "no batches", consumer.popen)
        c.builders(workers)[0].kill()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), sum((c.reference(e, 2) for e in range(8)), []))


def test_all_workers_killed_and_new_ones_started():
    with cluster(DATA) as c:
        c.dispatcher()
        victims = [c.worker(), c.worker()]
        consumer = c.consumer(2, epochs=2, extra=LITTLE_AHEAD)
        wait_for(lambda: len(c.delivered(consumer.log)) > 20, "no batches", consumer.popen)
        for victim in victims:
            victim.kill()
        c.worker()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 2) + c.reference(1, 2))


def test_a_worker_stopped_in_the_middle_is_passed_over():
    with cluster(DATA) as c:
        c.dispatcher()
        workers = [c.worker(), c.worker()]
        consumer = c.consumer(1, epochs=4, extra=LITTLE_AHEAD)
        wait_for(lambda: len(c.delivered(consumer.log)) > 20, "no batches", consumer.popen)
        victim = c.builders(workers)[0]
        victim.stop()
        consumer.expect_success()
        victim.resume()
        check_same(c.delivered(consumer.log), sum((c.reference(e, 1) for e in range(4)), []))


def test_a_dispatcher_killed_and_restarted_in_the_middle():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher()
        address = c.address
        c.worker()
        c.worker()
        consumer = c.consumer(2, epochs=0, extra=["--delay", "0.005", "--prefetch-bytes", "300000"])
        wait_for(lambda: len(c.delivered(consumer.log)) > 120, "no batches", consumer.popen)
        dispatcher.kill()
        before = len(c.delivered(consumer.log))
        wait_for(lambda: len(c.delivered(consumer.log)) > before,
                 "nothing goes on without the dispatcher", consumer.popen)
        c.dispatcher(listen=address)
        before = len(c.delivered(consumer.log))
        wait_for(lambda: len(c.delivered(consumer.log)) > before + 400, "the job does not go on",
                 consumer.popen)
        c.end(consumer, 2)


def resume(batch, remainder, first_world, steps, second_world):
    """Runs some steps with one world size, then the rest of the epoch with another."""
    with cluster(DATA, batch=batch, remainder=remainder) as c:
        c.dispatcher()
        c.worker()
        c.worker()
        cursor_file = c.folder / "cursor"
        first = c.consumer(first_world, epochs=1, job="first",
                           extra=["--steps", steps, "--cursor-out", cursor_file])
        first.expect_success()
        cursor = cursor_file.read_text().strip()
        second = c.consumer(second_world, epochs=1, job="second", extra=["--cursor", cursor])
        second.expect_success()
        size = int(batch.split(":")[1])
        position = steps * (size if batch.startswith("global") else size * first_world)
        ahead = [line for line in c.reference(0, first_world) if line["step"] < steps]
        check_same(c.delivered(first.log), ahead, "before the resume")
        check_same(c.delivered(second.log), c.reference(0, second_world, position), "after it")
        seen = check_examples_once(c.delivered(first.log) + c.delivered(second.log))
        if remainder == "keep":
            check(len(seen) == 1500, f"{len(seen)} of 1500 examples came")


def test_eight_ranks_then_four_with_global_size():
    resume("global_size: 64", "keep", 8, 5, 4)


def test_four_ranks_then_eight_after_three_steps():
    resume("size: 8", "keep", 4, 3, 8)


def test_four_ranks_then_three():
    resume("size: 8", "drop", 4, 7, 3)


def test_resume_in_the_middle_of_epoch_two():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        cursor_file = c.folder / "cursor"
        per_epoch = len(c.reference(0, 2)) // 2
        first = c.consumer(2, epochs=3, job="a",
                           extra=["--steps", 2 * per_epoch + 10, "--cursor-out", cursor_file])
        first.expect_success()
        second = c.consumer(2, epochs=1, job="a",
                            extra=["--cursor", cursor_file.read_text().strip()])
        second.expect_success()
        check_same(c.delivered(second.log), c.reference(2, 2, 10 * 16))


def test_two_replicas_read_the_same():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        replicas = [c.consumer(2, extra=["--replica", r]) for r in (0, 1)]
        for replica in replicas:
            replica.expect_success()
            check_same(c.delivered(replica.log), c.reference(0, 2))


def test_ranks_with_different_cursors_are_told_apart():
    with cluster(DATA) as c:
        daemon = c.serve()
        cursor_file = c.folder / "cursor"
        c.consumer(2, job="a", extra=["--steps", 4, "--cursor-out", cursor_file]).expect_success()
        one = c.consumer(2, ranks=0, job="b", epochs=0, extra=["--delay", "0.05"])
        wait_for(lambda: c.delivered(one.log), "no batches", one.popen)
        two = c.consumer(2, ranks=1, job="b",
                         extra=["--cursor", cursor_file.read_text().strip(), "--attach-timeout", 3])
        check(two.wait() != 0, "a rank from another cursor is refused")
        check("epoch" in two.text() and "example" in two.text(),
              f"the message names the places:\n{two.text()}")
        check(one.popen.poll() is None, "the first rank goes on")
        one.kill()
        daemon.terminate()
        check(daemon.wait() == 0, "the daemon ends well")


def test_a_slow_consumer_does_not_slow_a_fast_one():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        slow = c.consumer(1, job="slow", epochs=0, extra=["--delay", "0.5"])
        wait_for(lambda: c.delivered(slow.log), "no batches", slow.popen)
        fast = c.consumer(1, job="fast", epochs=3)
        fast.expect_success()
        check(slow.popen.poll() is None, "the slow one is still at work")
        check_same(c.delivered(fast.log), sum((c.reference(e, 1) for e in range(3)), []))
        slow.kill()


def test_a_consumer_that_stops_reading_costs_nothing_to_others():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker(memory="16MiB")
        stopped = c.consumer(1, job="stopped", epochs=0)
        wait_for(lambda: c.delivered(stopped.log), "no batches", stopped.popen)
        stopped.stop()
        other = c.consumer(2, job="other", epochs=2)
        other.expect_success()
        check_same(c.delivered(other.log), c.reference(0, 2) + c.reference(1, 2))
        stopped.kill()


def test_one_consumer_and_two_workers_with_little_memory_one_killed():
    with cluster(DATA, batch="size: 64") as c:
        c.dispatcher()
        workers = [c.worker(memory="16MiB"), c.worker(memory="16MiB")]
        consumer = c.consumer(1, epochs=12, extra=["--delay", "0.02", "--prefetch-bytes", "200000"])
        wait_for(lambda: len(c.delivered(consumer.log)) > 5, "no batches", consumer.popen)
        c.builders(workers)[0].kill()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), sum((c.reference(e, 1) for e in range(12)), []))


def test_four_ranks_in_lockstep_on_two_full_workers():
    with cluster(DATA, batch="size: 64") as c:
        c.dispatcher()
        c.worker(memory="16MiB")
        c.worker(memory="16MiB")
        consumer = c.consumer(4, epochs=3, extra=["--lockstep", "--prefetch-bytes", "200000"])
        consumer.expect_success()
        check_same(c.delivered(consumer.log), sum((c.reference(e, 4) for e in range(3)), []))


def test_the_priority_of_consume_reaches_the_dispatcher():
    with cluster(DATA) as c:
        c.serve()
        with RecordingProxy(c.address) as proxy:
            c.address = proxy.address
            c.consumer(1, extra=["--priority", "777"]).expect_success()
            check(hello_priority(777) in proxy.sent, "no Hello says priority 777")


def test_a_broken_log_is_noticed():
    """Shows that the comparison can fail: for a repeated line, a missing one, and another hash."""
    with cluster(DATA) as c:
        expected = c.reference(0, 2)
        for broken in (expected + expected[-1:], expected[1:],
                       [{**expected[0], "hash": "0" * 32}, *expected[1:]]):
            try:
                check_same(broken, expected)
            except Failure:
                continue
            raise Failure("a broken log was taken for a good one")
