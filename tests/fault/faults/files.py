"""Files of a dataset that are cut off, changed, replaced, and different from host to host."""

import os
import shutil
import subprocess

import checker
from cluster import EXAMPLES, GENERATE, binary, check, wait_for
from fault import fault

SLOWLY = {"delay": 0.02, "ahead": 30000}


def copy(c, run, index=True):
    """Copies the dataset and chooses one file of it by the seed."""
    folder = c.folder / f"copy-{c._count}"
    shutil.copytree(c.dataset, folder)
    if not index:
        forget_index(folder)
    return folder, run.random.choice(files_of(folder))


def forget_index(folder):
    (folder / ".millrace.index").unlink(missing_ok=True)


def files_of(folder):
    """The files with the data of a dataset of any kind."""
    return sorted(file for suffix in ("bin", "npy", "tfrecord") for file in folder.rglob(f"*.{suffix}"))


def largest(folder):
    return max(files_of(folder), key=lambda file: file.stat().st_size)


def record_ends(file):
    """The offsets at which a file of records can end."""
    ends, size = [0], file.stat().st_size
    with open(file, "rb") as f:
        while ends[-1] < size:
            f.seek(ends[-1])
            ends.append(ends[-1] + 16 + int.from_bytes(f.read(8), "little"))
    return set(ends)


def wait_until_named(c, file):
    wait_for(lambda: file.name in str(c.status()["workers"]),
             "status does not name the file in which the worker's dataset differs")


def expect_end_by_overwriting(c, run, folder, file):
    """Writes a file in place while a worker reads it from the folder: the job ends and names it."""
    c.dispatcher()
    worker = c.worker(dataset=folder)
    consumer = c.consume(1, epochs=20, **SLOWLY)
    consumer.wait_for_batches(run.random.randrange(20, 100))
    with open(file, "r+b") as f:
        f.write(bytes(file.stat().st_size))
    code, _ = consumer.expect_error(file.name)
    check(code == 3, f"exit code {code}, expected 3")
    check(worker.alive(), f"the worker died:\n{worker.text()}")


def flip(run, file, first, last, bits=1):
    """Changes bits of a file's bytes [first, last), in place."""
    with open(file, "r+b") as f:
        for _ in range(bits):
            at = run.random.randrange(first, min(last, file.stat().st_size))
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1 << run.random.randrange(8)]))


def without(c, file, folder):
    """The options that exclude a file from a pipeline."""
    return ["--set", f"exclude.files=[{file.relative_to(folder)}]"]


@fault("16", "file truncated before it is opened", "L, names the file", ci=True, conditions=(
    "the file is cut at a random length, also at 0, before the daemon starts, with and without an "
    "older index; then a job excludes the file"))
def a_file_is_truncated_before_it_is_opened(run):
    with run.cluster() as c:
        folder, file = copy(c, run, index=run.random.random() < 0.5)
        size = file.stat().st_size
        cut = run.random.choice([0, 1, 8, run.random.randrange(size), size - 1])
        if run.kind == "records" and cut in record_ends(file):
            cut += 1  # a file that ends between two records is another one, and a good one
        os.truncate(file, cut)
        good, c.dataset = c.dataset, folder
        c.dispatcher()
        c.worker()
        consumer = c.consume(1, extra=["--attach-timeout", "20"])
        code, _ = consumer.expect_error(file.name)
        check(code == 3, f"exit code {code}, expected 3")
        wait_for(lambda: file.name in str(c.status()["workers"]), "status does not name the file")
        if (folder / ".millrace.index").exists():  # indexed while the file was good
            excluding = c.consume(1, job="excluding", extra=without(c, file, folder))
            excluding.expect_success()
            c.dataset = good
            expect_without(c, excluding, file, folder)


def expect_without(c, consumer, file, folder):
    """Checks E and B for a job that excludes a file: its examples are dropped, in their places."""
    expected = c.reference(0, 1, extra=without(c, file, folder))
    checker.check(consumer.lines(), expected, 1, EXAMPLES)
    if file.name == largest(c.dataset).name:  # small files may have no examples
        check(any(reason == "excluded" for line in consumer.lines() for _, reason in line["dropped"]),
              "no example of the file is dropped")


@fault("17", "file truncated while mapped", "L; E for plans that exclude the file", ci=True,
       conditions=(
    "the largest file is cut at a random length, first on the only worker, then on one of two; "
    "`exclude` names the file"))
def a_file_is_truncated_while_mapped(run):
    with run.cluster() as c:
        good = c.dataset
        folder, _ = copy(c, run)
        file = largest(folder)
        c.dispatcher()
        damaged = c.worker(dataset=folder)
        consumer = c.consume(1, epochs=20, **SLOWLY)
        if run.kind != "graph":
            excluding = c.consume(1, job="excluding", extra=without(c, file, folder), **SLOWLY)
        consumer.wait_for_batches(run.random.randrange(5, 100))
        os.truncate(file, run.random.choice([0, 4096, run.random.randrange(file.stat().st_size)]))
        # Every array of a graph is needed, so its file has to be put back.
        hint = "put the file back" if run.kind == "graph" else "exclude: {files: ["
        code, _ = consumer.expect_error(file.name, hint)
        check(code == 3, f"exit code {code}, expected 3")
        check(damaged.alive(), f"the worker died:\n{damaged.text()}")
        c.expect_prefix(consumer, 1)
        if run.kind != "graph":
            excluding.expect_success()
            expect_without(c, excluding, file, folder)
    with run.cluster() as c:
        folder, _ = copy(c, run)
        file = largest(folder)
        c.dispatcher()
        c.worker(dataset=folder)
        c.worker(dataset=good)
        consumer = c.consume(2, epochs=3, **SLOWLY)
        consumer.wait_for_batches(20)
        os.truncate(file, 4096)
        consumer.expect_success()
        c.expect([consumer], 2, 3)


@fault("18", "bit flips in data, header, pointers", "L, no bad batch", ci=True, conditions=(
    "1 to 8 bits of one file are flipped, in its segment table, its root or anywhere, on the host "
    "of one of two workers, before the worker starts; then a daemon has only such a copy: it "
    "names and refuses the file, or serves another dataset"))
def bits_are_flipped(run):
    with run.cluster() as c:
        good = c.dataset
        folder, file = copy(c, run, index=run.random.random() < 0.5)
        flip(run, file, 0, run.random.choice([8, 200, file.stat().st_size]),
             run.random.choice([1, 1, 8]))
        c.dispatcher()
        c.worker(dataset=folder)
        if run.kind == "graph":  # contents are compared while they are served
            wait_until_named(c, file)
        c.worker()
        consumer = c.consume(2, epochs=2)
        wait_until_named(c, file)
        consumer.expect_success()
        c.expect([consumer], 2, 2)
    with run.cluster() as c:
        c.dataset = folder_again = c.folder / "bad"
        shutil.copytree(good, folder_again)
        forget_index(folder_again)
        file = run.random.choice(files_of(folder_again))
        flip(run, file, 0, run.random.choice([8, 200, file.stat().st_size]),
             run.random.choice([1, 1, 8]))
        if run.kind == "graph":
            c.dispatcher()
            c.worker()
            wait_until_named(c, file)
            c.consume(1, extra=["--attach-timeout", "20"]).expect_error(file.name)
            return
        done = subprocess.run([binary("cli"), "digest", c.pipeline, "--dataset", f"data={c.dataset}",
                               "--epoch", "0"], capture_output=True, text=True, check=False)
        forget_index(folder_again)
        c.dispatcher()
        c.worker()
        consumer = c.consume(1, extra=["--attach-timeout", "20"])
        if done.returncode == 0:  # the bit is data: the file is another one, but a good one
            consumer.expect_success()
            c.expect([consumer], 1, 1)
            run.note("seeds where the flipped file is as good", 1, "")
        else:
            check(done.returncode == 3 and file.name in done.stderr, done.stderr)
            consumer.expect_error(file.name)


@fault("19", "file renamed over; written in place", "E B; L", ci=True, conditions=(
    "every file in use is renamed over: the job goes on, with one warning a file; then the "
    "largest file is written in place: the job ends and names it (until the change is seen, at "
    "most a second, batches may have the new bytes)"))
def a_file_is_replaced(run):
    with run.cluster() as c:
        folder, _ = copy(c, run)
        c.dispatcher()
        worker = c.worker(dataset=folder)
        consumer = c.consume(2, epochs=2, **SLOWLY)
        consumer.wait_for_batches(run.random.randrange(20, 60))
        for file in files_of(folder):
            other = file.with_suffix(".new")
            other.write_bytes(os.urandom(run.random.randrange(1, 100000)))
            os.replace(other, file)
        wait_for(lambda: "file was replaced" in worker.text(), "nobody warns")
        consumer.expect_success()
        c.expect([consumer], 2, 2)
    with run.cluster() as c:
        folder, _ = copy(c, run)
        file = largest(folder)
        expect_end_by_overwriting(c, run, folder, file)


@fault("37", "one host has another copy of a file", "L, no bad batch", ci=True, conditions=(
    "on one worker's host, a file of the dataset was made with another seed; the other worker "
    "joins later"))
def a_host_has_another_copy(run):
    with run.cluster() as c:
        folder, file = copy(c, run, index=False)
        other = c.folder / "other"
        subprocess.run([binary("cli"), "generate", other, *GENERATE[run.kind], "--seed", str(100 + run.seed)],
                       check=True, capture_output=True)
        if file.read_bytes() == (other / file.relative_to(folder)).read_bytes():
            file = largest(folder)  # not every array of a graph depends on the seed
        shutil.copy(other / file.relative_to(folder), file)
        c.dispatcher()
        c.worker(dataset=folder)
        if run.kind == "graph":  # contents are compared while they are served
            wait_until_named(c, file)
            c.worker()  # the job would end at once with the only worker's error
            consumer = c.consume(2, epochs=2)
        else:
            consumer = c.consume(2, epochs=2)
            wait_until_named(c, file)
            check(consumer.batches() == 0, "a batch came from a dataset that differs")
            c.worker()
        consumer.expect_success()
        c.expect([consumer], 2, 2)
