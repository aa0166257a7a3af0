"""Jobs whose steps count batches in place of examples, while everything around them dies."""

import checker
from cluster import EXAMPLES, check
from fault import fault

CONDITIONS = (
    "three trainers in turn, each with another number of ranks in lockstep; under the first a "
    "worker is killed, under the second the dispatcher; then the trainer itself is killed, and the "
    "next one goes on from its last checkpoint, which it makes every 5 steps; {}")


def killed_in_turn(run, batch, keys=""):
    with run.cluster(batch=batch) as c:
        with c.pipeline.open("a") as file:
            file.write(keys)
        dispatcher = c.dispatcher()
        workers = [c.worker(), c.worker()]
        position, kept = 0, []  # the position counts batches: one a rank and step
        for victim, world in zip(("worker", "dispatcher", None), run.random.sample([1, 2, 3, 4], 3)):
            consumer = c.consume(
                world, delay=0.02, network=run.random.random() < 0.5, extra=["--lockstep"],
                cursor=f"v2,{c.fingerprint()}:0:{position}" if position else None)
            wanted = c.reference(0, world, position)
            if victim is None:
                consumer.expect_success()
                lines = consumer.lines()
                checker.check(lines, wanted, world)
                kept += lines
                break
            consumer.wait_for_batches(world * run.random.randrange(2, 10))
            if victim == "worker":
                run.random.choice(workers).kill()
            else:
                dispatcher.kill()
                dispatcher = c.again(dispatcher)
            more = run.random.randrange(6, 10)
            for rank in range(world):
                consumer.wait_for_batches(consumer.batches(rank) + more, rank)
            consumer.process.kill()
            lines = consumer.lines()
            taken = min(sum(line["rank"] == rank for line in lines) for rank in range(world))
            first = wanted[0]["step"]
            checkpoint = first + taken // 5 * 5
            lines = checker.before(lines, 0, checkpoint)
            checker.check(lines, checker.before(wanted, 0, checkpoint), world)
            check(lines, "no checkpoint was reached")
            kept += lines
            position += (checkpoint - first) * world
        seen = set()
        for line in kept:
            checker.count_examples(line, seen)
        check(len(seen) == EXAMPLES, f"{len(seen)} of {EXAMPLES} examples came in all parts together")
        run.note("batches", len(kept), "")


@fault("41", "kill -9 worker, dispatcher and consumers, batches of buckets", "E B", ci=True,
       conditions=CONDITIONS.format("4 buckets by nodes, a budget of 256"))
def killed_under_buckets(run):
    killed_in_turn(run, "bucket: {by: nodes, count: 4, budget: 256, max_size: 6}")


@fault("42", "the same, balanced batches", "E B",
       conditions=CONDITIONS.format("batches of 5, balanced by nodes in groups of 12"))
def killed_under_balance(run):
    killed_in_turn(run, "size: 5", "balance: {by: nodes, group: 12}\n")
