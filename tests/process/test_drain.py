"""Emptying a worker while trainers go on."""

from harness import binary, check, cluster, wait_for
from test_daemon import refused
from test_streams import DATA

SLOW = ["--delay", "0.01", "--prefetch-bytes", "60000"]


def test_a_drained_worker_ends_empty_and_its_consumers_go_on_elsewhere():
    with cluster(DATA) as c:
        c.dispatcher()
        leaving = c.worker(extra=["--name", "leaving"])
        consumer = c.consumer(2, epochs=0, extra=SLOW)
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        c.worker(extra=["--name", "staying"])
        wait_for(lambda: len(c.status()["workers"]) == 2, "no second worker", consumer.popen)
        out = c.run("drain", "leaving", "--address", c.address, "--timeout", "600")
        check("leaving is empty" in out, out)
        state = {w["name"]: w for w in c.status()["workers"]}
        check(state["leaving"]["state"] == "draining" and state["leaving"]["owed"] == 0, str(state))
        # Nobody needs the worker now.
        leaving.kill()
        there = len(c.delivered(consumer.log))
        wait_for(lambda: len(c.delivered(consumer.log)) > there + 200, "the job does not go on",
                 consumer.popen)
        c.end(consumer, 2)
        check("failed" not in consumer.text(), consumer.text())


def test_a_drain_is_taken_back_and_the_worker_builds_again():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker(extra=["--name", "only"])
        consumer = c.consumer(1, epochs=0, extra=SLOW)
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        refused([binary("cli"), "undrain", "only", "--address", c.address], 2, "does not drain")
        c.run("drain", "only", "--address", c.address, "--timeout", "600")
        out = c.run("undrain", "only", "--address", c.address)
        check("only takes steps again" in out, out)
        there = len(c.delivered(consumer.log))
        wait_for(lambda: len(c.delivered(consumer.log)) > there + 200, "the job does not go on",
                 consumer.popen)
        c.end(consumer, 1)


def test_draining_says_what_is_left_when_its_time_is_over():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker(extra=["--name", "only"])
        consumer = c.consumer(1, epochs=0, extra=SLOW)
        # A loop whose pace is known asks for more than it has memory for.
        wait_for(lambda: len(c.delivered(consumer.log)) > 100, "no batches", consumer.popen)
        consumer.stop()  # what is built for it cannot be sent
        refused([binary("cli"), "drain", "only", "--address", c.address, "--timeout", "0.5"], 1,
                "only", "not empty after 0.5 s", "steps", "run this again")
        refused([binary("cli"), "drain", "other", "--address", c.address], 2, "other", "only")
