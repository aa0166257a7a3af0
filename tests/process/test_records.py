"""Datasets of records through the command line, and while they are served."""

import json
import os
import re
import subprocess

from harness import binary, check, check_same, cluster, wait_for
from test_streams import DATA

SLOW = ["--delay", "0.02", "--prefetch-bytes", "30000"]
PIPELINE = """millrace: 1
dataset: data
source: {records: {d: "bytes[194]", s: int64, x: "float32[*]"}}
shuffle: {seed: 7}
batch: {size: 8, remainder: keep}
"""


def millrace(*arguments):
    return subprocess.run([binary("cli"), *map(str, arguments)], capture_output=True, text=True,
                          check=False)


def records(c, name="records"):
    """Generates a dataset of records, which the cluster's pipeline is over. Returns its files."""
    folder = c.folder / name
    c.run("generate", folder, "--kind", "records", "--records", 600, "--files", 3)
    c.dataset = folder
    c.pipeline.write_text(PIPELINE)
    return sorted(folder.glob("*.tfrecord"))


def flip(file, at):
    with open(file, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 1]))


def test_records_are_indexed_inspected_verified_and_warmed():
    with cluster(DATA) as c:
        files = records(c)
        check("0 of 3 files as before" in c.run("index", c.dataset), "the index is not built")
        check("fits" in c.run("index", c.dataset), "the index is built again")
        inspected = c.run("inspect", c.dataset)
        for line in ("records          600\n", "  s  ", f"  {files[1].name}: 200 records, "):
            check(line in inspected, inspected)
        check("3 files" in c.run("verify", c.dataset), "the files are not verified")
        check("files            4\n" in c.run("warm", c.dataset), "not all files are warmed")
        os.utime(files[0], (1, 1))
        check("3 of 3 files as before" in c.run("index", c.dataset), "a touched file is read again")
        flip(files[1], 50)
        done = millrace("verify", c.dataset)
        check(done.returncode == 3 and f"{files[1].name}: has digest " in done.stderr, done.stderr)


def test_a_damaged_file_of_records_is_named_and_can_be_left_out():
    with cluster(DATA) as c:
        files = records(c)
        flip(files[1], 50)
        done = millrace("index", c.dataset)
        said = f"{files[1].name}: at byte 0: record 0: checksum of the data"
        check(done.returncode == 3 and said in done.stderr and "--skip-bad" in done.stderr, done.stderr)
        check("records          400\n" in c.run("index", c.dataset, "--skip-bad"), "not left out")
        check(f"left out: {said}\n" in c.run("inspect", c.dataset, "--skip-bad"), "not said")
        c.serve("--skip-bad")
        consumer = c.consumer(2, epochs=2)
        consumer.expect_success()
        state = c.status()["datasets"]["data"]
        check(state["kind"] == "records" and int(state["left_out_files"]) == 1, f"{state}")
        delivered = c.delivered(consumer.log)
        files[1].unlink()
        check_same(delivered, c.reference(0, 2) + c.reference(1, 2))


def test_records_whose_file_was_damaged_are_excluded_in_their_places():
    with cluster(DATA) as c:
        files = records(c)
        c.run("index", c.dataset)
        whole = c.reference(0, 1)
        flip(files[2], 50)
        c.serve()
        consumer = c.consumer(1, extra=["--attach-timeout", "600"])
        check(consumer.wait() == 3, consumer.text())
        line = re.search(r"write `(exclude: .*?)`", consumer.text())
        check(line is not None, consumer.text())
        check(line[1] == f'exclude: {{files: ["{files[2].name}"]}}', line[1])
        c.pipeline.write_text(f"{PIPELINE}{line[1]}\n")
        without = c.consumer(1, job="without")
        without.expect_success()
        lines = c.delivered(without.log)
        dropped = [example for batch in lines for example, _ in batch["dropped"]]
        check(sorted(dropped) == list(range(400, 600)), f"{sorted(dropped)[:5]}")
        places = [[sorted([*batch["examples"], *(example for example, _ in batch["dropped"])])
                   for batch in log] for log in (lines, whole)]
        check(places[0] == places[1], "examples have other places")


def test_a_bad_record_ends_the_job_or_is_dropped_or_excluded():
    with cluster(DATA) as c:
        records(c)
        c.pipeline.write_text(PIPELINE.replace("float32[*]", "float32[*, 2]"))
        c.serve()
        consumer = c.consumer(1)
        check(consumer.wait() == 3, consumer.text())
        last = consumer.text().splitlines()[-1]
        found = re.search(r"file (\S+), record (\d+) at byte (\d+): bad_record: x: \d+ values, expected "
                          r"a multiple of 2; to go on without it, write `(exclude: .*?)`", last)
        check(found is not None, last)
        options = ["--set", 'source={records: {x: "float32[*, 2]"}, on_error: drop}']
        drops = c.consumer(1, job="drops", extra=options)
        drops.expect_success()
        lines = c.delivered(drops.log)
        reasons = {reason for batch in lines for _, reason in batch["dropped"]}
        check(reasons == {"bad_record"}, f"{reasons}")
        check(sum(len(batch["examples"]) for batch in lines) > 200, "too few are left")
        dropped = [example for batch in lines for example, _ in batch["dropped"]]
        named = int(re.search(r"examples: \[(\d+)\]", found[4])[1])
        check(named in dropped, f"{named} is not bad")
        excludes = c.consumer(1, job="excludes", extra=[
            "--set", f"exclude.examples={json.dumps(sorted(dropped))}"])
        excludes.expect_success()
        lines = c.delivered(excludes.log)
        reasons = {reason for batch in lines for _, reason in batch["dropped"]}
        check(reasons == {"excluded"}, f"{reasons}")


def test_a_record_with_wrong_data_is_dropped_and_the_rest_of_its_file_is_served():
    with cluster(DATA) as c:
        files = records(c)
        whole = c.reference(0, 1)
        flip(files[1], 50)
        options = ["--set", 'source={records: {d: "bytes[194]", s: int64, x: "float32[*]"}, '
                   'on_error: drop}']
        c.serve()
        state = c.status()["datasets"]["data"]
        check(files[1].name in json.dumps(state), f"{state}")
        stopped = c.consumer(1)
        check(stopped.wait() == 3, stopped.text())
        last = stopped.text().splitlines()[-1]
        said = f"{files[1].name}: at byte 0: record 0: checksum of the data"
        check(said in last and "`on_error: drop` beside `records`" in last, last)
        drops = c.consumer(1, job="drops", extra=options)
        drops.expect_success()
        lines = c.delivered(drops.log)
        dropped = [tuple(example) for batch in lines for example in batch["dropped"]]
        check(dropped == [(200, "bad_record")], f"{dropped}")
        places = [[sorted([*batch["examples"], *(example for example, _ in batch["dropped"])])
                   for batch in log] for log in (lines, whole)]
        check(places[0] == places[1], "examples have other places")
        # A wrong length hides where the next record begins, so the file is damaged as a whole.
        flip(files[2], 0)
        done = millrace("index", c.dataset)
        check(done.returncode == 3 and "checksum of the length" in done.stderr, done.stderr)


def test_records_that_are_written_over_while_they_are_served_end_the_job_with_their_file():
    with cluster(DATA) as c:
        files = records(c)
        daemon = c.serve()
        consumer = c.consumer(1, epochs=100, extra=SLOW)
        wait_for(lambda: len(c.delivered(consumer.log)) > 5, "no batches", consumer.popen)
        with open(files[1], "r+b") as f:
            f.write(bytes(files[1].stat().st_size))
        check(consumer.wait() == 3, consumer.text())
        last = consumer.text().splitlines()[-1]
        check(files[1].name in last and "exclude: {files: [" in last, last)
        check(daemon.popen.poll() is None, f"the daemon died:\n{daemon.text()}")


def test_a_filter_and_a_balance_by_a_scalar_feature_are_served_as_they_are_built_alone():
    with cluster(DATA) as c:
        records(c)
        c.pipeline.write_text(PIPELINE + 'filter: {where: "s > 0 && s < 1500"}\n'
                              "balance: {by: s, group: 8}\n")
        c.dispatcher()
        worker = c.worker()
        consumer = c.consumer(2)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 2))
        kept = [file.read_bytes() for file in (c.dataset / ".millrace.columns").iterdir()]
        # Version 2, two bytes a value, int64: the workers' column is the one that is kept.
        check([column[8:17] for column in kept] == [b"\2\0\0\0\2\0\0\0\1"], kept[0][:40])
        examples = {example for batch in c.delivered(consumer.log) for example in batch["examples"]}
        check(150 < len(examples) < 450, f"{len(examples)} of 600 examples pass")
        check(worker.popen.poll() is None, worker.text())


def test_a_bucket_by_the_length_of_a_feature_is_served_as_it_is_built_alone():
    with cluster(DATA) as c:
        records(c)
        c.pipeline.write_text(PIPELINE.replace(
            "batch: {size: 8,", "batch: {bucket: {by: x.length, count: 4, budget: 256},"))
        c.serve()
        consumer = c.consumer(2)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 2))
