"""What happened to a service, as status and top tell it."""

import time

from harness import check, cluster, wait_for
from test_streams import DATA

SLOW = ["--delay", "0.05", "--prefetch-bytes", "60000"]


def events(c, kind):
    return [e for e in c.status()["events"] if e["kind"] == kind]


def test_a_worker_that_is_killed_is_an_event_in_status_and_top():
    with cluster(DATA) as c:
        began = time.monotonic()
        dispatcher = c.dispatcher()
        doomed = c.worker(extra=["--name", "doomed"])
        c.worker(extra=["--name", "other"])
        consumer = c.consumer(2, epochs=0, job="watched", extra=SLOW)

        def stopped_with_leases():
            # What the worker has sent already ends leases as long as somebody reads it.
            consumer.stop()
            for _ in range(2):  # a report may be under way at the first look
                if not any(w["name"] == "doomed" and w["leases"] > 0 for w in c.status()["workers"]):
                    consumer.resume()
                    return False
            return True

        wait_for(stopped_with_leases, "the worker gets no lease")
        doomed.kill()
        consumer.resume()
        check([e["number"] for e in c.status()["events"]][0] == "1", "the first event is numbered 1")
        check(c.status()["events"][0]["kind"] == "dispatcher_began", str(c.status()["events"]))
        check(events(c, "job_began")[0]["job"] == "watched", str(events(c, "job_began")))
        lost = wait_for(lambda: events(c, "worker_lost"), "nobody says that the worker is lost")[0]
        check(lost["peer"] == "doomed" and lost["count"] == 1, str(lost))
        check("Worker doomed at 127.0.0.1:" in lost["text"] and " leases move to others" in lost["text"],
              str(lost))
        check(0 <= lost["age_seconds"] <= time.monotonic() - began, str(lost))
        moved = wait_for(lambda: events(c, "leases_moved"), "nobody says that its leases move")[0]
        check(moved["job"] == "watched" and moved["peer"] == "doomed" and moved["count"] > 0, str(moved))
        for shown in (c.run("status", "--address", c.address),
                      c.run("top", "--once", "--address", c.address)):
            check("Worker doomed at" in shown and "is lost" in shown, shown)
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
