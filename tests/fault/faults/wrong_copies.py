"""A worker, which is a test program, sends wrong batches whose digests match them."""

import re
import time
import urllib.request

import checker
from cluster import binaries, binary, check, wait_for
from fault import fault
from proxy import Proxy


def changed(worker):
    """(epoch, place) of the batches that the worker changed, from its own output."""
    return {(int(epoch), int(place)) for epoch, place in
            re.findall(r"^changed epoch (\d+), place (\d+)$", worker.text(), re.M)}


def alarms(consumer, world_size):
    """(epoch, step, both workers) of each alarm in its log."""
    return [(int(found[1]), int(found[2]) // (8 * world_size), {found[3], found[4]})
            for found in re.finditer(r'copies of a batch differ at="epoch (\d+), example (\d+)" '
                                     r'worker="(\S+) .*? other_worker="(\S+) ',
                                     consumer.process.text())]


def mismatches(dispatcher):
    """The value of the dispatcher's metric."""
    address = re.search(r"for=metrics address=(\S+)", dispatcher.text())[1]
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return int(re.search(r"^millrace_duplicate_mismatch_total (\d+)$", text, re.M)[1])


def places(reference):
    """The (epoch, step, rank) of each batch; the key is (epoch, number of examples before the
    batch)."""
    found, before = {}, {}
    for line in sorted(reference, key=lambda line: (line["epoch"], line["ordinal"])):
        found[line["epoch"], before.get(line["epoch"], 0)] = checker.place(line)
        before[line["epoch"]] = (before.get(line["epoch"], 0) + len(line["examples"])
                                 + len(line["dropped"]))
    return found


@fault("40", "a wrong copy of a batch from one worker (test build)",
       "alarm names both, no bad batch is delivered twice", ci=True, conditions=(
    "one of two workers changes a byte of every third batch before it makes the digest; then the "
    "batches of one of them come 1.5 to 2.5 s late for 5 s of every 10, so that steps are late and "
    "are copied; one or two ranks; E B of all batches except the changed ones"))
def a_worker_makes_wrong_copies(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher(extra=["--metrics-listen", "127.0.0.1:0"])
        proxies = [c.add(Proxy(run.seed)), c.add(Proxy(run.seed))]
        with binaries(daemon=binary("wrong_copies")):
            with c.with_env(MILLRACE_TEST_RIGHT="1"):
                c.worker(proxy=proxies[0])
            wrong = c.worker(proxy=proxies[1])
        world_size = run.random.choice([1, 2])
        # The loop takes more than both make, so that it waits for a batch that is late.
        consumer = c.consume(world_size, epochs=10000, delay=0.005, network=True)
        consumer.wait_for_batches(run.random.randrange(20, 60))
        late = run.random.choice(proxies).down
        began, delay = time.monotonic(), 1.5 + run.random.random()

        def alarm():
            late.delay = delay if (time.monotonic() - began) % 10 < 5 else 0
            return alarms(consumer, world_size)

        wait_for(alarm, "no alarm", consumer.process.popen)
        late.delay = 0
        wait_for(lambda: mismatches(dispatcher) > 0, "duplicate_mismatch_total does not rise")
        c.stop(consumer)

        lines = consumer.lines()
        epochs = 1 + max(line["epoch"] for line in lines)
        right = {checker.place(line): line for epoch in range(epochs)
                 for line in c.reference(epoch, world_size)}
        where = places(right.values())
        may_differ = {where[at] for at in changed(wrong) if at in where}
        changed_steps = {(epoch, step) for epoch, step, _ in may_differ}
        for epoch, step, workers in alarms(consumer, world_size):
            check(workers == {proxy.address for proxy in proxies},
                  f"the alarm at epoch {epoch}, step {step} names {workers}")
            check((epoch, step) in changed_steps, f"an alarm at epoch {epoch}, step {step}, which "
                                                  f"nobody changed")
        # Either copy of a changed batch may have come first.
        taken_wrong = [line for line in lines if checker.place(line) in may_differ
                       and line["hash"] != right[checker.place(line)]["hash"]]
        check(taken_wrong, "no wrong batch was delivered: nothing was tried")
        for line in taken_wrong:
            line["hash"] = right[checker.place(line)]["hash"]
        c.check_prefix(lines, world_size)
        run.note("alarms", len(alarms(consumer, world_size)), "")
        run.note("batches taken wrong", len(taken_wrong), "")
