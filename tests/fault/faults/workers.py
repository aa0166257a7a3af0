"""Workers that die, hang, leave and are short of room."""

import time

from cluster import check
from fault import fault


def mixed(run):
    """World size and network by the seed."""
    return {"world_size": run.random.choice([1, 2, 3]), "network": run.random.random() < 0.5}


@fault("1", "kill -9 a worker in mid-batch", "E B P", ci=True, conditions=(
    "one of two workers; 1 to 3 ranks, shared memory or network, few batches ahead"))
def a_worker_is_killed(run):
    with run.cluster() as c:
        c.dispatcher()
        workers = [c.worker(), c.worker()]
        consumer = c.consume(epochs=3, **(job := mixed(run)))
        consumer.wait_for_batches(run.random.randrange(20, 200))
        killed = time.monotonic()
        run.random.choice(workers).kill()
        consumer.expect_success()
        run.within("longest stall", consumer.stall(killed), 3)
        c.expect([consumer], job["world_size"], 3)
