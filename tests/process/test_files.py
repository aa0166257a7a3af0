"""Dataset files that change while they are served."""

import os
import pathlib
import re
import shutil
import subprocess

from harness import Failure, binary, check, check_same, cluster, wait_for
from test_metrics import PROBES, Scrape
from test_streams import DATA

SLOW = ["--delay", "0.02", "--prefetch-bytes", "30000"]


def own_dataset(c, name="mine"):
    """Copies the dataset into the test's folder, where it may be damaged. Returns the copy and its
    largest file. Columns that another test has measured are not copied."""
    folder = c.folder / name
    shutil.copytree(DATA, folder, ignore=shutil.ignore_patterns(".millrace.columns"))
    return folder, max(folder.rglob("*.bin"), key=lambda file: file.stat().st_size)


def worker_of(c, dataset):
    c.dataset, before = dataset, c.dataset
    worker = c.worker()
    c.dataset = before
    return worker


def write_zeros(file):
    with open(file, "r+b") as f:
        f.write(bytes(file.stat().st_size))


def cut(file):
    os.truncate(file, 4096)


def begun(c, consumer):
    wait_for(lambda: len(c.delivered(consumer.log)) > 5, "no batches", consumer.popen)


def goes_on(c, consumer, count):
    """Waits for so many more batches. An epoch has 188."""
    there = len(c.delivered(consumer.log))
    wait_for(lambda: len(c.delivered(consumer.log)) > there + count, "the job does not go on",
             consumer.popen)


def serve_own(c):
    """Starts a daemon that serves a copy of the dataset, and a job without an end. Returns the
    copy's largest file and both processes."""
    c.dataset, file = own_dataset(c)
    daemon = c.serve()
    consumer = c.consumer(1, epochs=0, extra=SLOW)
    begun(c, consumer)
    return file, daemon, consumer


def expect_data_loss(consumer, daemon, file):
    check(consumer.wait() == 3, f"exit code {consumer.wait()}, expected 3:\n{consumer.text()}")
    last = consumer.text().splitlines()[-1]
    check(file.name in last and "worker" in last, f"the file and the worker are not in: {last}")
    check("exclude: {files: [" in last, f"what would let it go on is not in: {last}")
    check(daemon.popen.poll() is None, f"the daemon died:\n{daemon.text()}")


def test_a_file_cut_off_in_mid_epoch_ends_the_job_with_its_name_and_no_wrong_byte():
    with cluster(DATA) as c:
        file, daemon, consumer = serve_own(c)
        cut(file)
        expect_data_loss(consumer, daemon, file)
        c.dataset = DATA
        c.check_so_far(consumer, 1)


def test_a_file_zeroed_in_mid_epoch_ends_the_job_with_its_name():
    with cluster(DATA) as c:
        file, daemon, consumer = serve_own(c)
        write_zeros(file)
        expect_data_loss(consumer, daemon, file)
        # A new job for the file fails at once; a job that excludes the file is served.
        again = c.consumer(1, job="again")
        check(again.wait() == 3 and file.name in again.text(), again.text())
        name = file.relative_to(c.dataset)
        c.consumer(1, job="without", extra=["--set", f"exclude.files=[{name}]"]).expect_success()


def test_the_job_goes_on_with_the_worker_whose_file_was_not_cut_off():
    with cluster(DATA) as c:
        folders = [own_dataset(c, name) for name in ("one", "two")]
        c.dispatcher()
        workers = [worker_of(c, folder) for folder, _ in folders]
        consumer = c.consumer(1, epochs=0, extra=SLOW)
        begun(c, consumer)
        damaged = c.builders(workers)[0]
        file = folders[workers.index(damaged)][1]
        cut(file)
        wait_for(lambda: file.name in damaged.text(), "the worker does not name the file",
                 damaged.popen)
        goes_on(c, consumer, 200)
        c.end(consumer)
        check(damaged.popen.poll() is None, f"the worker died:\n{damaged.text()}")


def test_the_job_goes_on_with_the_worker_whose_file_was_not_zeroed():
    with cluster(DATA) as c:
        mine, file = own_dataset(c)
        c.dispatcher()
        damaged = worker_of(c, mine)
        consumer = c.consumer(1, epochs=0, extra=SLOW)
        begun(c, consumer)
        # Only open files are watched, and files are opened when they are needed.
        maps = pathlib.Path(f"/proc/{damaged.popen.pid}/maps")
        wait_for(lambda: str(file) in maps.read_text(), "the worker does not open the file")
        c.worker()
        wait_for(lambda: [w["state"] for w in c.status()["workers"]] == ["ready", "ready"],
                 "the other worker is not ready")
        # A change in place may go unnoticed for up to a second, so nothing may be built meanwhile.
        consumer.stop()
        for _ in range(2):
            c.status()
        write_zeros(file)
        wait_for(lambda: "plan cannot be served any more" in damaged.text(),
                 "the worker does not see that the file was changed", damaged.popen)
        consumer.resume()
        goes_on(c, consumer, 200)
        c.end(consumer)


def test_a_file_replaced_by_rename_changes_nothing_and_is_warned_of_once():
    with cluster(DATA) as c:
        file, daemon, consumer = serve_own(c)
        other = c.folder / "other"
        other.write_bytes(bytes(100))
        os.replace(other, file)
        wait_for(lambda: "file was replaced" in daemon.text(), "nobody warns", daemon.popen)
        goes_on(c, consumer, 200)
        c.dataset = DATA
        c.end(consumer)
        check(daemon.text().count("file was replaced") == 1, daemon.text())


def touch(file, seconds):
    at = file.stat()
    os.utime(file, ns=(at.st_atime_ns, at.st_mtime_ns + seconds * 10**9))


def test_a_file_and_an_index_that_are_touched_change_nothing_and_are_told_of_once():
    with cluster(DATA) as c:
        file, daemon, consumer = serve_own(c)
        index = c.dataset / ".millrace.index"
        touch(file, 5)
        touch(index, 5)
        wait_for(lambda: len(re.findall("files were touched", daemon.text())) > 0
                 and str(index) in daemon.text() and file.name in daemon.text(),
                 "nobody tells of it", daemon.popen)
        goes_on(c, consumer, 200)
        told = [line for line in daemon.text().splitlines() if "files were touched" in line]
        for name in (str(file.relative_to(c.dataset)), str(index)):
            check(sum(name in line for line in told) == 1, f"{name}:\n{daemon.text()}")
        check("level=error" not in daemon.text() and "damaged" not in daemon.text(), daemon.text())
        c.dataset = DATA
        c.end(consumer)


def test_a_file_that_was_touched_and_is_then_overwritten_ends_the_job_with_its_name():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        daemon = c.serve()
        consumer = c.consumer(1, epochs=100, extra=SLOW)
        begun(c, consumer)
        touch(file, 5)
        wait_for(lambda: "files were touched" in daemon.text(), "nobody tells of it", daemon.popen)
        # This changes one byte that no batch need read, and sets the old times again: only the
        # file's digest shows it.
        with open(file, "r+b") as f:
            f.seek(-1, os.SEEK_END)
            last = f.read(1)[0]
            f.seek(-1, os.SEEK_END)
            f.write(bytes([last ^ 1]))
        touch(file, -1)
        expect_data_loss(consumer, daemon, file)
        check("has digest" in consumer.text().splitlines()[-1], consumer.text())


def test_the_exclude_line_of_the_error_lets_the_job_go_on_from_its_cursor():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        daemon = c.serve()
        at = c.folder / "cursor"
        # The first epoch is long enough to be cut off in.
        consumer = c.consumer(1, extra=["--delay", "0.2", *SLOW[2:], "--cursor-out", at])
        begun(c, consumer)
        cut(file)
        expect_data_loss(consumer, daemon, file)
        line = re.search(r"write `(exclude: .*?)`", consumer.text().splitlines()[-1])[1]
        name = str(file.relative_to(c.dataset))
        check(line == f'exclude: {{files: ["{name}"]}}', line)
        before = c.delivered(consumer.log)
        whole = c.pipeline.read_text()
        c.pipeline.write_text(f"{whole}{line}\n")
        end = c.folder / "end"
        again = c.consumer(1, extra=["--cursor", at.read_text().strip(), "--cursor-out", end])
        again.expect_success()

        after, start = c.delivered(again.log), 8 * len(before)
        c.dataset = DATA
        check_same(after, c.reference(0, 1, start), "with the file excluded")
        # Both cursors belong to one order, and each example keeps its place.
        orders = [f.read_text().strip().split(":")[0] for f in (at, end)]
        check(orders[0] == orders[1], f"{orders}")
        c.pipeline.write_text(whole)
        expected = c.reference(0, 1)
        check_same(before, expected[:len(before)], "before")
        check([examples_of(e) for e in before + after] == [examples_of(e) for e in expected],
              "the order of examples is not that of before")
        dropped = [reason for e in after for _, reason in e["dropped"]]
        check("excluded" in dropped, "no example of the file is dropped")


def examples_of(line):
    return sorted([*line["examples"], *(example for example, _ in line["dropped"])])


def test_a_job_ends_when_no_worker_is_left_whose_files_are_good():
    with cluster(DATA) as c:
        folders = [own_dataset(c, name) for name in ("one", "two")]
        c.dispatcher()
        workers = [worker_of(c, folder) for folder, _ in folders]
        # Each worker lacks another one of two files, which differ in size.
        files = [folders[0][1],
                 sorted(folders[1][0].rglob("*.bin"), key=lambda f: f.stat().st_size)[-2]]
        consumer = c.consumer(1, epochs=100, extra=SLOW)
        begun(c, consumer)
        first = workers.index(c.builders(workers)[0])
        cut(files[first])
        wait_for(lambda: "plan cannot be served any more" in workers[first].text(),
                 "the first worker goes on", workers[first].popen)
        goes_on(c, consumer, 20)
        cut(files[1 - first])
        check(consumer.wait() == 3, consumer.text())
        last = consumer.text().splitlines()[-1]
        # Each worker could serve a job that excludes its own bad file.
        for file, (folder, _) in zip(files, folders):
            line = f'exclude: {{files: ["{file.relative_to(folder)}"]}}'
            check(f"write `{line}`" in last, f"{line} is not in: {last}")
        c.check_so_far(consumer, 1)


# --- Datasets that are bad from the start ---


def bad_dataset(c):
    """Copies the dataset without an index, and cuts off a file that others need. Returns the copy,
    the file, and the names of all files that --skip-bad leaves out because of it."""
    folder, _ = own_dataset(c)
    (folder / ".millrace.index").unlink()
    sizes = {file: file.read_bytes() for file in sorted(folder.rglob("*.bin"))}
    for file, content in sizes.items():
        os.truncate(file, len(content) // 2)
        done = subprocess.run([binary("cli"), "index", folder, "--skip-bad"], capture_output=True,
                              text=True, check=False)
        left_out = re.findall(r"file left out .*file=\"?([^ \"]+)", done.stderr)
        (folder / ".millrace.index").unlink(missing_ok=True)
        if done.returncode == 0 and 2 <= len(left_out) < len(sizes):
            return folder, file, left_out
        file.write_bytes(content)
    raise Failure("no file of the dataset is needed by some others")


def without_files(c, folder, names):
    copy = c.folder / "without"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".millrace.index*"))
    for name in names:
        (copy / name).unlink()
    return copy


def test_without_its_bad_files_a_dataset_is_served_as_if_they_did_not_exist():
    with cluster(DATA) as c:
        folder, file, left_out = bad_dataset(c)
        name = str(file.relative_to(folder))
        check(name in left_out, f"{left_out}")
        done = subprocess.run([binary("cli"), "index", folder], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 3, done.stderr)
        check(name in done.stderr and "--skip-bad" in done.stderr, done.stderr)

        c.dataset = folder
        daemon = c.serve("--skip-bad", *PROBES)
        consumer = c.consumer(2, epochs=2)
        consumer.expect_success()
        for bad in left_out:
            said = re.findall(rf'file left out .*file="?{re.escape(bad)}"? why=', daemon.text())
            check(len(said) == 1, f"{bad}: {said}\n{daemon.text()}")
        state = c.status()["datasets"]["data"]
        check(int(state["left_out_files"]) == len(left_out), f"{state}")
        reasons = {entry["name"]: entry["reason"] for entry in state["left_out"]}
        check(sorted(reasons) == sorted(left_out), f"{state}")
        check("at byte" in reasons[name], f"{state}")
        bad = [r for r in reasons.values() if "which is bad" not in r]
        check(Scrape(daemon).value("millrace_file_verify_failures_total", 'kind="open"') == len(bad),
              f"{reasons}")
        check(any(f"needs {name}, which is bad" in r for r in reasons.values()), f"{state}")
        table = c.run("status", "--address", c.address)
        check(f"ready, {len(left_out)} files left out" in table, table)
        inspected = c.run("inspect", folder, "--skip-bad")
        for bad, reason in reasons.items():
            check(f"  {bad}: {reason}\n" in inspected, inspected)
            check(bad in table, table)

        c.dataset = without_files(c, folder, left_out)
        check_same(c.delivered(consumer.log), c.reference(0, 2) + c.reference(1, 2))
        digest = re.search(r"digest +(\w+)", c.run("index", c.dataset))[1]
        check(digest == state["digest"], f"digest {state['digest']}, expected {digest}")


def test_a_file_that_is_repaired_is_served_after_the_next_start():
    with cluster(DATA) as c:
        c.dataset, file, left_out = bad_dataset(c)
        daemon = c.serve("--skip-bad")
        wait_for(lambda: "index built" in daemon.text(), "no dataset", daemon.popen)
        daemon.terminate()
        daemon.expect_success()
        shutil.copy(DATA / file.relative_to(c.dataset), file)
        again = c.serve("--skip-bad", state="again")
        consumer = c.consumer(1)
        consumer.expect_success()
        check(int(c.status()["datasets"]["data"]["left_out_files"]) == 0, again.text())
        c.dataset = DATA
        check_same(c.delivered(consumer.log), c.reference(0, 1))


def test_a_worker_that_leaves_out_what_the_dispatcher_has_is_named_with_a_file():
    with cluster(DATA) as c:
        folder, _, left_out = bad_dataset(c)
        c.dispatcher()
        c.dataset = folder
        c.worker(extra=["--skip-bad"])
        c.dataset = DATA
        c.consumer(1, extra=["--attach-timeout", "600"])
        why = wait_for(lambda: [w["why"] for w in c.status()["workers"]
                                if "on the worker" in w["why"] or "on the dispatcher" in w["why"]],
                       "the worker is not named")
        check(any(f.name in why[0] for f in DATA.rglob("*.bin")), f"{why}")
        check(int(c.status()["workers"][0]["datasets"]["data"]["left_out_files"]) == len(left_out),
              "the worker's status does not count what it leaves out")


# --- A dispatcher whose own copy is damaged ---


def test_a_job_goes_on_if_its_dispatcher_restarts_over_a_damaged_dataset():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        dispatcher = c.dispatcher()
        worker = worker_of(c, DATA)
        consumer = c.consumer(1, epochs=0, extra=SLOW)
        begun(c, consumer)
        dispatcher.kill()
        cut(file)
        dispatcher = c.dispatcher(c.address)
        wait_for(lambda: "session admitted" in dispatcher.text(),
                 "the dispatcher does not admit the job", consumer.popen)
        goes_on(c, consumer, 200)
        check(file.name in dispatcher.text(), "the dispatcher does not name the file")
        # A new worker serves it too, and a new job is refused as ever.
        late = worker_of(c, DATA)
        worker.kill()
        goes_on(c, consumer, 200)
        check("workers are asked" in dispatcher.text(), dispatcher.text())
        other = c.consumer(1, job="other", extra=["--set", "shuffle.seed=8"])
        check(other.wait() == 3 and file.name in other.text(), other.text())
        c.dataset = DATA
        c.end(consumer)
        check(late.popen.poll() is None, late.text())


def test_a_job_ends_if_the_data_of_its_restarted_dispatcher_and_of_its_workers_are_damaged():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        theirs, same = own_dataset(c, "theirs")
        dispatcher = c.dispatcher()
        worker = worker_of(c, theirs)
        consumer = c.consumer(1, epochs=0, extra=SLOW)
        begun(c, consumer)
        for process in (dispatcher, worker):
            process.kill()
        for copy in (file, same):
            cut(copy)
        c.dispatcher(c.address)
        worker_of(c, theirs)
        check(consumer.wait() == 3, consumer.text())
        said = consumer.text()
        check("no worker is left that can serve the plan: worker " in said, said)
        check(said.count(file.name) >= 2 and "exclude: {files: [" in said.splitlines()[-1], said)
