"""Trainers that die, sleep, read slowly or not at all, and come back at the wrong time."""

import time

import checker
from cluster import EXAMPLES, check
from fault import fault

SIZE = 8  # examples in each batch of a rank


def cursor(fingerprint, epoch, step, world_size):
    """The cursor of a checkpoint after `step` steps of an epoch."""
    return f"v2,{fingerprint}:{epoch}:{step * SIZE * world_size}"


@fault("7", "kill -9 a consumer, resume from its checkpoint", "E B", conditions=(
    "a checkpoint every 10 steps; two kills in an epoch; each resume has another number of ranks"))
def a_consumer_is_killed(run):
    with run.cluster() as c:
        c.dispatcher()
        c.worker()
        c.worker()
        position, kept = 0, []
        for part in range(3):
            world = run.random.choice([1, 2, 3, 4])
            resumed = time.monotonic()
            consumer = c.consume(world, delay=0.01, network=run.random.random() < 0.5, cursor=(
                f"v2,{c.fingerprint()}:0:{position}" if part else None))
            steps_left = (EXAMPLES - position) // (SIZE * world)
            if part == 2 or steps_left < 25:
                consumer.expect_success()
                lines = consumer.lines()
                checker.check(lines, c.reference(0, world, position), world)
                kept += lines
                break
            consumer.wait_for_batches(world * run.random.randrange(11, min(60, steps_left)))
            run.note("first batch after a resume", consumer.resumed(resumed))
            consumer.process.kill()
            lines = consumer.lines()
            wanted = c.reference(0, world, position)
            first = wanted[0]["step"]
            taken = min(sum(line["rank"] == rank for line in lines) for rank in range(world))
            checkpoint = first + taken // 10 * 10
            lines = checker.before(lines, 0, checkpoint)
            checker.check(lines, checker.before(wanted, 0, checkpoint), world)
            kept += lines
            position += (checkpoint - first) * SIZE * world
        seen = set()
        for line in kept:
            checker.count_examples(line, seen)
        check(len(seen) == EXAMPLES, f"{len(seen)} of {EXAMPLES} examples came in all parts together")


@fault("14", "a consumer takes one batch in 10 s", "M, others go on", conditions=(
    "the slow consumer has 60 kB ahead; another job runs at full speed on the same worker of 16 "
    "MiB"))
def a_slow_consumer(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        worker = c.worker(memory="16MiB")
        slow = c.consume(1, epochs=2, job="slow", delay=10, network=run.random.random() < 0.5)
        slow.wait_for_batches(1)
        fast = c.consume(2, epochs=150, job="fast", delay=0.001)
        began = time.monotonic()
        fast.expect_success()
        run.note("the other job's longest stall", fast.stall(began))
        c.expect([fast], 2, 150)
        slow.wait_for_batches(2)
        c.expect_prefix(slow, 1)
        run.note("memory of the worker", c.check_memory(48, worker), "MiB")
        run.note("memory of the dispatcher", c.check_memory(64, dispatcher), "MiB")


@fault("15", "a consumer never reads", "M L", conditions=(
    "the consumer is stopped for 15 s with a stream open, and has given 256 MiB of room to a "
    "worker of 16 MiB; then it goes on"))
def a_consumer_that_never_reads(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        worker = c.worker(memory="16MiB")
        stopped = c.consume(1, epochs=60, job="stopped", delay=0, ahead=256 << 20, network=True)
        stopped.wait_for_batches(run.random.randrange(1, 300))
        stopped.process.stop()
        other = c.consume(2, epochs=20, job="other")
        time.sleep(15)
        state = c.consumer_status("stopped")
        check(state is None or state["state"] != "live", f"status takes it for live: {state}")
        run.note("memory of the worker", c.check_memory(48, worker), "MiB")
        run.note("memory of the dispatcher", c.check_memory(64, dispatcher), "MiB")
        other.expect_success()
        c.expect([other], 2, 20)
        stopped.process.resume()
        stopped.expect_success()
        c.expect([stopped], 1, 60)


@fault("36", "zombie trainer comes back after its successor", "L, the successor goes on", ci=True,
       conditions=(
    "the trainer is stopped for 1 to 12 s, and its successor begins anew; then the trainer is "
    "continued"))
def a_zombie_trainer(run):
    with run.cluster() as c:
        c.dispatcher()
        c.worker()
        zombie = c.consume(1, epochs=40)
        zombie.wait_for_batches(run.random.randrange(1, 100))
        zombie.process.stop()
        time.sleep(run.random.choice([1, 1, 2, 12]))
        successor = c.consume(1, epochs=4, delay=0.01)
        successor.wait_for_batches(10)
        zombie.process.resume()
        zombie.expect_error("rank 0", "job", "taken over by", str(successor.process.popen.pid))
        check(successor.process.alive(), "the successor ended too")
        successor.expect_success()
        c.expect([successor], 1, 4)
        c.expect_prefix(zombie, 1)


@fault("38", "checkpoints of two different steps, one a rank", "L, names both", ci=True, conditions=(
    "two ranks; the second is refused after attach_timeout (2 s here), the first goes on"))
def checkpoints_of_different_steps(run):
    with run.cluster() as c:
        c.dispatcher(extra=["--attach-timeout", "2"])
        c.worker()
        c.consume(1, job="first").expect_success()
        fingerprint = c.fingerprint()
        one, two = run.random.sample(range(1, 60), 2)
        first = c.consume(2, ranks=0, epochs=2, delay=0.05, cursor=cursor(fingerprint, 0, one, 2))
        first.wait_for_batches(1)
        second = c.consume(2, ranks=1, cursor=cursor(fingerprint, 0, two, 2))
        second.expect_error(f"example {one * SIZE * 2}", f"example {two * SIZE * 2}")
        check(second.batches() == 0, "the refused rank got batches")
        first.wait_for_more()
        first.expect_success()
        wanted = c.reference(0, 2, one * SIZE * 2) + c.reference(1, 2)
        checker.check(first.lines(), [line for line in wanted if line["rank"] == 0], 2)
