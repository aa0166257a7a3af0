"""Files of tokens that are cut off, replaced and different below packed rows, and documents that
cannot be built."""

import os
import re
import shutil

import checker
from cluster import check, wait_for
from fault import fault
from faults.files import SLOWLY, expect_end_by_overwriting, forget_index, wait_until_named
from faults.plugins import Plugin, python_with_numpy

DOCUMENTS = 1500
PIPELINE = """millrace: 1
dataset: data
source: SOURCE
pack: {tensor: tokens, size: SIZE, method: METHOD, seed: SEED}
shuffle: {seed: 7}
batch: {size: 4, remainder: keep}
output: [tokens, pack.lengths, pack.documents, pack.label]
"""


def packs(c, run):
    """Generates pairs of files of tokens, and chooses how they are packed by the seed. The dataset
    and the pipeline of the cluster are of these. Returns the folder."""
    folder = c.folder / "tokens"
    c.run("generate", folder, "--kind", "tokens", "--documents", DOCUMENTS, "--files", 4, "--mean", 200,
          "--vocab", 1000, "--seed", run.seed)
    c.run("index", folder)
    c.dataset = folder
    write_pipeline(c, run)
    return folder


def write_pipeline(c, run, source="tokens", more=""):
    text = PIPELINE.replace("SOURCE", source).replace("SIZE", str(run.random.choice([128, 300])))
    text = text.replace("METHOD", run.random.choice(["fit", "concat"]))
    c.pipeline.write_text(text.replace("SEED", str(run.random.choice(["null", 3]))) + more)


def copy(c, folder):
    other = c.folder / f"copy-{c._count}"
    shutil.copytree(folder, other)
    return other


def bin_of(run, folder):
    return run.random.choice(sorted(folder.glob("*.bin")))


def rows(c, *options):
    """How many rows an epoch has."""
    return int(re.search(r"^rows +(\d+)", c.run("inspect", c.pipeline, "--dataset", f"data={c.dataset}",
                                                *options), re.M)[1])


def expect_prefix(c, consumer):
    """Checks E and B for a consumer that ended early."""
    check(c.expect_prefix(consumer, 1) > 0, "no batch came")


@fault("73", "`.bin` of a pair truncated while mapped, below packed rows",
       "L, no bad batch; E B for plans that exclude the file", ci=True, conditions=(
    "a file of tokens is cut at a random length, first on the only worker, then on one of two; rows "
    "go by the lengths in its `.idx`, which stays as it is; another job excludes the file, and has "
    "every row in its place, without the file's documents"))
def tokens_are_truncated_while_mapped(run):
    with run.cluster() as c:
        good = packs(c, run)
        folder = copy(c, good)
        file = bin_of(run, folder)
        without = ["--set", f"exclude.files=[{file.name}]"]
        c.dispatcher()
        damaged = c.worker(dataset=folder)
        consumer = c.consume(1, epochs=5, **SLOWLY)
        excluding = c.consume(1, job="excluding", extra=without, **SLOWLY)
        consumer.wait_for_batches(run.random.randrange(5, 100))
        os.truncate(file, run.random.choice([0, 4096, 4097, run.random.randrange(file.stat().st_size)]))
        code, _ = consumer.expect_error(file.name, "exclude: {files: [")
        check(code == 3, f"exit code {code}, expected 3")
        check(damaged.alive(), f"the worker died:\n{damaged.text()}")
        expect_prefix(c, consumer)
        excluding.expect_success()
        checker.check(excluding.lines(), c.reference(0, 1, extra=without), 1, rows(c, *without))
    with run.cluster() as c:
        good = packs(c, run)
        folder = copy(c, good)
        file = bin_of(run, folder)
        c.dispatcher()
        c.worker(dataset=folder)
        c.worker(dataset=good)
        consumer = c.consume(2, epochs=2, **SLOWLY)
        consumer.wait_for_batches(20)
        os.truncate(file, run.random.choice([0, 4096]))
        consumer.expect_success()
        c.expect([consumer], 2, 2, planned=rows(c))


@fault("74", "`.bin` of a pair renamed over; written in place; another one on one host",
       "E B; L, no bad batch", ci=True, conditions=(
    "every `.bin` and `.idx` in use is renamed over: the job goes on, with one warning a file; then "
    "a `.bin` is written in place: the job ends and names it (until the change is seen, at most a "
    "second, batches may have the new tokens); then one of two hosts has other tokens in a `.bin`: "
    "its worker is refused, and status names the file"))
def tokens_are_replaced(run):
    with run.cluster() as c:
        folder = copy(c, packs(c, run))
        c.dispatcher()
        worker = c.worker(dataset=folder)
        consumer = c.consume(2, epochs=2, **SLOWLY)
        consumer.wait_for_batches(run.random.randrange(20, 60))
        for file in sorted([*folder.glob("*.bin"), *folder.glob("*.idx")]):
            other = file.with_suffix(".new")
            other.write_bytes(os.urandom(run.random.randrange(1, 100000)))
            os.replace(other, file)
        wait_for(lambda: "file was replaced" in worker.text(), "nobody warns")
        consumer.expect_success()
        c.expect([consumer], 2, 2, planned=rows(c))
    with run.cluster() as c:
        folder = copy(c, packs(c, run))
        file = bin_of(run, folder)
        expect_end_by_overwriting(c, run, folder, file)
    with run.cluster() as c:
        good = packs(c, run)
        folder = copy(c, good)
        file = bin_of(run, folder)
        forget_index(folder)
        with open(file, "r+b") as f:
            f.seek(2 * run.random.randrange(file.stat().st_size // 2))
            token = f.read(2)
            f.seek(-2, os.SEEK_CUR)
            f.write(bytes([token[0] ^ 1, token[1]]))
        c.dispatcher()
        c.worker(dataset=folder)
        consumer = c.consume(2, epochs=2)
        wait_until_named(c, file)
        check(consumer.batches() == 0, "a batch came from a dataset that differs")
        c.worker()
        consumer.expect_success()
        c.expect([consumer], 2, 2, planned=rows(c))


FAILING = """
import numpy as np

__all__ = ["mask"]


def mask(tokens, at):
    if len(tokens) == at:
        raise LookupError(f"{at} tokens")
    return np.asarray(tokens) % 7
"""


def lengths(c):
    """The number of tokens of each document."""
    found = []
    for index in sorted(c.dataset.glob("*.idx")):
        data = index.read_bytes()
        count = int.from_bytes(data[18:26], "little")
        found += [int.from_bytes(data[34 + 4 * i:38 + 4 * i], "little") for i in range(count)]
    return found


def mask_options(failing, drop):
    made = f'{{python: "faulty:mask", inputs: [tokens], args: {{at: {failing}}}, type: "int64[*]"'
    return ["--set", "pack.with=[mask]", "--set", f"tensors.mask={made}{', drop: [LookupError]' if drop else ''}}}",
            "--set", "output=[tokens, mask, pack.lengths, pack.documents]"]


@fault("75", "a document of packed rows that cannot be built", "L; E B without its pieces", ci=True,
       conditions=(
    "two workers; a token of one document is not below `vocab`, which is found when it is read: the "
    "job ends and names file, document and line, and a job with that line goes on; then a function "
    "raises for the documents of one length: with `drop` rows lose their pieces and nothing else "
    "moves, without it the job ends and names the document"))
def a_document_cannot_be_built(run):
    with run.cluster() as c:
        packs(c, run)
        sizes = lengths(c)
        write_pipeline(c, run, source="{tokens: {vocab: 1000}}")
        file = bin_of(run, c.dataset)
        at = 2 * run.random.randrange(file.stat().st_size // 2)
        with open(file, "r+b") as f:
            f.seek(at)
            f.write((60000).to_bytes(2, "little"))
        c.run("index", c.dataset)
        c.dispatcher()
        workers = [c.worker() for _ in range(2)]
        consumer = c.consume(1, delay=0)
        code, error = consumer.expect_error(file.name, "is 60000, expected 0 to 999 (vocab)")
        check(code == 3, f"exit code {code}, expected 3")
        document = int(re.search(r"exclude: {examples: \[(\d+)\]}", error)[1])
        without = ["--set", f"exclude.examples=[{document}]"]
        excluding = c.consume(2, job="excluding", extra=without, delay=0)
        excluding.expect_success()
        checker.check(excluding.lines(), c.reference(0, 2, extra=without), 2, rows(c, *without))
        check(all(worker.alive() for worker in workers), "a worker died")
        check(sizes[document] > 0, "the document named has no tokens")
    with run.cluster() as c:
        packs(c, run)
        sizes = lengths(c)
        write_pipeline(c, run)
        plugin = Plugin(c)
        (plugin.folder / "faulty.py").write_text(FAILING)
        os.environ["MILLRACE_PYTHON"] = python_with_numpy()
        local = ["--plugin", f"faulty={plugin.folder}"]
        c.dispatcher(extra=plugin.options)
        workers = [c.worker(extra=plugin.options) for _ in range(2)]
        failing = sizes[run.random.randrange(DOCUMENTS)]
        lost = [i for i, size in enumerate(sizes) if size == failing]
        drops = mask_options(failing, drop=True)
        dropping = c.consume(1, job="dropping", extra=drops, delay=0)
        dropping.expect_success()
        expected = c.reference(0, 1, extra=[*drops, *local])
        checker.check(dropping.lines(), expected, 1, rows(c, *drops, *local))
        same = c.reference(0, 1, extra=[*drops, "--set", f"exclude.examples={lost}", *local])
        check([line["hash"] for line in same] == [line["hash"] for line in expected],
              "documents that a function drops do not leave rows as excluded ones do")
        whole = c.reference(0, 1, extra=[*mask_options(-1, drop=True), *local])
        check([line["hash"] for line in whole] != [line["hash"] for line in expected], "nothing was lost")
        code, error = c.consume(1, job="failing", extra=mask_options(failing, drop=False),
                                delay=0).expect_error("faulty:mask", f"LookupError: {failing} tokens")
        check(code == 3, f"exit code {code}, expected 3")
        named = int(re.search(r"exclude: {examples: \[(\d+)\]}", error)[1])
        check(named in lost, f"the error names document {named}, which can be built")
        check(all(worker.alive() for worker in workers), "a worker died")
