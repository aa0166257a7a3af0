"""Workers and consumers tune themselves, keep to limits, and tell what they did."""

import time

from harness import binary, check, cluster, wait_for
from test_daemon import refused
from test_streams import DATA


def tuning_of(peers, index=0):
    return peers[index].get("tuning", {}) if len(peers) > index else {}


def decided(c):
    """The decisions of the consumer and of the worker, once both have judged one."""
    status = c.status()
    found = [[d for d in tuning_of(status.get(kind, [])).get("decisions", [])
              if d["outcome"] in ("kept", "undone")] for kind in ("consumers", "workers")]
    return found if all(found) else None


def test_what_nobody_needs_is_given_back_and_the_story_is_told():
    with cluster(DATA) as c:
        c.serve()
        began = time.monotonic()
        # Room for ten seconds, of which four are needed.
        c.consumer(1, epochs=0, job="slow", extra=("--delay", "0.1", "--prefetch-bytes", "400000"))
        consumer, worker = wait_for(lambda: decided(c), "nobody decides anything")
        check(time.monotonic() - began > 20, "a decision before anything could be measured")
        check(consumer[0]["setting"] == "prefetch_bytes", consumer)
        check(consumer[0]["to"] < consumer[0]["from"], consumer)
        for decision in consumer + worker:
            check(decision["waited_for"] == "" and decision["outcome"] == "kept", decision)
        story = c.run("tune", "--explain", "slow", "--address", c.address)
        for part in ("job slow", "rank 0", "prefetch_bytes", "nobody waited", "threads", "waited for"):
            check(part in story, f"{part} is not in the story:\n{story}")
        check("tuning, the last decisions" in c.run("status", "--address", c.address), "status")
        check("LAST DECISIONS OF TUNING" in c.run("top", "--once", "--address", c.address), "top")
        refused([binary("cli"), "tune", "--explain", "other", "--address", c.address], 2, "other", "slow")


def test_given_threads_and_consumers_that_say_so_are_not_tuned():
    with cluster(DATA) as c:
        c.serve("--threads", "2")
        c.consumer(1, epochs=0, job="fixed", extra=("--delay", "0.1", "--no-tune"))
        status = wait_for(lambda: (s := c.status()) and tuning_of(s.get("consumers", [])) and s,
                          "no consumer reports its settings")
        for peers in ("consumers", "workers"):
            for setting in tuning_of(status[peers])["settings"]:
                check(setting["pinned"], setting)
            check(tuning_of(status[peers])["decisions"] == [], status[peers])
