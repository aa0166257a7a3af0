"""Defines a fault: a numbered function over a cluster, the promises to keep, and its conditions.

    @fault("1", "kill -9 a worker in mid-batch", keeps="E B P", conditions="two workers, …")
    def a_worker_is_killed(run):
        with run.cluster() as c: …

A function fails with Failure or checker.Wrong. It raises NotBuilt if the servers do not have the
feature yet, NotRun if the runner was not given a needed option, and Impossible if this machine
cannot do it; none of these counts as green.
"""

import contextlib
import dataclasses
import importlib
import pathlib
import random
import re
import shutil
import tempfile
import time

import checker
from cluster import Cluster, Failure, check
from patience import now

# A build and the watcher's clock may add this much to a promised time.
ALLOWANCE = 1.0


class NotBuilt(Exception):
    """The fault needs a part of the servers that is not built yet."""


class NotRun(Exception):
    """The fault needs something that the runner was not given; the message says what."""


class Impossible(Exception):
    """The fault is impossible on this machine; the message says why."""


@dataclasses.dataclass
class Fault:
    number: str
    title: str
    keeps: str
    conditions: str
    function: object
    ci: bool        # CI runs it
    limit: int      # for one seed, in seconds of patience.now()
    once: bool      # nothing in it depends on the seed, so one run is enough
    pending: str    # the part of the servers that is missing; no failure is RED until it is there


FAULTS = {}


def fault(number, title, keeps, conditions, ci=False, limit=300, once=False, pending=""):
    def add(function):
        FAULTS[number] = Fault(number, title, keeps, conditions, function, ci, limit, once, pending)
        return function
    return add


def load():
    """All faults, in the order of the table."""
    for module in sorted((pathlib.Path(__file__).parent / "faults").glob("*.py")):
        importlib.import_module(f"faults.{module.stem}")
    return sorted(FAULTS.values(),
                  key=lambda f: (int(re.match(r"\d*", f.number)[0] or 1000), f.number))


class Run:
    """One fault with one seed."""

    def __init__(self, seed, data, slack, kind="coq", fleet=0):
        self.seed = seed
        self.fleet = fleet  # how many workers a fault has at least that works with any number
        self.random = random.Random(seed)
        self.data = data
        self.kind = kind
        self.slack = slack
        self.figures = {}
        self._began = time.monotonic(), now()

    def stretch(self):
        """How many times longer this run takes than with as many CPUs as its processes could use."""
        wall, counted = (at - began for at, began in zip((time.monotonic(), now()), self._began))
        return max(1, wall / max(counted, 1e-3))

    @contextlib.contextmanager
    def cluster(self, finish=True, **options):
        """A cluster in a folder of its own; at the end all processes stop and none has crashed."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-fault-"))
        made = Cluster(folder, self.data, kind=self.kind, fleet=self.fleet, **options)
        try:
            try:
                yield made
                if finish:
                    made.finish()
                made.check_no_crash()
            except (Failure, checker.Wrong):
                for process in made.processes[-8:]:
                    state = process.popen.poll()
                    print(f"--- {process.name}: {'runs' if state is None else f'ended with {state}'}\n"
                          f"{process.text()[-2500:]}")
                raise
        finally:
            made.close()
            shutil.rmtree(folder, ignore_errors=True)

    def note(self, what, value, unit="s"):
        """Notes a figure for the table, which shows the highest of a fault's seeds."""
        self.figures[what] = (max(value, self.figures.get(what, (0, unit))[0]), unit)

    def within(self, what, seconds, limit, allowance=ALLOWANCE):
        """Checks P: a measured time keeps its promise. More is allowed as far as the processes lacked
        CPUs."""
        self.note(what, seconds)
        allowed = (limit + allowance) * self.slack * self.stretch()
        check(seconds <= allowed, f"{what}: {seconds:.2f} s, promised {limit:g} s "
                                  f"(allowed here: {allowed:g} s)")
