"""The store: a full disk, a disk that fails, a file that is cut off."""

import os
import shutil
import sqlite3
import subprocess
import time

from cluster import binary, check, wait_for
from fault import Impossible, fault
from faults.dispatchers import sync_fault


def start_job(c, name):
    """Starts a job of one epoch, besides the others."""
    return c.consume(1, job=name, delay=0.002)


def fill(folder):
    """Fills the folder's file system to the last byte."""
    with open(folder / "filler", "wb", buffering=0) as f:
        for size in (1 << 16, 1 << 12, 1 << 9, 1):
            try:
                while True:
                    f.write(bytes(size))
            except OSError:
                pass


@fault("20", "state folder full (small tmpfs), then freed",
       "L P, nothing unsaved is acknowledged, running jobs go on", ci=True, conditions=(
    "a tmpfs of 1 MiB is filled to the last byte; jobs are started until one waits; after 6 s "
    "space is freed, then the dispatcher is killed"))
def the_state_folder_is_full(run):
    if not os.environ.get("MILLRACE_FAULT_ISOLATED"):
        raise Impossible("mounting a tmpfs needs root")
    with run.cluster() as c:
        (c.folder / "state").mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", c.folder / "state"],
                       check=True)
        dispatcher = c.dispatcher()
        c.worker()
        running = c.consume(2, epochs=10000, job="running", delay=0.01)
        running.wait_for_batches(20)
        filled = time.monotonic()
        fill(c.folder / "state")
        # The space that the log has already allotted may still take some records.
        accepted = []
        for number in range(200):
            job = start_job(c, f"job-{number}")
            wait_for(lambda: job.batches() or c.status()["store_error"],
                     "a job neither begins nor waits for the store", job.process.popen)
            if c.status()["store_error"]:
                break
            job.expect_success()
            accepted.append(f"job-{number}")
        error = c.status()["store_error"]
        check("full" in error or "space" in error, f"status names no full disk: {error}")
        time.sleep(6)
        check(job.batches() == 0, "a job began though its record could not be written")
        check(job.process.alive(), f"the waiting job ended:\n{job.process.text()}")
        (c.folder / "state" / "filler").unlink()
        freed = time.monotonic()
        job.wait_for_batches(1)
        run.within("first batch after space is there", job.resumed(freed), 3)
        job.expect_success()
        running.wait_for_more(50)
        run.within("longest stall of the running job", running.stall(filled), 0)
        wait_for(lambda: not c.status()["store_error"], "status still has the error")
        dispatcher.kill()
        c.again(dispatcher)
        known = {j["name"] for j in c.status()["jobs"]}
        lost = {*accepted, "running", job.process.name and f"job-{number}"} - known
        check(not lost, f"jobs were acknowledged and not saved: {lost}")
        running.wait_for_more(50)
        c.stop(running)
        c.expect_prefix(running, 2)
        c.expect([job], 1)


@fault("21", "fsync fails", "the dispatcher exits, nothing is acknowledged", ci=True, conditions=(
    "from the n-th fsync of the store on, each gives EIO; the seed sets n, so that this happens "
    "at the start or when a job begins; another dispatcher then goes on"))
def fsync_fails(run):
    with run.cluster() as c:
        first = c.dispatcher()  # started for a port, and a store with a schema
        first.terminate()
        first.wait()
        number = 1 + (run.seed + 2) % 4
        with c.with_env(**sync_fault("fail", number)):
            failing = c.start("dispatcher", binary("daemon"), "dispatcher", "--dataset",
                              f"data={c.dataset}", "--listen", first.address, "--state",
                              c.folder / "state", "--grace", "5")
        c.worker()
        consumer = c.consume(1, network=run.random.random() < 0.5)
        wait_for(lambda: not failing.alive() or consumer.batches() or
                 "store" in failing.text() and "error" in failing.text(),
                 "nothing is heard of the store", failing.popen if number > 1 else None)
        time.sleep(3)
        acknowledged = consumer.batches()
        if failing.alive():
            failing.kill()
            check(acknowledged == 0, "a job began though its record was not on disk")
            check(False, f"the dispatcher goes on after a failed fsync (n = {number}), expected that it "
                         f"exits: what it wrote may be lost without a further error:\n{failing.text()}")
        check(failing.popen.returncode in (1, 2) and failing.error(),
              f"it ended with {failing.popen.returncode}, expected 1 or 2 and an error:\n{failing.text()}")
        check(acknowledged == 0, "a job began though its record was not on disk")
        c.again(first)
        consumer.expect_success()
        c.expect([consumer], 1)


def contents(file):
    """All tables of a database, or why it cannot be read."""
    database = sqlite3.connect(file)
    try:
        check(database.execute("PRAGMA integrity_check").fetchone() == ("ok",), f"{file} is damaged")
        names = [row[0] for row in database.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return [(name, database.execute(f"SELECT * FROM {name}").fetchall()) for name in names
                if not name.startswith("sqlite_")]
    finally:
        database.close()


def memory_folder(c):
    """A folder in memory if the fault may mount one; it is quick to write."""
    folder = c.folder / "memory"
    folder.mkdir()
    if os.environ.get("MILLRACE_FAULT_ISOLATED"):
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=True)
    return folder


@fault("22", "store cut at every byte of its log's tail", "a consistent prefix", limit=600, conditions=(
    "seed 1: the log is cut at every byte of its last 8 kB; other seeds: at 1,000 bytes of the "
    "last 32 kB. Each cut gives one of the states, in their order; at 6 of the cuts a dispatcher "
    "starts, with a higher term, and runs a job"))
def the_store_is_cut(run):
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        c.worker()
        for name in ("one", "two"):
            start_job(c, name).expect_success()
        running = c.consume(1, epochs=10000, job="three", delay=0.01)
        running.wait_for_batches(5)
        dispatcher.kill()
        term = None
        state, cut = c.folder / "state", memory_folder(c) / "cut"
        logs = [f for f in state.iterdir() if f.name.endswith("-wal")]
        check(len(logs) == 1, f"one log expected: {list(state.iterdir())}")
        log, size = logs[0], logs[0].stat().st_size
        database = log.name.removesuffix("-wal")
        states = []
        first = max(0, size - (8 if run.seed == 1 else 32) * 1024)
        lengths = range(first, size + 1)
        if run.seed != 1:
            lengths = sorted(run.random.sample(lengths, 1000))
        for length in lengths:
            shutil.copytree(state, cut, ignore=shutil.ignore_patterns("*-shm"))
            os.truncate(cut / log.name, length)
            now = contents(cut / database)
            shutil.rmtree(cut)
            if not states or states[-1] != now:
                check(now not in states, f"cut at {length}: a state came back")
                states.append(now)
        check(len(states) >= 2, f"{len(states)} states in the tail: it holds too few commits")
        run.note("states in the tail", len(states), "")
        terms = {row[-1] for table in states[-1] if table[0] == "leader" for row in table[1]}
        term = max(terms) if terms else 0
        # The running job ends before the state that it uses is replaced.
        c.stop(running)
        for length in run.random.sample(range(first, size), 6):
            folder = f"cut-{length}"
            shutil.copytree(state, c.folder / folder, ignore=shutil.ignore_patterns("*-shm"))
            os.truncate(c.folder / folder / log.name, length)
            again = c.dispatcher(listen=dispatcher.address, state=folder)
            check(int(c.status()["term"]) > term or not term, "F: the term does not grow")
            job = start_job(c, f"after-{length}")
            job.expect_success()
            c.expect([job], 1)
            again.terminate()
            check(again.wait() == 0, again.text())
