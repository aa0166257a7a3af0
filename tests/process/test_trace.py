"""`millrace trace`: timelines of real processes, read as a viewer of Chrome's format reads them."""

import json
import signal
import subprocess

from harness import Failure, binary, check, cluster, tries, wait_for
from test_streams import DATA

# Few batches are received ahead of the loop, so that a trace of one second has the whole way of
# some batches.
STEADY = ["--delay", "0.002", "--prefetch-bytes", "60000"]
# Workers build up to 4 s ahead of a loop with a step of its own. This one takes what they build, so
# that it needs both of them, and the way of a batch is shorter than a trace.
HUNGRY = STEADY[2:]
WAY = ["build", "shuffle", "closure", "batch", "seal", "send", "receive", "gather", "expand", "taken"]


def asks_of(events):
    """Asks of consumers, which overlap: each is an event where it begins and one where it ends."""
    begun = {(e["cat"], e["id"]): e for e in events if e["ph"] == "b"}
    ended = {(e["cat"], e["id"]): e for e in events if e["ph"] == "e"}
    check(begun.keys() == ended.keys() and all(cat == "ask" for cat, _ in begun), "asks lack an end")
    return [{**e, "dur": ended[key]["ts"] - e["ts"]} for key, e in begun.items()]


def batch_of(event):
    return tuple(event["args"].get(key) for key in ("job", "rank", "epoch", "position"))


class Trace:
    def __init__(self, text):
        self.whole = json.loads(text)
        events = self.whole["traceEvents"]
        self.spans = [e for e in events if e["ph"] == "X"]
        self.flows = [e for e in events if e["ph"] in "stf"]
        self.asks = {}
        for ask in asks_of(events):
            self.asks.setdefault(batch_of(ask), []).append(ask)
        self.processes = {e["pid"]: e["args"]["name"] for e in events
                          if e["ph"] == "M" and e["name"] == "process_name"}
        self.rows = {(e["pid"], e["tid"]) for e in events
                     if e["ph"] == "M" and e["name"] == "thread_name"}
        self.error = float(self.whole["otherData"]["clock_error_us"])

    def named(self, name):
        return [e for e in self.spans if e["name"] == name]

    def batches(self):
        """Spans by (job, epoch, ordinal), and then by name."""
        found = {}
        for span in self.spans:
            args = span["args"]
            if "ordinal" in args:
                of = found.setdefault((args["job"], args["epoch"], args["ordinal"]), {})
                of.setdefault(span["name"], []).append(span)
        return found

    def asks_for(self, span):
        """The asks for the batch of a span that began during the trace."""
        return self.asks.get(batch_of(span), [])


def trace_command(c, seconds):
    return [binary("cli"), "trace", "--address", c.address, "--seconds", str(seconds)]


def take(c, seconds):
    done = subprocess.run(trace_command(c, seconds), stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    check(done.returncode == 0, f"trace ended with {done.returncode}: {done.stderr}")
    return Trace(done.stdout), done.stderr


def take_until(c, has, seconds=1):
    """Takes longer and longer traces, until one has what the test looks at."""
    for _ in tries():
        trace, said = take(c, seconds)
        if has(trace, said):
            return trace, said
        seconds = min(2 * seconds, 60)
    raise Failure(f"no trace has what was looked for; the last one has {len(trace.spans)} spans: {said}")


def started(consumer, c):
    wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
    return consumer


def check_rows(trace):
    """Checks that spans of one row do not overlap, unless one contains the other."""
    by_row = {}
    for span in trace.spans:
        check((span["pid"], span["tid"]) in trace.rows, f"a row without a name: {span}")
        check(span["dur"] >= 0, f"{span}")
        by_row.setdefault((span["pid"], span["tid"]), []).append(span)
    for spans in by_row.values():
        open_until = []
        for span in sorted(spans, key=lambda s: (s["ts"], -s["dur"])):
            while open_until and open_until[-1] <= span["ts"] + 0.002:
                open_until.pop()
            end = span["ts"] + span["dur"]
            check(not open_until or end <= open_until[-1] + 0.002,
                  f"{span} lies across the end of another at {open_until}")
            open_until.append(end)


def of_work(trace):
    """All processes but the dispatcher, which has no spans."""
    return {pid for pid, name in trace.processes.items() if not name.startswith("dispatcher ")}


def whole_ways(trace):
    """Follows batches of the job `seen` from their asks to the loop, at most five of each of its two
    ranks. Returns how many there are of each rank."""
    kinds = {pid: name.split()[0] for pid, name in trace.processes.items()}
    found = {0: 0, 1: 0}
    for (job, _, ordinal), spans in trace.batches().items():
        if not set(WAY) <= set(spans) or job != "seen":
            continue
        way = [spans[name][0] for name in WAY]
        asks = trace.asks_for(way[0])
        rank = way[0]["args"]["rank"]
        if not asks or found[rank] == 5:
            continue
        found[rank] += 1
        check(asks[0]["name"] == "ask: first", f"{asks}")
        begins = [asks[0]["ts"], *(span["ts"] for span in way)]
        slack = 2 * trace.error + 0.002
        for before, after, name in zip(begins, begins[1:], WAY):
            check(before <= after + slack,
                  f"{name} of {ordinal} begins before what comes before it: {begins}")
        receive = way[WAY.index("receive")]
        ends = [ask["ts"] + ask["dur"] for ask in asks]
        check(max(ends) + slack >= receive["ts"] and min(ends) <= way[-1]["ts"] + slack,
              f"asks for {ordinal} do not end between {receive} and {way[-1]}: {asks}")
        check(kinds[asks[0]["pid"]] == "consumer" and asks[0]["pid"] == way[-1]["pid"], f"{asks}")
        for span in way:
            args = span["args"]
            check(args["ordinal"] == 2 * args["step"] + args["rank"] == ordinal, f"{span}")
            check(args["position"] == 16 * args["step"], f"{span}")
            check(args["worker"] in trace.processes[way[0]["pid"]], f"{span}")
        check(kinds[way[0]["pid"]] == "worker" and kinds[way[-1]["pid"]] == "consumer", f"{way}")

        at = {(s["pid"], s["tid"], s["ts"]) for s in way
              if s["name"] in ("build", "send", "receive", "expand", "taken")}
        ids = {f["id"] for f in trace.flows if f["ph"] == "f" and
               (f["pid"], f["tid"], f["ts"]) == (way[-1]["pid"], way[-1]["tid"], way[-1]["ts"])}
        check(len(ids) == 1, f"flows that end where {ordinal} is taken: {ids}")
        flow = [f for f in trace.flows if f["id"] in ids]
        check({(f["pid"], f["tid"], f["ts"]) for f in flow} == at, f"{flow} does not go {at}")
    return found


def test_a_batch_is_followed_from_its_ask_to_the_loop():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        c.worker()
        started(c.consumer(2, job="seen", epochs=0, extra=HUNGRY), c)

        def has_all(trace, said):
            return "of 1 dispatcher, 2 workers and 2 consumers" in said and \
                {span["pid"] for span in trace.spans} == of_work(trace) and \
                whole_ways(trace) == {0: 5, 1: 5}

        trace, _ = take_until(c, has_all, seconds=2)
        kinds = sorted(name.split()[0] for name in trace.processes.values())
        check(kinds == ["consumer", "consumer", "dispatcher", "worker", "worker"], str(trace.processes))
        for rank in (0, 1):
            check(any(f"consumer seen rank {rank} " in name for name in trace.processes.values()),
                  str(trace.processes))
        check_rows(trace)


def test_operations_have_spans_with_their_names_and_all_spans_name_the_dataset():
    sets = ["tensors.label={cast: node_label, dtype: float64, at: worker}",
            "tensors.hot={one_hot: faithful, depth: 2, at: consumer}", "output=[label, hot]"]
    with cluster(DATA) as c:
        c.serve()
        own = [word for text in sets for word in ("--set", text)]
        started(c.consumer(1, job="named", epochs=0, extra=[*STEADY, *own]), c)
        expected = {("worker", "tensors: cast"), ("consumer", "tensors: widen"),
                    ("consumer", "tensors: one_hot")}

        def operations(trace):
            roles = {pid: name.split()[0] for pid, name in trace.processes.items()}
            return {(roles[span["pid"]], span["name"]) for span in trace.spans
                    if span["name"].startswith("tensors: ")}

        trace, _ = take_until(c, lambda trace, _: operations(trace) >= expected)
        check(operations(trace) == expected, str(operations(trace)))
        for span in trace.spans:
            check((span["args"]["dataset"], span["args"]["kind"]) == ("data", "coq"), str(span))
        check_rows(trace)


def test_a_wait_is_in_the_trace_before_it_ends():
    with cluster(DATA) as c:
        c.dispatcher()
        waiting = c.consumer(1, job="early")
        wait_for(lambda: c.status()["consumers"], "no consumer", waiting.popen)
        # There is no worker, so the consumer only waits.
        wait_for(lambda: take(c, 1)[0].named("waited: lease"), "no wait is seen", waiting.popen)
        c.worker()
        waiting.expect_success()

        # The job only waits for the one worker, which builds batches as they are asked for.
        hungry = started(c.consumer(1, job="hungry", epochs=0, extra=HUNGRY), c)

        def waits_of(trace):
            return [s for s in trace.spans if s["name"].startswith("waited: ")]

        trace, _ = take_until(c, lambda trace, _: waits_of(trace))
        waits = waits_of(trace)
        causes = {"lease", "connect", "build", "queue", "transfer", "expand", "slot"}
        for wait in waits:
            check(wait["name"].removeprefix("waited: ") in causes, f"{wait}")
            check(wait["args"]["job"] == "hungry" and "ordinal" in wait["args"], f"{wait}")
        check_rows(trace)
        hungry.kill()


def test_a_trace_of_a_daemon_that_serves_alone():
    with cluster(DATA) as c:
        c.serve()
        started(c.consumer(1, epochs=0, extra=STEADY), c)
        trace, _ = take_until(c, lambda trace, _: len(trace.processes) == 3 and
                              set(WAY) <= {span["name"] for span in trace.spans})
        roles = sorted(name.split()[0] for name in trace.processes.values())
        check(roles == ["consumer", "dispatcher", "worker"], str(trace.processes))


def test_a_trace_while_nothing_runs_is_empty_and_says_so():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        wait_for(lambda: c.status()["workers"], "no worker")
        trace, said = take_until(c, lambda _, said: "1 workers" in said)
        check(not trace.spans, str(trace.spans))
        check("the trace is empty" in said, said)
        check(len(trace.processes) == 2, str(trace.processes))


def test_a_trace_that_cannot_be_is_refused():
    with cluster(DATA) as c:
        c.dispatcher()
        for seconds in ("0", "601", "1.5", "soon"):
            done = subprocess.run(trace_command(c, seconds), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            check(done.returncode == 2 and seconds in done.stderr and not done.stdout,
                  f"{seconds}: {done.returncode} {done.stderr}")
        first = c.start("trace", *trace_command(c, 600))

        def second():
            nonlocal first
            if first.popen.poll() is not None:  # the other trace came first
                first = c.start("trace", *trace_command(c, 600))
            done = subprocess.run(trace_command(c, 1), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            return done.returncode == 1 and "another trace is being taken" in done.stderr

        wait_for(second, "a second trace is not refused")
        # An interrupted trace is whole; after a killed one, the next trace can begin.
        first.popen.send_signal(signal.SIGINT)
        first.expect_success()
        check('"displayTimeUnit"' in first.text(), first.text()[-300:])
        wait_for(lambda: subprocess.run(trace_command(c, 1), stdin=subprocess.DEVNULL,
                                        capture_output=True, check=False).returncode == 0, "the way is not free")


def test_a_dispatcher_that_dies_ends_the_trace_and_nothing_else():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher()
        c.worker()
        consumer = started(c.consumer(1, epochs=0, extra=STEADY), c)
        trace = c.start("trace", *trace_command(c, 600))
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        dispatcher.kill()
        check(trace.wait() == 1 and c.address in trace.text(), trace.text())
        c.dispatcher(c.address)

        def traced():
            done = subprocess.run(trace_command(c, 1), stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, check=False)
            return done.returncode == 0 and "1 workers and 1 consumers" in done.stderr and \
                Trace(done.stdout).named("taken")

        wait_for(traced, "the new dispatcher's trace has not everybody", consumer.popen)
