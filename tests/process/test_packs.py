"""Packed rows through the command line, and while they are served."""

import json
import re
import subprocess

from harness import binary, check, check_same, cluster
from test_streams import DATA

PIPELINE = """millrace: 1
dataset: data
source: tokens
filter: {where: "tokens.length != 7"}
pack: {tensor: tokens, size: 64, method: fit, above: ABOVE, window: 100, seed: 5}
shuffle: {seed: 7}
batch: {global_size: 12, remainder: keep}
output: [tokens, pack.lengths, pack.documents, pack.label, pack.cu_seqlens]
pad: {pack: {}}
"""


def packs(c, above="split", more=""):
    """Generates sequences of tokens, which the cluster's pipeline packs. Returns their lengths."""
    folder = c.folder / "tokens"
    if not folder.exists():
        c.run("generate", folder, "--kind", "tokens", "--documents", 600, "--files", 3, "--mean", 20,
              "--vocab", 1000)
    c.dataset = folder
    c.pipeline.write_text(PIPELINE.replace("ABOVE", above) + more)
    lengths = []
    for index in sorted(folder.glob("*.idx")):
        data = index.read_bytes()
        count = int.from_bytes(data[18:26], "little")
        lengths += [int.from_bytes(data[34 + 4 * i:38 + 4 * i], "little") for i in range(count)]
    return lengths


def offline(c, command, *options):
    return c.run(command, c.pipeline, "--dataset", f"data={c.dataset}", *options)


def refused(c, command, *options, code):
    """What a command that fails says."""
    done = subprocess.run([binary("cli"), command, str(c.pipeline), "--dataset", f"data={c.dataset}",
                           *map(str, options)], capture_output=True, text=True, check=False)
    check(done.returncode == code, f"{command} {options}: {done.returncode}: {done.stderr}")
    return done.stderr


def test_inspect_counts_documents_rows_and_what_is_left_out():
    with cluster(DATA) as c:
        lengths = packs(c, "drop")
        told = offline(c, "inspect")
        kept = [length for length in lengths if length != 7]
        above = [length for length in kept if length > 64]
        elements = sum(kept) - sum(above)
        check(above, "no document is above the size")
        for line in (f"documents      {len(kept)} of 600 examples\n",
                     f"  filtered     {600 - len(kept)}\n",
                     f"  above        {len(above)} have more elements than a row\n",
                     f"  elements     {elements} in rows, {sum(above)} left out\n"):
            check(line in told, f"{line!r} is not in {told}")
        rows, count, padding = map(int, re.search(r"^rows +(\d+) of (\d+) pieces, (\d+) elements", told,
                                                  re.M).groups())
        check(count == len([length for length in kept if 0 < length <= 64]), told)
        check(rows * 64 - elements == padding, told)
        check(f"  in an epoch  {rows}\n" in told, told)


def test_where_and_batch_find_rows_and_the_documents_in_them():
    with cluster(DATA) as c:
        lengths = packs(c)
        long = max(range(600), key=lambda i: lengths[i])
        found = offline(c, "where", "--example", long, "--world-size", 3)
        rows = [int(row) for row in re.findall(r"packed row (\d+)", found)]
        check(rows == sorted(set(rows)) and len(rows) == (lengths[long] + 63) // 64, found)
        check(found.startswith(f"example {long}: "), found)
        # All rows of the document, in one batch.
        batch = offline(c, "batch", "--example", long)
        shown = [int(line.split()[1]) for line in batch.splitlines()[1:-1]]
        check(shown == rows, f"{rows}: {batch}")
        one = offline(c, "where", "--row", rows[-1], "--epochs", "0-1")
        check(one.startswith(f"row {rows[-1]}, elements "), one)
        check(len(re.findall(f"packed row {rows[-1]}$", one, re.M)) == 2, one)
        pieces = {name: re.search(rf"^  {name} +(.*)$", one, re.M)[1].split(", ")
                  for name in ("documents", "begins", "lengths")}
        check(str(long) in pieces["documents"] and len(set(map(len, pieces.values()))) == 1, one)
        elements = int(re.search(r"elements (\d+), pieces", one)[1])
        check(sum(map(int, pieces["lengths"])) == elements, one)
        # Digests say where, too.
        for line in c.reference(0, 3):
            for place, row in enumerate(line["examples"]):
                if row != rows[0]:
                    continue
                at = [field.split() for field in found.splitlines()[2:]
                      if field.endswith(f"packed row {row}")][0]
                check([int(n) for n in at[1:4]] == [line["step"], line["rank"], place], f"{line} {at}")
        check("row" in offline(c, "batch", "--row", rows[0]), "the row is not shown")


def test_where_says_why_a_document_is_in_no_row():
    with cluster(DATA) as c:
        lengths = packs(c, "drop")
        for example, why in ((lengths.index(7), "filtered"),
                             (next(i for i, length in enumerate(lengths) if length > 64), "above")):
            for command in ("where", "batch"):
                said = refused(c, command, "--example", example, code=2)
                check(f"example {example} is in no row of this pipeline: {why}" in said, said)
        for option, number in (("--example", 600), ("--row", 10 ** 9)):
            said = refused(c, "where", option, number, code=2)
            check(f"{option} {number}: the pipeline's source has " in said, said)


def test_documents_that_are_empty_or_cannot_be_built_are_told_apart():
    with cluster(DATA) as c:
        folder = c.folder / "boards"
        c.run("generate", folder, "--kind", "records", "--records", 200, "--files", 2)
        c.dataset = folder
        c.pipeline.write_text("""millrace: 1
dataset: data
source: {records: {s: int64, x: "float32[*, 2]"}, on_error: drop}
pack: {tensor: x, size: 20, method: concat}
batch: {size: 8, remainder: keep}
""")
        told = offline(c, "inspect")
        empty, bad = (int(re.search(rf"^  {what} +(\d+)$", told, re.M)[1]) for what in ("empty", "not built"))
        why = {}
        for example in range(60):
            try:
                offline(c, "where", "--example", example)
            except AssertionError as error:
                why.setdefault(re.search(r"is in no row of this pipeline: (.*)", str(error))[1], example)
        check(set(why) == {"empty", "not built"} and empty > 0 and bad > 50, f"{why}: {told}")
        # With `fail`, such a document would never be met.
        fails = ["--set", 'source={records: {s: int64, x: "float32[*, 2]"}, on_error: fail}']
        said = refused(c, "inspect", *fails, code=3)
        check(f"exclude: {{examples: [{why['not built']}]}}" in said, said)
        excluded = []
        for _ in range(3):
            said = refused(c, "inspect", *fails, "--set", f"exclude.examples={excluded}", code=3)
            excluded.append(int(re.search(r"examples: \[(\d+)\]", said)[1]))
        check(len(set(excluded)) == 3, f"{excluded}")


def test_rows_are_delivered_as_they_are_built_alone_in_any_fleet():
    with cluster(DATA) as c:
        packs(c, more="exclude: {examples: [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n")
        c.dispatcher()
        c.worker(threads=2)
        c.worker()
        hashes = []
        for world_size in (1, 3, 4):
            consumer = c.consumer(world_size, epochs=2, job=f"of {world_size}")
            consumer.expect_success()
            lines = c.delivered(consumer.log)
            check_same(lines, c.reference(0, world_size) + c.reference(1, world_size))
            hashes.append(sorted(example for line in lines if line["epoch"] == 1
                                 for example in [*line["examples"], *(d[0] for d in line["dropped"])]))
        rows = int(re.search(r"^rows +(\d+)", offline(c, "inspect"), re.M)[1])
        check(all(found == list(range(rows)) for found in hashes), "rows are missing, or come twice")
        whole = c.consumer(2, epochs=1, job="first")
        whole.expect_success()
        cursor = re.search(r"^cursor (\S+)$", whole.text(), re.M)[1]
        rest = c.consumer(3, epochs=1, job="rest", extra=["--cursor", cursor])
        rest.expect_success()
        check_same(c.delivered(rest.log), c.reference(1, 3))


def test_a_log_of_rows_has_each_row_once():
    with cluster(DATA) as c:
        packs(c)
        c.serve()
        consumer = c.consumer(2, epochs=2)
        consumer.expect_success()
        out = c.run("check-log", c.pipeline, "--dataset", f"data={c.dataset}", "--world-size", 2, "--epochs",
                    2, "--log", consumer.log)
        check("each once an epoch" in out, out)
        check(all(json.loads(line)["examples"] for line in consumer.log.read_text().splitlines()), "no rows")
