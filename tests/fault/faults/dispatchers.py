"""Dispatchers that die, hang, lose their state or are started twice."""

import os
import shutil
import time

from cluster import binary, check, wait_for
from fault import fault
from faults.workers import mixed


def sync_fault(what, number):
    """The environment in which a process is killed, or gets errors, at its n-th fsync."""
    shim = os.environ["MILLRACE_SYNC_FAULT_LIBRARY"]
    check(os.path.exists(shim), f"{shim} is not built: the target is sync_fault")
    return {"LD_PRELOAD": shim, "MILLRACE_SYNC_FAULT": f"{what}:{number}"}


@fault("4", "kill -9 the dispatcher at each commit point", "E B P", conditions=(
    "the dispatcher is killed right before and right after the n-th fsync of its store, n = 1, 2, "
    "… until a job begins and ends without a kill; a new dispatcher on the same folder takes "
    "over; the trainer starts before each kill"))
def the_dispatcher_is_killed_at_commit_points(run):
    number, survived = 1, False
    while not survived:
        for when in ("before", "after"):
            with run.cluster() as c:
                listen = c.dispatcher()  # started for a port and a used state folder only
                if run.seed % 2:
                    shutil.rmtree(c.folder / "state")
                listen.terminate()
                listen.wait()
                with c.with_env(**sync_fault("kill_" + when, number)):
                    doomed = c.start("dispatcher", binary("daemon"), "dispatcher", "--dataset",
                                     f"data={c.dataset}", "--listen", listen.address, "--state",
                                     c.folder / "state", "--grace", "5")
                doomed.killed = True
                c.worker()
                consumer = c.consume(1, epochs=1, delay=0.002, network=run.random.random() < 0.5)
                wait_for(lambda: not doomed.alive() or not consumer.process.alive(),
                         "neither is the dispatcher killed nor does the job end")
                if doomed.alive():
                    doomed.terminate()
                    doomed.wait()
                    survived = doomed.popen.returncode == 0
                check(survived or doomed.popen.returncode == -9, f"the dispatcher ended with "
                      f"{doomed.popen.returncode}:\n{doomed.text()}")
                began = time.monotonic()
                successor = c.again(listen)
                consumer.expect_success()
                if not survived:
                    run.note("from its start to the job's end", time.monotonic() - began)
                c.expect([consumer], 1, 1)
                wait_for(lambda: [j["state"] for j in c.status()["jobs"] if j["name"] == "job"]
                         in ([], ["ended"]), f"the job's record is left live: {successor.text()}")
        number += 1
    run.note("commit points", number - 2, "")


@fault("6", "kill -9 the dispatcher 50 times at random", "E B", limit=400, conditions=(
    "50 kills a seed, each up to 0.6 s after the dispatcher listens again; two workers, one job "
    "of 1 to 3 ranks"))
def the_dispatcher_is_killed_fifty_times(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        c.worker()
        c.worker()
        job = mixed(run)
        consumer = c.consume(epochs=10000, delay=0.01, **job)
        consumer.wait_for_batches(10)
        killed = time.monotonic()
        terms = [c.status()["term"]]
        for _ in range(50):
            time.sleep(0.6 * run.random.random())
            dispatcher.kill()
            dispatcher = c.again(dispatcher)
        terms.append(c.status()["term"])
        check(int(terms[1]) >= int(terms[0]) + 50, f"F: every dispatcher has a higher term: {terms}")
        consumer.wait_for_more(100)
        run.note("longest stall", consumer.stall(killed))
        c.stop(consumer)
        c.expect_prefix(consumer, job["world_size"])


OUTAGE = 600


@fault("33", "dispatcher hung or gone for 10 minutes, no standby",
       "E P: at most 3 s of waiting, once", limit=1100,
       conditions=(
    "10 minutes: stopped with seed 1 and killed with seed 2; 20 s: stopped or killed with others; "
    "two workers"))
def the_dispatcher_is_away(run):
    away = OUTAGE if run.seed <= 2 else 20
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        c.workers(2)
        consumer = c.consume(2, epochs=100000, delay=0.01)
        consumer.wait_for_batches(100)
        hung = run.seed == 1 if away == OUTAGE else run.random.random() < 0.5
        gone = time.monotonic()
        dispatcher.stop() if hung else dispatcher.kill()
        time.sleep(12)
        check(consumer.last() > gone + 8, "nothing goes on without a dispatcher")
        time.sleep(max(0, gone + away - time.monotonic()))
        run.within("longest stall", consumer.stall(gone), 3)
        gaps = sum(1 for times in consumer.arrivals.values()
                   for a, b in zip(times, times[1:]) if b - a > 1 and b > gone)
        check(gaps <= 2, f"{gaps} waits of more than 1 s in two ranks, expected one a rank")
        dispatcher.resume() if hung else c.again(dispatcher)
        consumer.wait_for_more(200)
        c.stop(consumer)
        c.expect_prefix(consumer, 2)


@fault("34", "two daemons on one port or state folder", "the second is refused", ci=True, conditions=(
    "a dispatcher, a `serve` and a worker start beside a daemon that serves a job"))
def two_daemons(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        worker = c.worker()
        consumer = c.consume(1, epochs=4)
        consumer.wait_for_batches(10)

        def refused(role, word, *arguments):
            second = c.start(role, binary("daemon"), role, "--dataset", f"data={c.dataset}", *arguments)
            code = second.wait()
            check(code == 2 and str(word) in second.error(),
                  f"{role} {arguments}: exit code {code}, expected 2 and '{word}' in: {second.text()}")

        other = ["--state", c.folder / "other"]
        for role in ("dispatcher", "serve"):
            batches = ["--batch-listen", "127.0.0.1:0"] if role == "serve" else []
            refused(role, dispatcher.address, "--listen", dispatcher.address, *other, *batches)
            refused(role, c.folder / "state", "--listen", "127.0.0.1:0", "--state", c.folder / "state",
                    *batches)
        refused("serve", worker.address, "--listen", "127.0.0.1:0", "--batch-listen", worker.address,
                *other)
        refused("worker", worker.address, "--batch-listen", worker.address, "--dispatcher",
                dispatcher.address)
        consumer.expect_success()
        c.expect([consumer], 1, 4)


@fault("35", "state folder wiped under running trainers", "E P", ci=True, conditions=(
    "the folder of a running dispatcher is removed or emptied; later the dispatcher is killed and "
    "begins on an empty folder"))
def the_state_folder_is_wiped(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        c.worker()
        c.worker()
        job = mixed(run)
        consumer = c.consume(epochs=10, **job)
        consumer.wait_for_batches(20)
        wiped = time.monotonic()
        if run.random.random() < 0.5:
            shutil.rmtree(c.folder / "state")
        else:
            for file in (c.folder / "state").iterdir():
                file.unlink()
        consumer.wait_for_more(100)
        term = int(c.status()["term"])
        dispatcher.kill()
        shutil.rmtree(c.folder / "state", ignore_errors=True)
        c.again(dispatcher)
        consumer.wait_for_more(100)
        run.within("longest stall", consumer.stall(wiped), 3)
        # With an empty folder a dispatcher begins with the clock's second as its term. That may be
        # its predecessor's term. It then learns of this from its peers and begins again above it.
        wait_for(lambda: int(c.status()["term"]) > term, "F: the new dispatcher has no higher term")
        consumer.expect_success()
        c.expect([consumer], job["world_size"], 10)
