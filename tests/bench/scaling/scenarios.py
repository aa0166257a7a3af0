"""What a fleet has to do when workers come, go, and become slow: each scenario gives figures, and the
bars that they have to meet. All rates are ratios to that of an ideal fleet."""

import dataclasses
import signal
import time

from fleet import Fleet, other_host, until

BATCH = 0.8  # seconds that a batch takes a worker


@dataclasses.dataclass
class Bar:
    what: str
    value: float
    least: float = None
    most: float = None

    @property
    def ok(self):
        return ((self.least is None or self.value >= self.least) and
                (self.most is None or self.value <= self.most))

    def line(self):
        limits = [f"{sign} {limit:g}" for sign, limit in ((">=", self.least), ("<=", self.most))
                  if limit is not None]
        return f"{'ok    ' if self.ok else 'MISSED'} {self.what}: {self.value:.2f} ({', '.join(limits)})"


def _begun(options, folder, workers, *extra, **fleet):
    """A fleet whose job has taken its first batch."""
    fleet = Fleet(options, folder, **fleet)
    fleet.start_dispatcher()
    fleet.add(workers)
    fleet.ready(workers)
    consumer = fleet.consume("job", *extra)
    consumer.wait_for_first()
    return fleet, consumer


def workers(options, folder):
    """A worker that is there adds its rate."""
    for count in (8, 16, 24):
        fleet, consumer = _begun(options, folder / f"{count}", count)
        with fleet:
            time.sleep(10)
            yield Bar(f"{count} workers", consumer.rate(20) * BATCH / count, 0.9)


def join(options, folder):
    """So does one that joins."""
    fleet, consumer = _begun(options, folder / "fleet", 4)
    with fleet:
        time.sleep(15)
        fleet.add(4)
        fleet.ready(8)
        time.sleep(5)
        yield Bar("4 join 4, from 5 s after they are ready", consumer.rate(20) * BATCH / 8, 0.9)


def hosts(options, folder):
    """Workers elsewhere add theirs to that of one on the trainer's host."""
    with other_host() as inside, Fleet(options, folder / "fleet") as fleet:
        fleet.listen = "10.77.0.1"
        fleet.start_dispatcher()
        fleet.add(1)
        fleet.add(4, listen="10.77.0.2", inside=inside)
        fleet.ready(5)
        consumer = fleet.consume()
        consumer.wait_for_first()
        time.sleep(5)
        yield Bar("1 worker on the trainer's host and 4 elsewhere", consumer.rate(20) * BATCH / 5, 0.9)


def slow(options, folder):
    """Half of the workers become 10 times slower."""
    fleet, consumer = _begun(options, folder / "fleet", 8)
    with fleet:
        time.sleep(20)
        for name in list(fleet.workers)[:4]:
            fleet.slow_down(name)
        ideal = 4.4 / BATCH
        first, last = consumer.rate(30), consumer.rate(30)
        yield Bar("half of 8 become 10 times slower: the next 60 s", (first + last) / 2 / ideal, 0.8)
        yield Bar("the last 30 s of them", last / ideal, 0.9)


def stopped(options, folder):
    """Half of the workers stand still."""
    fleet, consumer = _begun(options, folder / "fleet", 8)
    with fleet:
        time.sleep(15)
        halves = list(fleet.workers.values())[:4]
        for worker in halves:
            worker.popen.send_signal(signal.SIGSTOP)
        yield Bar("half of 8 stand still for 20 s: of those that run", consumer.rate(20) * BATCH / 4,
                  0.85)
        for worker in halves:
            worker.popen.send_signal(signal.SIGCONT)
        time.sleep(6)
        yield Bar("from 6 s after they go on", consumer.rate(10) * BATCH / 8, 0.9)


def killed(options, folder):
    """Workers die and are replaced."""
    fleet, consumer = _begun(options, folder / "fleet", 8)
    with fleet:
        time.sleep(10)
        before, began = consumer.batches(), time.monotonic()
        names = list(fleet.workers)
        for name in names + names[:4]:
            fleet.workers[name].close()
            names += fleet.add(1)
            time.sleep(3)
        rate = (consumer.batches() - before) / (time.monotonic() - began)
        yield Bar("one of 8 is killed each 3 s, and replaced", rate * BATCH / 8, 0.85)


def priorities(options, folder):
    """Two jobs share the workers by their priorities."""
    with Fleet(options, folder / "fleet", milliseconds=50) as fleet:
        fleet.start_dispatcher()
        fleet.add(8)
        fleet.ready(8)
        low = fleet.consume("low", "--priority", "1", "--set", "shuffle.seed=1")
        high = fleet.consume("high", "--priority", "4")
        low.wait_for_first()
        high.wait_for_first()
        time.sleep(10)
        began, before = time.monotonic(), (low.batches(), high.batches())
        time.sleep(40)
        seconds = time.monotonic() - began
        rates = [(consumer.batches() - was) / seconds for consumer, was in zip((low, high), before)]
        yield Bar("jobs of priority 1 and 4: both", sum(rates) * BATCH / 2 / 8, 0.9)
        yield Bar("ratio of their rates", rates[1] / max(rates[0], 1e-9), 3.4, 4.6)


def away(options, folder):
    """The dispatcher is away."""
    fleet, consumer = _begun(options, folder / "fleet", 8)
    with fleet:
        time.sleep(15)
        port = fleet.address.rsplit(":", 1)[1]
        fleet.kill_dispatcher()
        yield Bar("the dispatcher is away for 30 s", consumer.rate(30) * BATCH / 8, 0.95)
        fleet.start_dispatcher(port)
        time.sleep(5)
        yield Bar("after it is back", consumer.rate(10) * BATCH / 8, 0.9)


def need(options, folder):
    """A loop that needs little uses few workers."""
    # Before it has what it may have ahead, all workers build.
    fleet, consumer = _begun(options, folder / "fleet", 8, "--delay", str(BATCH),
                             "--prefetch-bytes", "20000")
    with fleet:
        time.sleep(30)
        before = fleet.builds()
        waited = float(fleet.status()["consumers"][0]["waited_seconds"])
        time.sleep(20)
        after = fleet.builds()
        building = sum(after[name] > before.get(name, 0) for name in after)
        waits = float(fleet.status()["consumers"][0]["waited_seconds"]) - waited
        yield Bar("a loop that needs 1/8 of 8: workers that build", building, most=2)
        yield Bar("seconds that it waits, of 20", waits, most=0.1)
        assert consumer.batches() > 0


def twins(options, folder):
    """Two jobs that need the same batches cost one build for each."""
    fleet, first = _begun(options, folder / "fleet", 24)
    with fleet:
        time.sleep(2.5)
        second = fleet.consume("second")
        second.wait_for_first()
        time.sleep(20)
        built, taken = sum(fleet.builds().values()), (first.batches(), second.batches())
        time.sleep(20)
        steps = max(first.batches() - taken[0], second.batches() - taken[1])
        yield Bar("twins 2.5 s apart: builds for a step", (sum(fleet.builds().values()) - built) / steps,
                  most=1.1)


def split(options, folder):
    """One batch is made by several threads."""
    with Fleet(options, folder / "fleet", milliseconds=15, threads=8, rows=1024) as fleet:
        fleet.start_dispatcher()
        fleet.add(1)
        fleet.ready(1)
        consumer = fleet.consume("job", "--steps", "1")
        began = time.monotonic()
        consumer.wait_for_first()
        alone = 1024 * 0.015
        yield Bar("first batch of 1,024 rows of 15 ms with 8 threads, of one thread's time",
                  (time.monotonic() - began) / alone, most=0.2)


def drain(options, folder):
    """A drain ends although the trainer holds its batches."""
    fleet, consumer = _begun(options, folder / "fleet", 2, "--delay", "1000")
    with fleet:
        time.sleep(10)
        began = time.monotonic()
        done = fleet.command("drain", "w0")
        until(lambda: all(worker["state"] != "draining" or not worker.get("building")
                          for worker in fleet.status()["workers"]), 60, "the drain")
        assert done.returncode == 0 and consumer.batches() > 0, done.stderr
        yield Bar("seconds of a drain", time.monotonic() - began, most=BATCH + 1)


def epochs(options, folder):
    """Epochs of few steps are as quick as long ones."""
    def rate(name, steps, ranks):
        with Fleet(options, folder / name, milliseconds=1, size=8 * ranks * steps) as fleet:
            fleet.start_dispatcher()
            fleet.add(2)
            fleet.ready(2)
            consumer = fleet.consume("job", "--world-size", str(ranks))
            consumer.wait_for_first()
            time.sleep(5)
            return consumer.rate(10)
    for ranks in (1, 4, 7):
        long = rate(f"{ranks}-100", 100, ranks)
        for steps in (1, 3, 5):
            yield Bar(f"epochs of {steps} steps with {ranks} ranks, of the rate of 100 steps",
                      rate(f"{ranks}-{steps}", steps, ranks) / long, 0.9)


class Autoscaler:
    """Starts and drains workers as the dispatcher asks, as an autoscaler of Kubernetes does: it looks
    each 15 s and ignores a tenth."""

    def __init__(self, fleet):
        self.fleet, self.changed, self.turns, self._rises = fleet, time.monotonic(), 0, None
        self.names = list(fleet.workers)

    def look(self):
        status = self.fleet.status().get("desired_workers", {})
        if not status or status.get("settling"):
            return
        wanted, there = int(status["workers"]), len(self.names)
        if abs(wanted / there - 1) <= 0.1:
            return
        self.changed = time.monotonic()
        rises = wanted > there
        self.turns += self._rises not in (None, rises)
        self._rises = rises
        if rises:
            self.names += self.fleet.add(wanted - there)
        for name in self.names[wanted:]:
            self.fleet.command("drain", name, "--timeout", "30")
            self.fleet.workers[name].close()
        self.names = self.names[:wanted]

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(min(15, max(0, end - time.monotonic())))
            self.look()


def autoscaling(options, folder):
    """As many workers as are needed come and go."""
    def delay(need):
        """Of a loop for which so many workers are enough, with the reserve of a fifth and the margin
        of 5 % of the figure."""
        return str(BATCH * 1.2 / (0.94 * need))

    fleet, first = _begun(options, folder / "fleet", 3, "--delay", delay(3))
    with fleet:
        autoscaler = Autoscaler(fleet)
        autoscaler.run(45)
        loops = []
        for need, within in ((6, 120), (3, 240), (12, 120 + 45)):
            began, turns = time.monotonic(), autoscaler.turns
            if need > 3:
                name = f"loop{len(loops)}"
                loops.append(fleet.consume(name, "--delay", delay(need - 3), "--set",
                                           f"shuffle.seed={need}"))
                loops[-1].wait_for_first()
            else:
                loops[-1].process.close()
            autoscaler.run(within + 60)
            yield Bar(f"seconds until as many workers are there as {need} are needed",
                      max(0.0, autoscaler.changed - began), most=within)
            yield Bar("how many are there then, of these", len(autoscaler.names) / need, 0.85, 1.2)
            yield Bar("changes of direction meanwhile", autoscaler.turns - turns, most=1)
        assert first.batches() > 0


def cold(options, folder):
    """24 workers and a trainer begin together."""
    with Fleet(options, folder / "fleet") as fleet:
        fleet.start_dispatcher()
        consumer = fleet.consume()
        fleet.add(24)
        fleet.ready(24)
        time.sleep(4)
        yield Bar("24 workers and a trainer begin together, from 4 s after all are ready",
                  consumer.rate(20) * BATCH / 24, 0.9)


SCENARIOS = (workers, join, hosts, slow, stopped, killed, priorities, away, need, twins, split, drain,
             epochs, cold, autoscaling)
