"""What happened to a service, as status and top tell it."""

import time

from harness import check, cluster, wait_for
from patience import tries
from test_streams import DATA

SLOW = ["--delay", "0.05", "--prefetch-bytes", "60000"]


def events(c, kind):
    return [e for e in c.status()["events"] if e["kind"] == kind]


def events_of(c, kind, peer):
    return [e for e in events(c, kind) if e["peer"] == peer]


def steps(c):
    return sum(int(consumer["step"]) for consumer in c.status()["consumers"])


def kill_worker(c, workers):
    """Kills the one of the workers (name -> process) that builds most, when it was asked for steps which
    it cannot have answered. Returns its name, and the events of its loss and of these steps. There may
    be none, if all that it had was sent, or was copied."""
    doomed = c.builders(list(workers.values()))[0]
    name = next(name for name, worker in workers.items() if worker == doomed)
    doomed.stop()
    # Consumers do not know that yet, and ask it for more.
    before = steps(c)
    wait_for(lambda: steps(c) >= before + 40 or events_of(c, "worker_lost", name),
             "consumers take no more")
    doomed.kill()
    del workers[name]
    lost = wait_for(lambda: events_of(c, "worker_lost", name), "nobody says that the worker is lost")
    for _ in tries(5):
        if moved := events_of(c, "steps_moved", name):
            return name, lost[0], moved[0]
    return name, lost[0], None


def test_a_worker_that_is_killed_is_an_event_in_status_and_top():
    with cluster(DATA) as c:
        began = time.monotonic()
        dispatcher = c.dispatcher()
        workers = {"worker-0": c.worker(extra=["--name", "worker-0"])}
        c.consumer(2, epochs=0, job="watched", extra=SLOW)
        for turn in range(1, 5):
            workers[f"worker-{turn}"] = c.worker(extra=["--name", f"worker-{turn}"])
            name, lost, moved = kill_worker(c, workers)
            check(lost["count"] == 1, str(lost))
            check(f"Worker {name} at 127.0.0.1:" in lost["text"] and
                  " is lost" in lost["text"], str(lost))
            check(0 <= lost["age_seconds"] <= time.monotonic() - began, str(lost))
            if moved:
                break
        check(moved and moved["job"] == "watched" and moved["count"] > 0, str(moved))
        check([e["number"] for e in c.status()["events"]][0] == "1", "the first event is numbered 1")
        check(c.status()["events"][0]["kind"] == "dispatcher_began", str(c.status()["events"]))
        check(events(c, "job_began")[0]["job"] == "watched", str(events(c, "job_began")))
        for shown in (c.run("status", "--address", c.address),
                      c.run("top", "--once", "--address", c.address)):
            check(f"Worker {name} at" in shown and "is lost" in shown, shown)
        check("events, the last ones" in c.run("status", "--address", c.address), "status")
        check("LAST EVENTS" in c.run("top", "--once", "--address", c.address), "top")
        # The next dispatcher knows nothing of that, and says so.
        dispatcher.kill()
        c.dispatcher(c.address)
        first = c.status()["events"][0]
        check(first["kind"] == "took_over" and first["number"] == "1", str(first))
        check(not events(c, "worker_lost"), str(c.status()["events"]))
        wait_for(lambda: events(c, "consumer_resumed"), "the trainer's return is no event")
        wait_for(lambda: events(c, "worker_joined"), "the worker's return is no event")
