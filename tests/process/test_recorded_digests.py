"""Pipelines of every form give the payloads that were recorded, byte for byte and in their order.

recorded_digests/ has

  NAME.yaml    a pipeline; its first line says what it is there for, and the beginning of its name
               which test reads it: proofs, graph, order, records, tokens, tensors, mix or plugin
  digests.txt  what was recorded: of each dataset its digest; of each pipeline the digest of its
               payloads (the lines of `millrace digest`, which have the hash and the examples of
               each batch, of two epochs on two ranks, with a plugin of one), and that of its first
               batch's header (names, types and bounds of tensors, and the fingerprint)
  plugin/      the plugin of plugin-*.yaml

Every test makes up its datasets anew, see DATASETS. There is a pipeline for each key of the stages,
for each of their choices, for each operation with its parameters, and for each type; a test finds
those that are missing. Not covered: arrays of graph datasets of other types than generated ones
have, static tables, what a variant or an override changes, and what consumers compute after the
network, but for the header that tells them to.

If bytes were meant to change, record them anew, and look at what differs before it is committed:

  MILLRACE_CLI_BINARY=build/release/client/cli/millrace \\
    python3 tests/process/test_recorded_digests.py --record [NAME...]

It writes down the pipelines that are named, and their datasets; without a name, all.
"""

import hashlib
import os
import pathlib
import re
import shutil
import struct
import sys

from harness import check, cluster, numpy_python

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from records import example, frame  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent / "recorded_digests"
RECORDED = FOLDER / "digests.txt"
HEADING = """# What test_recorded_digests.py compares with. Its first lines say what this is, and how to
# record it anew. A dataset has its digest; a pipeline that of payloads, and that of its header.
"""
ADVICE = """If a dataset differs, generating or reading it has changed, and its pipelines say nothing.
If only a header differs, names, types, bounds or a fingerprint have changed. If bytes were meant to
change, a version has to rise (CONTRIBUTING.md, Habits); then record them anew, as the first lines of
test_recorded_digests.py say."""
EPOCHS = (0, 1)
RANKS = 2

# Options of `millrace generate`, or a function of the folder and the other datasets.
DATASETS = {
    "proofs": "--nodes 20000 --files 5 --definitions 120 --proof-states 300 --seed 12",
    "library": "--nodes 6000 --files 3 --definitions 50 --proof-states 80 --seed 4",
    "papers": "--kind graph --nodes 1500 --degree 6 --features 8 --edge-features 2 "
              "--node-labels 3 --edge-labels 2 --seed 1",
    "authors": "--kind graph --nodes 300 --degree 4 --features 8 --node-labels 5 "
               "--edge-labels 4 --seed 2",
    "molecules": "--kind graph --nodes 1200 --graphs 100 --degree 4 --features 5 "
                 "--edge-features 3 --node-labels 4 --edge-labels 4 --seed 3",
    "web": "--kind graph --model rmat --nodes 800 --edges 6000 --features 8 --classes 4 "
           "--rows target --seed 4",
    "boards": "--kind records --records 300 --files 3 --seed 5",
    "words": "--kind tokens --documents 300 --files 3 --mean 20 --vocab 3000 --seed 6",
    "letters": "--kind tokens --format raw --dtype int32 --documents 200 --files 2 --mean 12 --vocab 500 --seed 7",
    "texts": lambda folder, _: write_texts(folder),
    "earlier": lambda folder, data: write_earlier(folder, data.folder_of("proofs")),
    "numbers": lambda folder, _: write_numbers(folder),
}
# Kinds that are not found by looking at the folder.
TOLD = {"numbers": "python:", "letters": "tokens:"}


def write_texts(folder):
    """Records with lists of texts, and with features that some of them lack."""
    folder.mkdir()
    for part in range(3):
        data = b""
        for i in range(30 * part, 30 * part + 30):
            features = {"s": [i * 37 % 1000], "grid": [i - 40, -i, 7 * i, i * i, i << 33, 5],
                        "name": [b"record %d" % i * (i % 3)],
                        "tags": [b"t" * (i * k % 5) + b"%d" % k for k in range(i % 5)],
                        "pairs": [k / 4 + i for k in range(2 * (i * 7 % 6))],
                        "label/id": [i % 11] if i % 4 else [],
                        "quality": [i % 16 / 16] if i % 3 else [],
                        "note": [b"noted"] if i % 9 == 0 else []}
            data += frame(example({name: values for name, values in features.items() if values}))
        (folder / f"part-{part}.tfrecord").write_bytes(data)


def write_earlier(folder, proofs):
    """The dataset `proofs` before its last file came."""
    shutil.copytree(proofs, folder, ignore=shutil.ignore_patterns(".millrace.*"))
    (folder / "generated/p000/f04.bin").unlink()


def write_numbers(folder):
    """Lines of numbers in several files, which a plugin reads."""
    folder.mkdir()
    for part in range(3):
        lines = [" ".join(str(part * 100 + i * k) for k in range(i % 4)) for i in range(10)]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n")


class Data:
    """The datasets of one test, made up when they are needed."""

    def __init__(self, c):
        self.c = c
        self.made = {}
        # Columns that an earlier run has measured would hide that others are measured now.
        os.environ["XDG_CACHE_HOME"] = str(c.folder / "cache")
        self.plugin = c.folder / "plugin"

    def folder_of(self, name):
        if name not in self.made:
            folder = self.c.folder / name
            how = DATASETS[name]
            if callable(how):
                how(folder, self)
            else:
                self.c.run("generate", folder, *how.split())
            self.made[name] = folder
        return self.made[name]

    def options(self, pipeline):
        """What names the datasets and the plugin of a pipeline."""
        options = []
        for name in sorted(set(re.findall(r"\bdataset: (\w+)", pipeline.read_text()))):
            options += ["--dataset", f"{name}={TOLD.get(name, '')}{self.folder_of(name)}"]
        if uses_plugin(pipeline):
            if not self.plugin.exists():
                os.environ["MILLRACE_PYTHON"] = numpy_python()
                shutil.copytree(FOLDER / "plugin", self.plugin)  # columns will lie in it
            options += ["--plugin", f"made_up={self.plugin}"]
        return options

    def digests(self):
        """The digest of each dataset that is known by its content."""
        return {name: re.search(r"^digest +(\w+)", self.c.run("inspect", f"{TOLD.get(name, '')}{folder}"), re.M)[1]
                for name, folder in self.made.items() if name != "numbers"}


def pipelines(*groups):
    found = sorted(path for path in FOLDER.glob("*.yaml") if path.stem.startswith(groups))
    check(found, f"{FOLDER} has no pipelines {groups}")
    return found


def uses_plugin(pipeline):
    return "python:" in pipeline.read_text()


def short(data):
    return hashlib.sha256(data).hexdigest()[:24]


def header_of(batch, with_fingerprint):
    """The header of a saved batch, as docs/formats/batch.md describes it, without its checksum."""
    data = bytearray(batch.read_bytes())
    if not with_fingerprint:
        data[32:64] = bytes(32)
    return data[:struct.unpack_from("<Q", data, 16)[0] - 8]


def digests_of(data, pipeline):
    """The digests of payloads and header."""
    options = [pipeline, *data.options(pipeline)]
    # Each command starts processes of the plugin, so one epoch has to do.
    epochs = EPOCHS[1:] if uses_plugin(pipeline) else EPOCHS
    lines = [data.c.run("digest", *options, "--epoch", epoch, "--world-size", RANKS)
             for epoch in epochs]
    saved = data.c.folder / "first.batch"
    data.c.run("batch", *options, "--out", saved)
    # The fingerprint of a plugin has the versions of Python and numpy.
    header = header_of(saved, with_fingerprint=not uses_plugin(pipeline))
    return [short("".join(lines).encode()), short(header)]


def recorded():
    """What was recorded: of `dataset NAME` one digest, of `pipeline NAME` two."""
    lines = [line.split() for line in RECORDED.read_text().splitlines() if line[:1] != "#"]
    return {f"{kind} {name}": digests for kind, name, *digests in lines}


def found_now(chosen):
    """The same, as it is now."""
    with cluster(None) as c:
        data = Data(c)
        found = {f"pipeline {pipeline.stem}": digests_of(data, pipeline) for pipeline in chosen}
        return {**{f"dataset {name}": [digest] for name, digest in data.digests().items()}, **found}


def record(names):
    chosen = [FOLDER / f"{name}.yaml" for name in names] or pipelines("")
    known = recorded() if names else {}
    known.update(found_now(chosen))
    lines = [" ".join([name, *digests]) for name, digests in sorted(known.items())]
    RECORDED.write_text(HEADING + "\n".join(lines) + "\n")


def compare(*groups):
    """Compares the pipelines whose names begin so, and their datasets, with what was recorded."""
    known = recorded()
    wrong = []
    for name, got in found_now(pipelines(*groups)).items():
        parts = ["payloads", "header"] if name.startswith("pipeline") else ["content"]
        expected = known.get(name, ["nothing"] * len(parts))
        wrong += [f"  {name}: {part}: expected {before}, got {now}"
                  for part, before, now in zip(parts, expected, got) if before != now]
    check(not wrong, "not as recorded:\n" + "\n".join(wrong) + "\n" + ADVICE)


def test_payloads_of_proofs_are_as_recorded():
    compare("proofs-")


def test_payloads_of_graphs_are_as_recorded():
    compare("graph-")


def test_payloads_in_every_order_are_as_recorded():
    compare("order-")


def test_payloads_of_records_and_of_computed_tensors_are_as_recorded():
    compare("records-", "tensors-")


def test_payloads_of_tokens_are_as_recorded():
    compare("tokens-")


def test_payloads_of_mixes_are_as_recorded():
    compare("mix-")


def test_payloads_of_plugins_are_as_recorded():
    compare("plugin-")


def place(line):
    return [int(n) for n in re.match(r'{"epoch":(\d+),.*?"ordinal":(\d+),', line).groups()]


def test_payloads_from_a_cache_are_as_recorded():
    known = recorded()
    chosen = [p for p in pipelines("proofs", "graph", "records") if "\ncache:" in p.read_text()]
    with cluster(None) as c:
        data = Data(c)
        options = [option for pipeline in chosen for option in data.options(pipeline)]
        c.dataset = data.folder_of("boards")
        c.serve(*options, "--cache-dir", c.folder / "examples")
        for pipeline in chosen:
            c.pipeline = pipeline
            consumer = c.consumer(RANKS, epochs=len(EPOCHS), job=pipeline.stem)
            consumer.expect_success()
            lines = sorted(consumer.log.read_text().splitlines(keepends=True), key=place)
            got, expected = short("".join(lines).encode()), known[f"pipeline {pipeline.stem}"][0]
            check(got == expected, f"{pipeline.stem}: expected {expected}, got {got} while it was "
                  "served. Does the test of its payloads alone pass?")


# --- whether all is covered ---


def keys_of(text):
    """What `inspect` says of stages or operations: each section with its keys, and with the values
    of a key that are not its default, if it has a choice."""
    for section in text.strip().split("\n\n"):
        name = re.match(r"[\w.]+", section)[0]
        keys = {}
        for key, values in re.findall(r"^  ([\w.]+): .*\n      (.*)$", section, re.M):
            default = re.search(r"; default (\w+)", values)
            words = re.match(r"(?:one of )?(\w+(?:(?:, | or )\w+)+)(?:;|$)", values)
            choices = re.split(", | or ", words[1]) if words else []
            keys[key] = [word for word in choices if not default or word != default[1]]
        yield name, keys


def needed(c):
    """All keys, choices and operations, written as used() writes them."""
    for _, keys in keys_of(c.run("inspect", "--stages")):
        for key, choices in keys.items():
            yield key
            yield from (f"{key}={choice}" for choice in choices)
    for name, keys in keys_of(c.run("inspect", "--operations")):
        name = {"after": "any"}.get(name, name)
        yield name
        for key, choices in keys.items():
            yield f"{name}.{key}"
            yield from (f"{name}.{key}={choice}" for choice in choices)


def used(c, pipeline):
    """The keys that a pipeline sets, from its canonical text; cache is in none."""
    out = c.run("inspect", pipeline)
    for key, value in re.findall(r"^  (?:branches\.\w+\.)?([\w.]+)=(.*)$", out, re.M):
        first = re.match(r"\{(\w+)", value)
        if key.startswith("tensors."):
            names = ["any", first[1]]
        elif key.startswith("pad."):
            names = ["any", "pad.graph" if key == "pad.graph" else "pad"]
        else:
            yield from (key, f"{key}={value}")
            continue
        for name in names:
            yield name
            for inner, said in re.findall(r"(\w+): \"?([\w.-]*)", value):
                yield from (f"{name}.{inner}", f"{name}.{inner}={said}")
    for level in re.findall(r"\bcache: {examples: (\w+)}", pipeline.read_text()):
        yield from ("cache.examples", f"cache.examples={level}")


def test_every_key_choice_and_operation_is_in_a_recorded_pipeline():
    with cluster(None) as c:
        found = {word for pipeline in pipelines("") for word in used(c, pipeline)}
        missing = [word for word in needed(c) if word not in found]
    check(not missing, f"no pipeline of {FOLDER} has {', '.join(missing)}: write one, or add them "
          "to one that there is, and record it as the first lines of this test say")
    unknown = {f"pipeline {p.stem}" for p in pipelines("")} ^ {
        name for name in recorded() if name.startswith("pipeline")}
    check(not unknown, f"these have only a file, or only a line of {RECORDED}: {sorted(unknown)}")


if __name__ == "__main__":
    if sys.argv[1:2] != ["--record"]:
        sys.exit("usage: test_recorded_digests.py --record [NAME...]")
    record(sys.argv[2:])
