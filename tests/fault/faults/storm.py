"""Everything at once, for a million batches."""

import pathlib
import re
import time

import checker
from cluster import EXAMPLES, check
from fault import fault

RANKS = 4
STEPS = EXAMPLES // RANKS          # in an epoch; each batch has one example
EPOCHS = 667
BEGIN = re.compile(r'\{"epoch":(\d+),"step":(\d+),"rank":(\d+),')


class Storm:
    def __init__(self, run, c):
        self.run, self.c = run, c
        self.dispatcher = c.dispatcher()
        self.workers = [c.worker(), c.worker()]
        self.parts = []            # each trainer, and the (epoch, step) where the next one went on
        self.fingerprint = None
        self.counts = {}
        self.start((0, 0))

    def start(self, at):
        """Starts a trainer of all ranks from a checkpoint."""
        where = None
        if at != (0, 0):
            where = f"v2,{self.fingerprint}:{at[0]}:{at[1] * RANKS}"
        self.consumer = self.c.consume(RANKS, epochs=EPOCHS - at[0], delay=0, cursor=where,
                                       ahead=self.run.random.choice([1, 50000, 1 << 20]),
                                       network=self.run.random.random() < 0.5, extra=["--quiet"])

    def replace_worker(self, harm):
        worker = self.workers.pop(self.run.random.randrange(len(self.workers)))
        self.workers.append(self.c.worker())
        harm(worker)

    def kill_a_worker(self):
        self.replace_worker(lambda worker: worker.kill())

    def stop_a_worker(self):
        self.replace_worker(lambda worker: worker.terminate())

    def kill_all_workers(self):
        for worker in self.workers:
            worker.kill()
        self.workers = [self.c.worker(), self.c.worker()]

    def kill_the_dispatcher(self):
        self.dispatcher.kill()
        time.sleep(self.run.random.random())
        self.dispatcher = self.c.again(self.dispatcher)

    def pause(self, process):
        process.stop()
        time.sleep(4 * self.run.random.random())
        process.resume()

    def pause_a_worker(self):
        self.pause(self.run.random.choice(self.workers))

    def pause_the_dispatcher(self):
        self.pause(self.dispatcher)

    def kill_the_trainer(self):
        """Kills the trainer and starts it again from its checkpoint, at a multiple of 50 steps."""
        self.fingerprint = self.c.fingerprint()
        self.consumer.process.kill()
        self.consumer.look()
        _, last = places(self.consumer)
        epoch, step = min(last.values()) if len(last) == RANKS else (0, 0)
        before = self.parts[-1][1] if self.parts else (0, 0)
        at = max((epoch, step // 50 * 50), before)
        self.parts.append((self.consumer, at))
        self.start(at)

    def blow(self):
        """Injects faults until the job has ended."""
        calm = [self.kill_a_worker, self.kill_a_worker, self.stop_a_worker, self.kill_all_workers,
                self.kill_the_dispatcher, self.kill_the_dispatcher, self.pause_a_worker,
                self.pause_the_dispatcher]
        while self.consumer.process.alive():
            time.sleep(1.5 * self.run.random.random())
            event = self.run.random.choice(calm)
            if self.run.random.random() < 0.04 and self.consumer.batches() > 20000:
                event = self.kill_the_trainer
            event()
            self.counts[event.__name__] = self.counts.get(event.__name__, 0) + 1
        self.consumer.expect_success()
        self.parts.append((self.consumer, (EPOCHS, 0)))


def places(consumer):
    """A log's lines with their places, and the last place of each rank."""
    lines, last = [], {}
    for line in pathlib.Path(consumer.log).read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            break
        found = BEGIN.match(line)
        check(found, f"no line of a log: {line[:80]}")
        epoch, step, rank = map(int, found.groups())
        check((epoch, step) > last.get(rank, (-1, -1)), f"out of order: {line[:80]}")
        last[rank] = epoch, step
        lines.append(((epoch, step), line))
    return lines, last


@fault("storm", "a random storm of kills, pauses and restarts, for a million batches",
       "every example exactly once, the same hashes", limit=1800, once=True, conditions=(
    "4 ranks, 667 epochs of 1,500 batches of one example; every 0 to 1.5 s one of these: a worker "
    "or all workers are killed, stopped or paused for up to 4 s; the dispatcher is killed or "
    "paused; the trainer is killed and resumed from its checkpoint"))
def a_storm(run):
    with run.cluster(batch="size: 1") as c:
        began = time.monotonic()
        storm = Storm(run, c)
        storm.blow()
        seconds = time.monotonic() - began
        epochs = [[] for _ in range(EPOCHS)]
        begin = (0, 0)
        for consumer, end in storm.parts:
            for place, line in places(consumer)[0]:
                check(place >= begin, f"{place} came after a resume at {begin}")
                if place < end:
                    epochs[place[0]].append(line)
            begin = end
        batches = 0
        for epoch, lines in enumerate(epochs):
            delivered = checker.parse("".join(lines), f"epoch {epoch}")
            expected = c.reference(epoch, RANKS)
            batches += checker.check(delivered, expected, RANKS, EXAMPLES)[0]
            c.forget_references()
        check(batches == EPOCHS * EXAMPLES, f"{batches} batches")
        run.note("batches", batches, "")
        run.note("in", seconds)
        for event, count in sorted(storm.counts.items()):
            run.note(event.replace("_", " ") + " ×", count, "")
