"""Workers that die, hang, leave, or run out of memory."""

import time

from cluster import check, wait_for
from fault import fault


def mixed(run):
    """Chooses the world size and the network by the seed."""
    return {"world_size": run.random.choice([1, 2, 3]), "network": run.random.random() < 0.5}


@fault("1", "kill -9 a worker in mid-batch", "E B P", ci=True, conditions=(
    "one of two workers is killed; 1 to 3 ranks, shared memory or network; few batches ahead"))
def a_worker_is_killed(run):
    with run.cluster() as c:
        c.dispatcher()
        workers = c.workers(2)
        consumer = c.consume(epochs=3, **(job := mixed(run)))
        consumer.wait_for_batches(run.random.randrange(20, 200))
        victim = run.random.choice(c.builders(workers))
        killed = time.monotonic()
        victim.kill()
        consumer.expect_success()
        run.within("longest stall", consumer.stall(killed), 3)
        c.expect([consumer], job["world_size"], 3)


@fault("1b", "the same, with a full buffer", "E B P", conditions=(
    "one of two workers gets SIGKILL or SIGSTOP; the loop has more than 5 s of batches ahead"))
def a_worker_is_lost_with_a_full_buffer(run):
    """The loop need not wait, because the batches are there already."""
    with run.cluster() as c:
        c.dispatcher()
        workers = c.workers(2)
        consumer = c.consume(epochs=3, delay=0.03, ahead=256 << 20)
        wait_for(lambda: (s := c.consumer_status()) and s["buffered_batches"] * 0.03 > 5,
                 "the buffer does not fill", consumer.process.popen)
        worker = run.random.choice(c.builders(workers))
        harmed = time.monotonic()
        run.random.choice([worker.kill, worker.stop])()
        consumer.expect_success()
        run.within("longest stall", consumer.stall(harmed), 0, allowance=0.25)
        c.expect([consumer], 1, 3)


@fault("2", "kill -9 all workers, start new ones", "E B P", ci=True, conditions=(
    "both workers are killed at once, twice; 1 to 3 ranks; the time begins when a new worker is "
    "ready"))
def all_workers_are_killed(run):
    with run.cluster() as c:
        c.dispatcher()
        workers = c.workers(2)
        epochs = 8 + 2 * c.fleet  # many workers take a while to start
        consumer = c.consume(epochs=epochs, **(job := mixed(run)))
        for _ in range(2):
            consumer.wait_for_more(run.random.randrange(20, 100))
            for worker in workers:
                worker.kill()
            time.sleep(run.random.random())
            workers = [c.worker()]
            wait_for(lambda: any(w["state"] == "ready" for w in c.status()["workers"]),
                     "no new worker is ready")
            ready = time.monotonic()
            consumer.wait_for_more()
            run.within("first batch after a worker is ready", consumer.resumed(ready), 3)
            workers += c.workers(1, beside=1)
        consumer.expect_success()
        c.expect([consumer], job["world_size"], epochs)


@fault("3", "SIGSTOP a worker, SIGCONT later", "E B P", ci=True, conditions=(
    "one of two workers is stopped for 4 to 7 s; 1 to 3 ranks; few batches ahead"))
def a_worker_hangs(run):
    with run.cluster() as c:
        c.dispatcher()
        workers = c.workers(2)
        consumer = c.consume(epochs=12, **(job := mixed(run)))
        consumer.wait_for_batches(run.random.randrange(20, 200))
        worker = run.random.choice(c.builders(workers))
        stopped = time.monotonic()
        worker.stop()
        time.sleep(4 + 3 * run.random.random())
        worker.resume()
        consumer.expect_success()
        run.within("longest stall", consumer.stall(stopped), 3)
        c.expect([consumer], job["world_size"], 12)


@fault("30", "SIGTERM at random × 100", "E, exit 0 in the grace time", ci=False, limit=400, conditions=(
    "ten a seed: workers, the dispatcher and trainers of a running job get SIGTERM; grace is 5 s"))
def sigterm_at_random(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        workers = c.workers(2)
        # So slow, on any machine, that the job outlives the last SIGTERM.
        consumer = c.consume(2, epochs=40, delay=0.01)
        consumer.wait_for_batches(10)
        for turn in range(10):
            consumer.wait_for_more(run.random.randrange(1, 60))
            kind = run.random.choice(["worker", "worker", "dispatcher", "trainer"])
            began = time.monotonic()
            if kind == "worker":
                workers.append(c.worker())
                leaving = workers.pop(0)
            elif kind == "dispatcher":
                leaving = dispatcher
            else:
                other = c.consume(1, epochs=40, job=f"other-{turn}", network=run.random.random() < 0.5)
                other.wait_for_batches(run.random.randrange(1, 40))
                leaving, began = other.process, time.monotonic()
            leaving.terminate()
            check(leaving.wait() == 0, f"{leaving.name} ended with {leaving.popen.returncode} after "
                                       f"SIGTERM:\n{leaving.text()[-2000:]}")
            run.within("longest way to its end", time.monotonic() - began, 5 + 2)
            if kind == "dispatcher":
                dispatcher = c.again(dispatcher)
            if kind == "trainer":
                c.expect_prefix(other, 1)
        consumer.expect_success()
        c.expect([consumer], 2, 40)


@fault("39", "one worker with room for one batch; ranks in lockstep on full workers; then a kill",
       "E P (no deadlock)", ci=True, conditions=(
    "batches of 64, workers of 16 MiB, four ranks in lockstep that hold one batch each; first one "
    "worker, then two, of which one is killed"))
def room_for_one_batch(run):
    with run.cluster(batch="size: 64") as c:
        c.dispatcher()
        victim = c.worker(memory="16MiB")
        epochs = 150 + 4 * c.fleet
        consumer = c.consume(4, epochs=epochs, ahead=1, delay=0.01, network=run.random.random() < 0.5,
                             extra=["--lockstep"])
        consumer.wait_for_batches(40)
        c.workers(1, beside=1, memory="16MiB")
        wait_for(lambda: sum(w["state"] == "ready" and int(w["sent_batches"]) > 0
                             for w in c.status()["workers"]) >= 2,
                 "the second worker gets no work", consumer.process.popen)
        consumer.wait_for_more(run.random.randrange(4, 60))
        killed = time.monotonic()
        victim.kill()
        consumer.expect_success()
        run.within("longest stall", consumer.stall(killed), 3)
        c.expect([consumer], 4, epochs)
