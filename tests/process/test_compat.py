"""Programs of earlier releases (tests/compat) and of this build work together: the bytes are the
same, or the refusal names both protocols."""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile

from harness import check, check_same, cluster, wait_for
from test_streams import DATA

KEPT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", ".")) / "tests" / "compat"
REFUSAL = re.compile(r"speaks protocol (\d+); this build speaks (\d+)")


@contextlib.contextmanager
def releases():
    """The folders with the programs of all earlier releases."""
    kept = sorted(KEPT.glob("*/programs.tar.xz"))
    check(kept, f"{KEPT} has no release")
    with tempfile.TemporaryDirectory(prefix="millrace-compat-") as folder:
        found = []
        for archive in kept:
            found.append(pathlib.Path(folder) / archive.parent.name)
            found[-1].mkdir()
            subprocess.run(["tar", "-xJf", archive, "-C", found[-1]], check=True)
            check_is_of_release(found[-1])
        yield found


def check_is_of_release(release):
    for program in ("millrace", "millraced"):
        said = subprocess.run([release / program, "--version"], capture_output=True, text=True,
                              check=True).stdout
        check(release.name in said, f"{program} of {release.name} says it is {said}")


@contextlib.contextmanager
def programs(release, *names):
    """Meanwhile the harness starts these programs of the release."""
    files = {"cli": "millrace", "daemon": "millraced"}
    before = {name: os.environ[f"MILLRACE_{name.upper()}_BINARY"] for name in names}
    for name in names:
        os.environ[f"MILLRACE_{name.upper()}_BINARY"] = str(release / files[name])
    try:
        yield
    finally:
        for name, path in before.items():
            os.environ[f"MILLRACE_{name.upper()}_BINARY"] = path


def check_same_or_refused(c, consumer, release):
    def refused():
        return next(filter(None, (REFUSAL.search(process.text()) for process in c.processes)), None)

    wait_for(lambda: refused() or consumer.popen.poll() is not None,
             f"neither batches nor a refusal with programs of {release.name}")
    said = refused()
    if said:
        check(said[1] != said[2], f"{said[0]}: the protocols are equal")
        print(f"refused: {said[0]}")
        return
    consumer.expect_success()
    check_same(c.delivered(consumer.log), c.reference(0, 2))


def with_each_release(run):
    """Calls `run` for each release, with a fresh cluster."""
    with releases() as found:
        for release in found:
            with cluster(DATA) as c:
                run(c, release)


def test_a_client_of_an_earlier_release_gets_the_same_bytes_or_is_refused():
    def run(c, release):
        c.serve()
        with programs(release, "cli"):
            consumer = c.consumer(2)
        check_same_or_refused(c, consumer, release)

    with_each_release(run)


def test_a_daemon_of_an_earlier_release_gives_the_same_bytes_or_is_refused():
    def run(c, release):
        with programs(release, "daemon"):
            c.serve()
        check_same_or_refused(c, c.consumer(2), release)

    with_each_release(run)


def test_a_worker_of_an_earlier_release_builds_the_same_bytes_or_is_refused():
    def run(c, release):
        c.dispatcher()
        with programs(release, "daemon"):
            c.worker()
        check_same_or_refused(c, c.consumer(2), release)

    with_each_release(run)


def test_a_dispatcher_of_an_earlier_release_gives_the_same_bytes_or_refuses():
    def run(c, release):
        with programs(release, "daemon"):
            c.dispatcher()
        c.worker()
        check_same_or_refused(c, c.consumer(2), release)

    with_each_release(run)


def test_the_state_of_an_earlier_release_is_taken_over():
    def run(c, release):
        with programs(release, "daemon", "cli"):
            old = c.serve()
            c.consumer(2, job="before").expect_success()
            old.terminate()
            old.expect_success()
        c.serve()
        check("before" in str(c.status()), f"the job of {release.name} is not known any more")
        consumer = c.consumer(2, job="after")
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 2))

    with_each_release(run)
