"""Folders of tokens through the command line, and while they are served."""

import json
import os
import re
import subprocess

from harness import binary, check, check_same, cluster, wait_for
from test_streams import DATA

SLOW = ["--delay", "0.02", "--prefetch-bytes", "30000"]
PIPELINE = """millrace: 1
dataset: data
source: tokens
shuffle: {seed: 7}
batch: {size: 8, remainder: keep}
"""
ENDS = "{tokens: {dtype: uint16, eos: 999}}"


def tokens(c, form="pairs"):
    """Generates a folder of tokens, which the cluster's pipeline is over. Returns its .bin files."""
    folder = c.folder / form
    c.run("generate", folder, "--kind", "tokens", "--format", form, "--documents", 600, "--files", 3,
          "--mean", 200, "--vocab", 1000)
    c.dataset = folder if form == "pairs" else f"tokens:{folder}"
    c.pipeline.write_text(PIPELINE.replace("source: tokens", f"source: {ENDS}") if form == "raw" else PIPELINE)
    return sorted(folder.glob("*.bin"))


def millrace(*arguments):
    return subprocess.run([binary("cli"), *map(str, arguments)], capture_output=True, text=True,
                          check=False)


def test_tokens_are_indexed_inspected_verified_and_warmed():
    with cluster(DATA) as c:
        files = tokens(c)
        check("0 of 6 files as before" in c.run("index", c.dataset), "the index is not built")
        check("fits" in c.run("index", c.dataset), "the index is built again")
        inspected = c.run("inspect", c.dataset)
        for line in ("kind             tokens\n", "documents        600\n", "dtype            uint16\n",
                     f"  {files[1].name}: 200 sequences, ", "\nsource: tokens\n"):
            check(line in inspected, inspected)
        check("6 files" in c.run("verify", c.dataset), "the files are not verified")
        check("files            7\n" in c.run("warm", c.dataset), "not all files are warmed")
        os.utime(files[0], (1, 1))
        check("6 of 6 files as before" in c.run("index", c.dataset), "a touched file is read again")
        with open(files[1], "r+b") as f:
            f.truncate(101)
        done = millrace("index", c.dataset)
        check(done.returncode == 3 and f"{files[1].name}: has 101 bytes, expected " in done.stderr, done.stderr)
        tokens(c, "raw")
        told = c.run("inspect", c.dataset)
        check("source: {tokens: {dtype: uint16, eos: 999}}\n" in told and "guessed " in told, told)


def test_pairs_and_raw_files_of_the_same_documents_are_served_alike():
    with cluster(DATA) as c:
        payloads = []
        for form in ("pairs", "raw"):
            tokens(c, form)
            daemon = c.serve(state=form)
            consumer = c.consumer(2, job=form)
            consumer.expect_success()
            check_same(c.delivered(consumer.log), c.reference(0, 2))
            payloads.append(sorted((batch["ordinal"], batch["hash"]) for batch in c.delivered(consumer.log)))
            check(c.status()["datasets"]["data"]["kind"] == "tokens", "it is of another kind")
            daemon.terminate()
        check(payloads[0] == payloads[1], "the two forms have other batches")
        columns = list((c.folder / "raw/.millrace.columns").iterdir())
        check(len(columns) == 1, f"{columns}")


def test_a_file_of_tokens_that_is_cut_off_while_it_is_served_ends_the_job_with_its_name():
    with cluster(DATA) as c:
        files = tokens(c)
        daemon = c.serve()
        consumer = c.consumer(1, epochs=100, extra=SLOW)
        wait_for(lambda: len(c.delivered(consumer.log)) > 5, "no batches", consumer.popen)
        with open(files[1], "r+b") as f:
            f.truncate(100)
        check(consumer.wait() == 3, consumer.text())
        last = consumer.text().splitlines()[-1]
        check(files[1].name in last and "exclude: {files: [" in last, last)
        check(daemon.popen.poll() is None, f"the daemon died:\n{daemon.text()}")


def test_documents_of_a_damaged_file_of_tokens_are_excluded_in_their_places():
    with cluster(DATA) as c:
        files = tokens(c)
        c.run("index", c.dataset)
        whole = c.reference(0, 1)
        files[2].unlink()
        c.serve()
        consumer = c.consumer(1, extra=["--attach-timeout", "600"])
        check(consumer.wait() == 3, consumer.text())
        line = re.search(r"write `(exclude: .*?)`", consumer.text())
        check(line is not None, consumer.text())
        check(line[1] == f"exclude: {{files: {json.dumps([files[2].name])}}}", line[1])
        c.pipeline.write_text(f"{PIPELINE}{line[1]}\n")
        without = c.consumer(1, job="without")
        without.expect_success()
        lines = c.delivered(without.log)
        dropped = sorted(example for batch in lines for example, _ in batch["dropped"])
        check(dropped == list(range(400, 600)), f"{dropped[:5]}")
        places = [[sorted([*batch["examples"], *(example for example, _ in batch["dropped"])])
                   for batch in log] for log in (lines, whole)]
        check(places[0] == places[1], "examples have other places")


def test_a_token_that_is_none_ends_the_job_with_file_place_and_value():
    with cluster(DATA) as c:
        tokens(c)
        c.pipeline.write_text(PIPELINE.replace("source: tokens", "source: {tokens: {vocab: 999}}"))
        c.serve()
        consumer = c.consumer(1)
        check(consumer.wait() == 3, consumer.text())
        last = consumer.text().splitlines()[-1]
        found = re.search(r"file part-\d+\.bin, document \d+: token \d+ is 999, expected 0 to 998 \(vocab\)", last)
        check(found is not None, last)
