"""Processes of two versions of the protocol."""

import os
import pathlib
import re

from cluster import binaries, check, wait_for
from fault import NotRun, fault


HEADER = pathlib.Path(__file__).parents[3] / "common" / "base" / "protocol_version.h"


def older():
    """The programs of the version before this one."""
    folder = os.environ.get("MILLRACE_OLDER")
    if not folder:
        raise NotRun("give --older FOLDER, which has bin/millraced and bin/millrace of a build of "
                     "the last commit that spoke the protocol before this one")
    return binaries(daemon=pathlib.Path(folder) / "bin" / "millraced",
                    cli=pathlib.Path(folder) / "bin" / "millrace")


@fault("32", "older and newer processes", "refused", conditions=(
    "the protocol before this one (--older). An older worker and an older trainer meet a newer dispatcher, "
    "and a newer worker and a newer trainer an older one: all are refused, and the errors name both "
    "versions; meanwhile a job of the dispatcher's own version is served to its end"))
def versions_differ(run):
    with run.cluster() as c:
        c.dispatcher()
        c.worker()
        consumer = c.consume(1)
        with older():
            worker = c.worker()
            old = c.consume(1, job="older", network=True)
        refused(c, old, worker)
        consumer.expect_success()
        c.expect([consumer], 1)

    with run.cluster() as c:
        with older():
            c.dispatcher()
            c.worker()
            consumer = c.consume(1)
        worker = c.worker()
        refused(c, c.consume(1, job="newer"), worker)
        consumer.expect_success()


def refused(c, consumer, worker):
    """A trainer and a worker of another version than the dispatcher's are told both versions."""
    _, said = consumer.expect_error("protocol")
    newer = int(re.search(r"kProtocol = (\d+);", HEADER.read_text())[1])
    named = re.search(r"speaks protocol (\d+); this build speaks (\d+)", said)
    check(named and {int(n) for n in named.groups()} == {newer - 1, newer},
          f"it names not protocols {newer - 1} and {newer}: {said}")
    wait_for(lambda: "speaks protocol" in worker.text(), "the worker is not told why it is refused")
    check(len(c.status()["workers"]) == 1, "a dispatcher keeps a worker that it refused")
