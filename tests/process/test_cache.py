"""Examples that workers keep in memory and on disk: batches are the same with them, and a process that
begins anew finds what another one has built."""

import re
import shutil

from harness import check, check_same, cluster, wait_for
from test_streams import DATA

CACHED = """millrace: 1
dataset: data
source: proof_states
shuffle: {{seed: 7}}
batch: {{{batch}, remainder: {remainder}}}
cache: {{examples: {level}}}
"""


def cached(c, level):
    c.pipeline.write_text(CACHED.format(batch="size: 8", remainder="keep", level=level))


def epochs(c, count=2, job="job"):
    """Delivers some epochs, and checks that the bytes are those of a build without a cache."""
    consumer = c.consumer(1, epochs=count, job=job)
    consumer.expect_success()
    expected = [line for epoch in range(count) for line in c.reference(epoch, 1)]
    check_same(c.delivered(consumer.log), expected, job)


def one_by_one(c, job, count=2):
    """The same with a job for each epoch, so that none begins before the last one is built: no
    example is then looked for while it is being built. Returns how many examples an epoch has."""
    cursor = ()
    for epoch in range(count):
        consumer = c.consumer(1, job=f"{job}-{epoch}", extra=cursor)
        consumer.expect_success()
        expected = c.reference(epoch, 1)
        check_same(c.delivered(consumer.log), expected, job)
        cursor = ("--cursor", re.search(r"^cursor (\S+)", consumer.text(), re.M)[1])
    return sum(len(line["examples"]) + len(line["dropped"]) for line in expected)


def use(c, worker=0):
    """What the worker last told of its cache."""
    counts = c.status()["workers"][worker]["cache"]
    return {name: int(value) for name, value in counts.items()}


def test_a_second_epoch_is_taken_from_memory():
    with cluster(DATA) as c:
        cached(c, "memory")
        c.serve()
        examples = one_by_one(c, "job")

        def all_hits():
            seen = use(c)
            return seen.get("builds", 0) == seen.get("memory_hits", 0) == examples > 0

        wait_for(all_hits, "an epoch is not taken from memory")
        table = c.run("status", "--address", c.address)
        check("caches of examples" in table, table)


def test_a_worker_that_was_restarted_finds_its_examples_on_disk():
    with cluster(DATA) as c:
        cached(c, "disk")
        options = ("--cache-dir", c.folder / "cache", "--cache-dir-bytes", "64MiB")
        first = c.serve(*options)
        built = one_by_one(c, "first", 1)
        wait_for(lambda: use(c).get("builds") == built, "not all is built", first.popen)
        first.terminate()
        first.wait()
        second = c.serve(*options, state="state-2")
        wait_for(lambda: use(c).get("disk_bytes"), "the folder is not read", second.popen)
        one_by_one(c, "again")
        seen = wait_for(lambda: use(c) if use(c).get("memory_hits", 0) >= built else None,
                        "no hits", second.popen)
        check(seen["disk_hits"] == built, (seen, built))
        check(seen.get("builds", 0) == 0, seen)


def test_workers_that_share_a_folder_survive_its_removal():
    with cluster(DATA) as c:
        cached(c, "disk")
        c.dispatcher()
        folder = c.folder / "cache"
        for _ in range(2):
            c.worker(extra=("--cache-dir", folder))
        epochs(c, 3, "one")
        wait_for(lambda: list(folder.glob("*.examples")), "nothing is written")
        shutil.rmtree(folder, ignore_errors=True)  # workers may go on writing meanwhile
        epochs(c, 3, "two")


def test_a_folder_that_cannot_be_written_costs_only_speed():
    with cluster(DATA) as c:
        cached(c, "disk")
        (c.folder / "file").write_text("")
        worker = c.serve("--cache-dir", c.folder / "file" / "cache")
        epochs(c)
        wait_for(lambda: "cached" in worker.text(), "no warning", worker.popen)
