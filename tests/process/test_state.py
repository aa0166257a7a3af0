"""The dispatcher's state file: backups, damage, and a disk that fails."""

import contextlib
import os
import shutil
import sqlite3
import subprocess

from harness import Skipped, binary, check, check_same, cluster, wait_for
from test_streams import DATA


def backup(*arguments):
    return subprocess.run([binary("daemon"), "backup", *map(str, arguments)], text=True,
                          stdin=subprocess.DEVNULL, capture_output=True,
                          check=False)


def jobs(c):
    return {job["name"]: job["state"] for job in c.status().get("jobs", [])}


def test_a_backup_is_made_beside_a_running_dispatcher_and_started_from():
    with cluster(DATA) as c:
        first = c.dispatcher()
        c.worker()
        c.consumer(1, job="past").expect_success()
        wait_for(lambda: jobs(c).get("past") == "ended", "the job does not end")
        (past,) = c.status()["jobs"]
        check(past["outcome"] == "completed" and past["progress"] == 1, f"how it ended: {past}")
        consumer = c.consumer(1, job="now", extra=["--delay", "0.02", "--prefetch-bytes", "60000"])
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        copy = c.folder / "copy.db"
        done = backup("--state", c.folder / "state", copy)
        check(done.returncode == 0, done.stderr)
        check(f"term {c.status()['term']}, 2 job records" in done.stdout, done.stdout)
        again = backup("--state", c.folder / "state", copy)
        check(again.returncode == 2 and "already" in again.stderr, again.stderr)
        nothing = backup("--state", c.folder, c.folder / "other.db")
        check(nothing.returncode == 2 and "--state" in nothing.stderr, nothing.stderr)
        # The state is lost while a trainer runs, and the dispatcher starts from its backup.
        before = c.status()["term"]
        first.kill()
        shutil.rmtree(c.folder / "state")
        (c.folder / "state").mkdir()
        shutil.copy(copy, c.folder / "state" / "state.db")
        c.dispatcher(c.address)
        check(jobs(c).get("past") == "ended", f"the past job is not in the backup: {jobs(c)}")
        check(int(c.status()["term"]) > int(before), f"term {c.status()['term']} after {before}")
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))


def test_a_dispatcher_recovers_a_thousand_running_jobs_in_no_time():
    with cluster(DATA) as c:
        first = c.dispatcher()
        c.worker()
        c.consumer(1, job="x", extra=["--delay", "0.05"])
        wait_for(lambda: jobs(c).get("x") == "live", "the job does not begin")
        first.kill()
        with contextlib.closing(sqlite3.connect(c.folder / "state" / "state.db")) as db, db:
            (record,) = db.execute("SELECT record FROM jobs").fetchone()
            check(record.startswith(b"\x0a\x01x"), f"the record begins with its name: {record[:9]}")
            for i in range(999):
                name = f"job{i}"
                db.execute("INSERT INTO jobs VALUES (?, 0, 0, ?)",
                           (name, b"\x0a" + bytes([len(name)]) + name.encode() + record[3:]))
        second = c.dispatcher(c.address)
        found = jobs(c)
        took = second.cpu_seconds()
        print(f"a dispatcher with {len(found)} running jobs answered after {took:.2f} s of CPU time")
        check(len(found) == 1000, f"{len(found)} jobs of 1,000")
        check(took < 5, f"{took} s")


def test_a_damaged_state_file_is_refused_in_one_line_that_says_what_to_do():
    with cluster(DATA) as c:
        c.dispatcher().terminate()
        c.processes[-1].wait()
        with open(c.folder / "state" / "state.db", "r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * 64)
        done = subprocess.run([binary("daemon"), "dispatcher", "--dataset", f"data={DATA}",
                               "--listen", "127.0.0.1:0", "--state", str(c.folder / "state")],
                              text=True, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        line = done.stderr.splitlines()[-1]
        check(done.returncode == 3, done.stderr)
        for words in (str(c.folder / "state" / "state.db"), "is damaged", "move it away", "backup"):
            check(words in line, f"'{words}' is not in: {line}")


def test_a_disk_whose_fsync_fails_ends_the_dispatcher_and_no_running_job():
    if os.environ.get("MILLRACE_TEST_SANITIZE"):
        raise Skipped("sanitizers have to be loaded before any other library")
    with cluster(DATA) as c:
        broken = c.folder / "broken"
        port = c.folder / "port"

        def dispatcher(listen):
            port.unlink(missing_ok=True)
            process = c.start("dispatcher", "env", f"LD_PRELOAD={binary('fsync')}",
                              f"MILLRACE_TEST_FSYNC_FAILS={broken}", binary("daemon"), "dispatcher",
                              "--dataset", f"data={DATA}", "--listen", listen, "--state",
                              c.folder / "state", "--port-file", port)
            c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port",
                                 process.popen)
            return process

        first = dispatcher("127.0.0.1:0")
        c.worker()
        running = c.consumer(1, job="running",
                             extra=["--delay", "0.03", "--prefetch-bytes", "60000"])
        wait_for(lambda: c.delivered(running.log), "no batches", running.popen)
        broken.write_text("")
        fresh = c.consumer(1, job="fresh", log=c.folder / "fresh.jsonl")
        check(first.wait() == 1, f"expected exit code 1:\n{first.text()}")
        check("fsync failed" in first.text().splitlines()[-1], first.text())
        check(not c.delivered(fresh.log), "a job began whose record is not on disk")
        broken.unlink()
        dispatcher(c.address)
        running.expect_success()
        fresh.expect_success()
        check_same(c.delivered(running.log), c.reference(0, 1))
        check_same(c.delivered(fresh.log), c.reference(0, 1))
