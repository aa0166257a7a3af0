"""Consumers on a worker's host read batches where they were built; otherwise all is as over the
network."""

import grp
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

from harness import check, check_same, cluster, wait_for, Skipped

DATA = pathlib.Path(os.environ.get("MILLRACE_TEST_DATA", "/nonexistent"))
SLOWLY = ["--delay", "0.01"]
LITTLE_AHEAD = [*SLOWLY, "--prefetch-bytes", "60000"]


def shared_mappings(process):
    """Permissions of the process's mappings of workers' memory."""
    lines = pathlib.Path(f"/proc/{process.popen.pid}/maps").read_text().splitlines()
    return [line.split()[1] for line in lines if "memfd:millrace" in line]


def shared_kib(process):
    text = pathlib.Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.search(r"RssShmem:\s+(\d+) kB", text).group(1))


def open_files(process):
    return len(os.listdir(f"/proc/{process.popen.pid}/fd"))


def wait_for_batches(c, consumer, count=20):
    wait_for(lambda: len(c.delivered(consumer.log)) > count, "no batches", consumer.popen)


def through_shared_memory(consumer):
    """The number of batches that the consumer's summary gives."""
    found = re.search(r"through shared memory: (\d+) batches", consumer.text())
    return int(found.group(1)) if found else 0


def some_batches(c, extra):
    """Streams more than an epoch. Returns the mappings seen meanwhile, the number of batches read in
    place, and that of all."""
    consumer = c.consumer(1, job=f"job{len(c.processes)}", epochs=0, extra=[*SLOWLY, *extra])
    wait_for_batches(c, consumer, 200)
    mappings = shared_mappings(consumer)
    c.end(consumer)
    return mappings, through_shared_memory(consumer), len(c.delivered(consumer.log))


def test_a_consumer_of_the_same_host_reads_in_place_by_itself():
    with cluster(DATA) as c:
        serve = c.serve()
        mappings, batches, every = some_batches(c, [])
        check(mappings and all(m.startswith("r--") for m in mappings),
              f"a consumer maps the worker's memory for reading only: {mappings}")
        check(batches == every, f"{batches} of {every} batches came through shared memory")
        check("rw-s" in shared_mappings(serve), "the worker builds in shared memory")
        mappings, batches, _ = some_batches(c, ["--no-shared-memory"])
        check(not mappings and batches == 0, f"shared memory was refused: {mappings}, {batches}")


def test_a_daemon_without_shared_memory_shares_none():
    with cluster(DATA) as c:
        serve = c.serve("--shared-memory", "false")
        mappings, batches, _ = some_batches(c, [])
        check(not mappings and batches == 0, f"there is no shared memory: {mappings}, {batches}")
        check(not shared_mappings(serve), "the worker builds on the heap")


def test_memory_of_killed_consumers_is_used_again():
    with cluster(DATA) as c:
        c.dispatcher()
        worker = c.worker()
        other = c.consumer(1, job="other", epochs=0, extra=SLOWLY)
        wait_for_batches(c, other)
        memory, files = [], []
        for i in range(20):
            victim = c.consumer(1, job=f"victim{i}", epochs=0)
            wait_for_batches(c, victim, 50)
            check(shared_mappings(victim), "the victim reads in place")
            victim.kill()
            before = len(c.delivered(other.log))
            wait_for(lambda: len(c.delivered(other.log)) > before + 5, "the other one stands still",
                     other.popen)
            memory.append(shared_kib(worker))
            files.append(open_files(worker))
        check(memory[-1] <= memory[4] + 8 * 1024, f"shared memory of the worker grows: {memory} KiB")
        check(files[-1] <= files[4] + 4, f"open files of the worker grow: {files}")
        other.kill()


def test_a_killed_worker_leaves_its_consumers_alone_and_nothing_behind():
    named = lambda: set(os.listdir("/dev/shm"))
    before = named()
    with cluster(DATA) as c:
        c.dispatcher()
        workers = [c.worker(), c.worker()]
        state = sorted(p.name for p in (c.folder / "state").rglob("*"))
        consumer = c.consumer(2, epochs=8, extra=LITTLE_AHEAD)
        wait_for_batches(c, consumer)
        c.builders(workers)[0].kill()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), sum((c.reference(e, 2) for e in range(8)), []))
        check(through_shared_memory(consumer) == len(c.delivered(consumer.log)),
              "all came through shared memory")
        # Other tests of the machine may make names there, which go away.
        wait_for(lambda: not named() - before, "no new name is left in /dev/shm")
        check(not list(c.folder.rglob("*.sock")) and
              sorted(p.name for p in (c.folder / "state").rglob("*")) == state,
              "nothing is left in the state folder")


def test_a_stopped_consumer_of_shared_memory_costs_others_nothing():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker(memory="64MiB")
        stopped = c.consumer(1, job="stopped", epochs=1000)
        wait_for_batches(c, stopped)
        stopped.stop()
        consumer = c.consumer(1, epochs=2)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1) + c.reference(1, 1))
        stopped.resume()
        count = len(c.delivered(stopped.log))
        wait_for_batches(c, stopped, count + 20)
        stopped.kill()


def test_shared_memory_and_network_mix():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        c.worker(extra=["--shared-memory", "false"])
        consumers = [c.consumer(2, ranks=0, extra=LITTLE_AHEAD),
                     c.consumer(2, ranks=1, extra=[*LITTLE_AHEAD, "--no-shared-memory"])]
        lines = []
        for consumer in consumers:
            consumer.expect_success()
            lines += c.delivered(consumer.log)
        check_same(lines, c.reference(0, 2))
        check(through_shared_memory(consumers[1]) == 0, "rank 1 takes the network")


def test_a_consumer_of_another_user_shares_memory_as_a_member_of_the_group():
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        raise Skipped("another user: needs root and setpriv")
    # With an access file not everybody may read everything, so memory is not shared then.
    for with_tls, with_access in ((False, False), (True, False), (True, True)):
        with cluster(DATA) as c:
            group = grp.getgrgid(pwd.getpwuid(65534).pw_gid).gr_name
            tls = c.folder / "tls"
            access = c.folder / "access.yaml"
            access.write_text("names: {}\n")
            c.run("certs", tls)
            c.serve("--shared-memory-group", group, *(["--tls", tls / "serve"] if with_tls else []),
                    *(["--access", access] if with_access else []))
            folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-test-", dir=c.folder))
            for path in (c.folder, folder, tls):
                os.chmod(path, 0o777)
            for path in (tls / "trainer", *(tls / "trainer").iterdir()):
                os.chown(path, 65534, -1)
            prefix = ["setpriv", "--reuid", "65534", "--clear-groups"]
            readable = subprocess.run([*prefix, os.environ["MILLRACE_CLI_BINARY"], "--version"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                      check=False)
            if readable.returncode != 0:
                raise Skipped("another user: cannot run the program there")
            consumer = c.consumer(1, epochs=0, log=folder / "log", prefix=prefix,
                                  extra=[*SLOWLY, *(["--tls", tls / "trainer"] if with_tls else [])])
            wait_for_batches(c, consumer)
            check(bool(shared_mappings(consumer)) != with_access, "memory is shared" if with_access
                  else "a member of the group reads over the network")
            c.end(consumer)
