"""Workers and consumers tune themselves, keep to limits, and tell what they did."""

import contextlib
import os
import time

from harness import Skipped, binary, check, cluster, numpy_python, wait_for
from test_daemon import refused
from test_streams import DATA


SLOW = """
import time
__all__ = ["Slow"]
class Slow:
    def __len__(self): return 1000
    def spec(self): return {"n": "int64"}
    def __getitem__(self, i):
        time.sleep(0.01)
        return {"n": i}
"""


def tuning_of(peers, index=0):
    return peers[index].get("tuning", {}) if len(peers) > index else {}


def decided(c, kinds):
    """The decisions of peers of these kinds, once each of them has judged one."""
    status = c.status()
    found = [[d for d in tuning_of(status.get(kind, [])).get("decisions", [])
              if d["outcome"] in ("kept", "undone")] for kind in kinds]
    return found if all(found) else None


def test_what_nobody_needs_is_given_back_and_the_story_is_told():
    with cluster(DATA) as c:
        c.serve()
        began = time.monotonic()
        # Room for ten seconds, of which four are needed.
        c.consumer(1, epochs=0, job="slow", extra=("--delay", "0.1", "--prefetch-bytes", "400000"))
        # One CPU has one thread, which a worker cannot give back.
        one_cpu = len(os.sched_getaffinity(0)) < 2
        kinds = ("consumers",) if one_cpu else ("consumers", "workers")
        consumer, *worker = wait_for(lambda: decided(c, kinds), "nobody decides anything")
        check(time.monotonic() - began > 20, "a decision before anything could be measured")
        check(consumer[0]["setting"] == "prefetch_bytes", consumer)
        check(consumer[0]["to"] < consumer[0]["from"], consumer)
        for decision in sum(worker, consumer):
            check(decision["waited_for"] == "" and decision["outcome"] == "kept", decision)
        story = c.run("tune", "--explain", "slow", "--address", c.address)
        for part in ("job slow", "rank 0", "prefetch_bytes", "nobody waited",
                     *(() if one_cpu else ("threads", "waited for"))):
            check(part in story, f"{part} is not in the story:\n{story}")
        check("tuning, the last decisions" in c.run("status", "--address", c.address), "status")
        check("LAST DECISIONS OF TUNING" in c.run("top", "--once", "--address", c.address), "top")
        refused([binary("cli"), "tune", "--explain", "other", "--address", c.address], 2, "other", "slow")


@contextlib.contextmanager
def plugin_cluster(options=""):
    """A cluster that serves SLOW, with more keys of the plugin."""
    python = numpy_python()
    with cluster(DATA) as c:
        plugin = c.folder / "plugin"  # nothing else may change in it
        plugin.mkdir()
        (plugin / "slow.py").write_text(SLOW)
        c.pipeline.write_text('millrace: 1\nsource: {python: "slow:Slow"}\nbatch: {size: 2}\n')
        config = c.folder / "worker.yaml"
        config.write_text(f"plugins: {{slow: {{path: {plugin}, python: {python}{options}}}}}\n")
        c.serve("--config", config)
        yield c


def setting_of(c, name):
    found = [s for s in tuning_of(c.status().get("workers", [])).get("settings", []) if s["name"] == name]
    return found[0] if found else None


def processes_that_run(c):
    workers = c.status().get("workers", [])
    return sum(int(p["process"]) != 0 for w in workers for use in w.get("plugins", [])
               for p in use["processes"])


def test_processes_of_plugins_follow_what_is_needed():
    if len(os.sched_getaffinity(0)) < 2:
        raise Skipped("one CPU has one process at most")
    with plugin_cluster() as c:
        fast = c.consumer(1, epochs=0, job="fast")
        wait_for(lambda: processes_that_run(c) >= 2, "a second process is never started", fast.popen)
        setting = setting_of(c, "processes of slow:Slow")
        check(not setting["pinned"] and setting["value"] <= setting["most"], setting)
        check(setting["most"] <= len(os.sched_getaffinity(0)), setting)
        fast.terminate()
        fast.wait()
        c.consumer(1, epochs=0, job="slow", extra=("--delay", "1", "--prefetch-bytes", "4000"))
        wait_for(lambda: processes_that_run(c) == 1, "the second process does not end")
        check(setting_of(c, "processes of slow:Slow")["value"] == 1, "the setting")
        story = c.run("tune", "--explain", "slow", "--address", c.address)
        check("processes of slow:Slow 1, from 1 to" in story, story)


def test_a_given_number_of_processes_stays():
    with plugin_cluster(", processes: 5") as c:
        c.consumer(1, epochs=0, job="fixed", extra=("--delay", "0.1"))
        setting = wait_for(lambda: setting_of(c, "processes of slow:Slow"), "no setting is reported")
        check(setting["pinned"] and setting["value"] == 5 and setting["most"] == 5, setting)


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
