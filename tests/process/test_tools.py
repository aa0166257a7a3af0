"""The offline commands compared with each other and with an independent reader, and wrong
arguments."""

import json
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile

from harness import PIPELINE, Skipped, binary, check, cluster
from test_streams import DATA

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))


def run(*arguments):
    done = subprocess.run([binary("cli"), *map(str, arguments)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def order_options(rng, world_size):
    """A random form of order."""
    remainder = rng.choice(["keep", "drop"])
    form = rng.choice(["plain", "global", "blocks", "buckets", "balance"])
    if form == "global" and 120 % world_size == 0:
        return ["--set", "batch={size: null, global_size: 120, remainder: keep}"]
    if form == "buckets":
        return ["--set", "batch={size: null, bucket: {by: nodes, count: 4, budget: 400, "
                f"together: {rng.choice([1, world_size])}}}, remainder: keep}}"]
    return {"blocks": ["--set", "shuffle.block=20", "--set", "shuffle.window=3"],
            "balance": ["--set", "balance={by: nodes, group: 6}"]}.get(form, []) + [
        "--set", f"batch.size={rng.choice([1, 7, 16, 100])}", "--set", f"batch.remainder={remainder}"]


def plan_options(rng):
    """A random plan, world size, epoch and start."""
    world_size = rng.choice([1, 2, 3, 5, 8])
    options = order_options(rng, world_size)
    if "shuffle.block=20" not in options:
        options += rng.choice([[], ["--set", "shuffle=null"]])
    options += rng.choice([[], ["--set", "source=definitions"]])
    options += rng.choice([[], ["--set", "closure.max_subgraph_size=1"]])  # cuts off contexts
    start = rng.choice([0, 0, 1, 7])  # no epoch of batches is shorter
    return world_size, options, rng.choice([0, 1, 5, 2**40]), ["--from", start] if start else []


def test_where_and_batch_say_what_digest_says():
    rng = random.Random(11)
    compared = 0
    with cluster(DATA) as c:
        for _ in range(20):
            world_size, options, epoch, start = plan_options(rng)
            plan = [c.pipeline, "--dataset", f"data={DATA}", *options, "--world-size", world_size]
            what = f"{options} W={world_size} epoch={epoch} {start}"
            code, out, err = run("digest", *plan, "--epoch", epoch, *start)
            check(code == 0, f"{what}: {err}")
            lines = [json.loads(line) for line in out.splitlines()]
            for line in rng.sample(lines, min(3, len(lines))):
                code, out, err = run("batch", *plan, "--epoch", epoch, "--step", line["step"],
                                     "--rank", line["rank"], *start)
                check(code == 0, f"{what}: {err}")
                check(re.search(r"hash (\w+)", out).group(1) == line["hash"], f"{what}: {out}")
                rows = [row.split() for row in out.splitlines()[1:-1]]
                check([int(r[1]) for r in rows if r[0] != "-"] == line["examples"], f"{what}: {out}")
                check([int(r[1]) for r in rows if r[0] == "-"] == [d[0] for d in line["dropped"]],
                      f"{what}: {out}")
                here = [(e, str(row), "") for row, e in enumerate(line["examples"])]
                here += [(e, "-", reason) for e, reason in line["dropped"]]
                for example, row, reason in rng.sample(here, min(2, len(here))):
                    code, out, err = run("where", *plan, "--epochs", epoch, "--example", example,
                                         *start)
                    check(code == 0, f"{what}: {err}")
                    got = out.splitlines()[-1].split()
                    check(got[:4] == [str(epoch), str(line["step"]), str(line["rank"]), row] and
                          reason in out, f"{what}: example {example} is at {line}, where says {out}")
                    compared += 1
    check(compared > 30, f"only {compared} compared")


def test_a_log_of_chunks_has_each_chunk_of_an_example_once():
    chunks = "fields: {{text: true}}\nchunk: {{tensor: state_text, size: 40, step: 30}}\n"
    with cluster(DATA, pipeline=PIPELINE + chunks) as c:
        c.dispatcher()
        c.worker()
        c.worker()
        consumer = c.consumer(world_size=2, epochs=2)
        consumer.expect_success()
        options = [c.pipeline, "--dataset", f"data={DATA}", "--world-size", 2, "--epochs", 2, "--log"]
        code, out, err = run("check-log", *options, consumer.log)
        check(code == 0 and "each once an epoch" in out, f"{out}\n{err}")
        # Examples come as often as they have chunks.
        lines = [json.loads(line) for line in consumer.log.read_text().splitlines()]
        delivered = [example for line in lines if line["epoch"] == 0 for example in line["examples"]]
        check(len(delivered) > 1.5 * len(set(delivered)), f"{len(delivered)} of {len(set(delivered))}")


# --- a reader of saved batches, written from docs/formats/batch.md alone ---

FORMATS = "BHIQbhiq?eHfd"  # of bfloat16 the bits


def read_batch(path):
    data = path.read_bytes()
    check(data[:8] == b"MILLBTCH", "magic")
    version, tensors, header, payload = struct.unpack_from("<IIQQ", data, 8)
    check(version == 2 and len(data) == header + payload + 32, "sizes")
    behind = struct.unpack_from("<8sII", data, header + payload)
    check(behind == (b"MILLFILE", 1, 0), f"behind the batch: {behind}")
    graphs, dropped, labels = struct.unpack_from("<III", data, 84)
    losses = data[99]
    offset = 104
    ids = struct.unpack_from(f"<{graphs}Q", data, offset)
    offset += 8 * graphs + 16 * (dropped + losses)
    found = []
    for _ in range(tensors):
        kind, dtype, _, inner = data[offset:offset + 4]
        record, splits, _, low, high, at, size = struct.unpack_from("<IIIqQQQ", data, offset + 4)
        name_at = offset + 56 + 8 * inner
        path_name = data[name_at + 1:name_at + 1 + data[name_at]].decode()
        form = FORMATS[dtype]
        values = struct.unpack_from(f"<{size // struct.calcsize(form)}{form}", data, header + at)
        check(dtype > 7 or all(low <= v <= high for v in values), f"{path_name}: out of its bounds")
        found.append({"kind": kind, "path": path_name, "splits": splits, "values": values})
        offset += record
    return {"ids": ids, "labels": labels, "symmetrization": data[96], "self": data[97],
            "tensors": found}


def example_of(batch, row):
    """One example of a batch, with edges completed as the page describes for bidirectional."""
    values = {}
    for tensor in batch["tensors"]:
        if tensor["splits"] == 0xFFFFFFFF:
            values[tensor["path"]] = list(tensor["values"][row:row + 1])
        else:
            splits = batch["tensors"][tensor["splits"]]["values"]
            values[tensor["path"]] = list(tensor["values"][splits[row]:splits[row + 1]])
    check(batch["symmetrization"] == 2 and batch["self"] == 1, "the pipeline's default edges")
    source, target, label = (values[f"edge_{x}"] for x in ("source", "target", "label"))
    nodes = list(range(len(values["node_label"])))
    values["edge_source"] = source + target + nodes
    values["edge_target"] = target + source + nodes
    values["edge_label"] = (label + [x + batch["labels"] for x in label] +
                            [2 * batch["labels"]] * len(nodes))
    return values


def test_a_saved_batch_is_read_from_its_page_alone():
    with cluster(DATA) as c:
        data = [c.pipeline, "--dataset", f"data={DATA}"]
        code, out, err = run("digest", *data, "--full", 1000000)
        check(code == 0, err)
        full = {(line["kind"], line["id"]): line.get("full")
                for line in map(json.loads, out.splitlines()[1:])}
        compared = 0
        for source, kind in (("proof_states", "proof_state"), ("definitions", "definition")):
            saved = c.folder / f"{source}.batch"
            code, out, err = run("batch", *data, "--set", f"source={source}", "--set",
                                 "batch.size=64", "--set", "fields.global_context=full", "--epoch",
                                 3, "--out", saved)
            check(code == 0, err)
            batch = read_batch(saved)
            for row, example in enumerate(batch["ids"]):
                values = example_of(batch, row)
                for name, expected in full[kind, example].items():
                    if isinstance(expected, list) and name in values:
                        check(values[name] == expected, f"{kind} {example}: {name} differs")
                        compared += 1
        check(compared > 500, f"only {compared} arrays compared")


# --- wrong arguments ---


def test_slips_on_the_command_line_are_told_in_one_message_with_exit_code_2():
    with cluster(DATA) as c:
        plan = [c.pipeline, "--dataset", f"data={DATA}"]
        precious = c.folder / "precious.txt"
        precious.write_text("not an index")
        (c.folder / "link").symlink_to(precious)
        slips = [
            (["where", *plan, "--example", "999999"], "has 1500 examples"),
            (["where", *plan, "--example", "1", "--epochs", "7:2"], "--epochs 7:2"),
            (["where", *plan, "--example", "1", "--epochs", "18446744073709551615"], "--epochs"),
            (["where", *plan, "--example", "1", "--from", "99999"], "99999"),
            (["where", *plan, "--example", "-1"], "got '-1'"),
            (["digest", *plan, "--epoch", "0x10"], "got '0x10'"),
            (["digest", *plan, "--epoch", "-1"], "got '-1'"),
            (["digest", *plan, "--epoch", "0", "--from", "99999"], "99999"),
            (["digest", *plan, "--epoch", "2", "--from", "5:3"], "lies in epoch 5"),
            (["digest", *plan, "--world-size", "3"], "--epoch"),
            (["batch", *plan, "--step", "99999"], "has the steps 0 to 187"),
            (["batch", *plan, "--epoch", "2", "--from", "5:3"], "lies in epoch 5"),
            (["batch", *plan, "--rank", "1"], "--rank 1"),
            (["batch", *plan, "--example", "3", "--step", "2"], "--step"),
            (["batch", *plan, "--example", "99999"], "has 1500 examples"),
            (["batch", *plan, "--out", c.folder], "no regular file"),
            (["batch", *plan, "--out", c.folder / "link"], "no regular file"),
            (["batch", *plan, "--out", c.folder / "none" / "x"], "none/x"),
            (["inspect", *plan, "--world-size", "0"], "got '0'"),
            (["inspect", *plan, "--set", "batch={size: null, global_size: 7}", "--world-size", "2"], "7"),
            (["inspect", c.folder / "none.yaml"], "none.yaml"),
            (["inspect", c.pipeline, "--sample", "3"], "--dataset"),
            (["index", DATA, "--index", precious], "no index"),
            (["index", DATA, "--index", c.folder / "x.bin"], "*.bin"),
            (["index", DATA, "--index", c.folder], "no index"),
            (["index", ""], "no folder ''"),
            (["generate", c.folder / "g", "--nodes", "-3"], "got '-3'"),
            (["generate", c.folder / "g", "--nodes", "10", "--files", "11"], "as many files as nodes"),
            (["digest", DATA, "--dataset", f"data={DATA}"], "folder"),
            (["digest", "/dev/zero", "--dataset", f"data={DATA}"], "1048576 bytes"),
            (["digest", *plan, "--dataset", f"data={DATA}"], "given before"),
            (["consume", c.pipeline, "--priority", "0"], "got '0'"),
            (["consume", c.pipeline, "--priority", "1001"], "got '1001'"),
            (["bogus"], "bogus"),
        ]
        for arguments, words in slips:
            code, out, err = run(*arguments)
            shown = " ".join(map(str, arguments))
            check(code == 2, f"millrace {shown}: exit code {code}, expected 2\n{out[-300:]}{err}")
            check(words in err, f"millrace {shown}: '{words}' is not in: {err}")
        check(precious.read_text() == "not an index", "the file in the way is as it was")


def test_examples_have_one_digest_whatever_a_pipeline_makes_of_them():
    with cluster(DATA) as c:
        data = [c.pipeline, "--dataset", f"data={DATA}"]
        own = ["--set", "tensors.hot={one_hot: faithful, depth: 2}", "--set", "output=[hot]"]
        plain, computed = run("digest", *data), run("digest", *data, *own)
        check(computed[0] == 0, computed[2])
        check(computed[1].splitlines()[1:] == plain[1].splitlines()[1:], "the examples are the same")


def test_zeros_in_front_of_a_number_are_decimal():
    with cluster(DATA) as c:
        plan = [c.pipeline, "--dataset", f"data={DATA}"]
        check(run("digest", *plan, "--epoch", "010")[:2] ==
              run("digest", *plan, "--epoch", "10")[:2], "epoch 010 is epoch 10")


def test_output_that_cannot_be_written_is_a_failure():
    with cluster(DATA) as c:
        plan = [c.pipeline, "--dataset", f"data={DATA}"]
        for arguments in (["where", *plan, "--example", 1], ["batch", *plan], ["inspect", *plan],
                          ["inspect", "--stages"], ["inspect", DATA], ["digest", *plan],
                          ["size", *plan, "--gpus", 1, "--step-ms", 9, "--seconds", 0]):
            with open("/dev/full", "wb") as full:
                done = subprocess.run([binary("cli"), *map(str, arguments)], stdout=full,
                                      stderr=subprocess.PIPE, text=True,
                                      check=False)
            check(done.returncode == 1, f"{arguments}: exit code {done.returncode}")
            check("No space left" in done.stderr or "stdout" in done.stderr, done.stderr)


def test_inspect_tells_what_a_dataset_and_a_plan_hold():
    with cluster(DATA) as c:
        code, out, err = run("inspect", DATA)
        check(code == 0, err)
        for words in ("files", "nodes", "edges", "definitions", "proof states", "tactics"):
            check(words in out, f"'{words}' is not in:\n{out}")
        code, out, err = run("inspect", c.pipeline, "--dataset", f"data={DATA}", "--world-size", 2,
                             "--sample", 0)
        check(code == 0, err)
        for words in ("fingerprint", "unused keys", "steps          94 an epoch", "dropped",
                      "largest", "bytes"):
            check(words in out, f"'{words}' is not in:\n{out}")


def test_every_report_about_a_dataset_says_its_kind():
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
        for kind, source in (("coq", "proof_states"), ("graph", "{roots: train}")):
            data = pathlib.Path(folder) / kind
            code, _, err = run("generate", data, "--kind", kind, "--nodes", "2000")
            check(code == 0, err)
            for command in ("index", "inspect", "verify", "warm"):
                code, out, err = run(command, data)
                check(code == 0 and out.splitlines()[0].split() == ["kind", kind],
                      f"{command}: {out}\n{err}")
                check(out.count("kind  ") == 1, f"{command}: {out}")
            pipeline = pathlib.Path(folder) / f"{kind}.yaml"
            pipeline.write_text(f"millrace: 1\ndataset: d\nsource: {source}\nbatch: {{size: 4}}\n")
            code, out, err = run("inspect", pipeline, "--dataset", f"d={data}")
            check(code == 0 and f"\nkind           {kind}\n" in out, f"inspect: {out}\n{err}")
            code, out, err = run("where", pipeline, "--dataset", f"d={data}", "--example", 1)
            check(code == 0 and out.splitlines()[0].endswith(f", of dataset d ({kind})"),
                  f"where: {out}\n{err}")


def test_indexing_again_reads_what_has_changed_and_says_how_much():
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
        data = pathlib.Path(folder) / "data"
        index = ["index", data, "--index", pathlib.Path(folder) / "index"]
        code, _, err = run("generate", data, "--nodes", "20000", "--files", "6", "--seed", "5")
        check(code == 0, err)
        code, out, err = run(*index)
        check(code == 0 and "indexed          6 of 6 files anew, 0 unchanged" in out, f"{out}\n{err}")
        removed = 0
        for file in sorted(data.rglob("*.bin")):
            kept = file.read_bytes()
            file.unlink()
            code, out, err = run(*index)
            if code == 0:  # no other file depends on it
                removed += 1
                check("indexed          0 of 5 files anew, 5 unchanged" in out, f"{out}\n{err}")
            file.write_bytes(kept)
            if code == 0:
                code, out, err = run(*index)
                check(code == 0 and "indexed          1 of 6 files anew, 5 unchanged" in out, f"{out}\n{err}")
        check(removed > 0, "no file could be removed")


def test_a_graph_is_made_up_by_the_model_that_is_named():
    with tempfile.TemporaryDirectory() as folder:
        def digest(name, *options):
            code, out, err = run("generate", "--kind", "graph", f"{folder}/{name}", *options)
            check(code == 0, f"{options}: {err}")
            code, out, err = run("inspect", f"{folder}/{name}")
            check(code == 0, f"{options}: {err}")
            return re.search(r"digest +(\w+)", out).group(1), out
        usual, _ = digest("usual", "--nodes", 1000)
        check(digest("told", "--nodes", 1000, "--model", "power-law")[0] == usual, "another default")
        rmat, out = digest("rmat", "--model", "rmat", "--nodes", 1000, "--edges", 5000, "--rows",
                           "target", "--features", 128, "--classes", 4)
        check(rmat != usual, "both models gave the same graph")
        for part in ("edges            5000", "rows             target", "float32 [1000, 128]",
                     "node_feature/y", "roots/test"):
            check(part in out, f"no '{part}' in {out}")
        for options, message in (
                (["--model", "other"], "--model: expected one of power-law, rmat, got 'other'"),
                (["--model", "rmat", "--graphs", 3], "--graphs: model rmat has no such option"),
                (["--edges", 3], "--edges: model power-law has no such option")):
            code, out, err = run("generate", "--kind", "graph", f"{folder}/no", *options)
            check(code != 0 and message in err, f"{options}: {code} {err}")


def drop_from_cache(file):
    fd = os.open(file, os.O_RDONLY)
    try:
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(fd)


def test_warm_reads_what_is_not_in_the_page_cache_and_says_how_much():
    with tempfile.TemporaryDirectory(prefix="millrace-test-", dir=pathlib.Path(DATA).parent) as folder:
        data = pathlib.Path(folder) / "data"
        code, _, err = run("generate", data, "--nodes", "20000", "--files", "3", "--seed", "5")
        check(code == 0, err)
        files = sorted(data.rglob("*.bin"))
        total = sum(f.stat().st_size for f in files)
        code, out, err = run("warm", data)
        check(code == 0 and f"bytes            {total}\n" in out, f"{out}\n{err}")
        check(f"cached now       {total} (100.0 %)" in out and "too small" not in out, f"{out}\n{err}")
        check("100 %" in err, f"no progress: {err}")
        code, out, err = run("warm", data)
        check(code == 0 and "read             0 in" in out, f"a warm file was read again: {out}\n{err}")
        drop_from_cache(files[0])
        code, out, err = run("warm", data, "--threads", "1")
        check(code == 0 and f"cached now       {total} (100.0 %)" in out, f"{out}\n{err}")
        before = int(re.search(r"cached before    (\d+)", out).group(1))
        if before < total:  # a file system in memory has nothing to drop
            check(f"read             {files[0].stat().st_size} in" in out, f"{out}\n{err}")


def test_warm_names_a_folder_that_is_none_and_files_that_cannot_be_read():
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
        code, out, err = run("warm", pathlib.Path(folder) / "nothing")
        check(code != 0 and "nothing" in err and not out, f"{code}: {out}\n{err}")
        data = pathlib.Path(folder) / "data"
        code, _, err = run("generate", data, "--nodes", "20000", "--files", "3", "--seed", "5")
        check(code == 0, err)
        (data / "empty.bin").touch()
        code, out, err = run("warm", data)
        check(code == 3 and "empty.bin" in err, f"{code}: {out}\n{err}")


def test_the_page_lists_the_tensors_that_batches_have():
    page = (ROOT / "docs/formats/batch.md").read_text()
    page = page[page.index("## Tensors"):page.index("## Checks")]
    listed = {}
    for row in re.findall(r"^\| (`.*) \|$", page, re.M):
        paths, kind, dimension, source = row.split(" | ")[:4]
        for path in re.findall(r"`(\w+)`", paths):
            listed[path] = (kind, dimension, source)
    with cluster(DATA) as c:
        for source in ("proof_states", "definitions"):
            code, out, err = run("inspect", c.pipeline, "--dataset", f"data={DATA}", "--set",
                                 f"source={source}", "--set", "fields.text=true")
            check(code == 0, err)
            table = out[out.index("\ntensor "):].strip().splitlines()[1:]
            found = {}
            for line in table:
                path, kind, dimension = re.match(r"(\w+) +(\w+) +(.*?)  ", line).groups()
                found[path] = (kind, dimension)
            expected = {path: (kind, dimension) for path, (kind, dimension, of) in listed.items()
                        if of in ("both", source)}
            check(found == expected, f"{source}: batches have {found}, the page lists {expected}")


# --- quickstart ---


def test_quickstart_proves_that_every_example_came_once():
    if pathlib.Path(os.environ["MILLRACE_BUILD_DIR"]) != ROOT / "build" / "release":
        raise Skipped("quickstart builds the release preset")
    done = subprocess.run([ROOT / "deploy" / "quickstart", str(DATA)], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False, cwd="/")
    check(done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])
    check("ok: " in done.stdout and "3000 examples delivered, each once an epoch" in done.stdout,
          done.stdout[-1000:])


def test_quickstart_does_the_same_for_a_graph_dataset():
    if pathlib.Path(os.environ["MILLRACE_BUILD_DIR"]) != ROOT / "build" / "release":
        raise Skipped("quickstart builds the release preset")
    with cluster(None) as c:
        graph = c.folder / "graph"
        c.run("generate", graph, "--kind", "graph", "--nodes", 700)
        done = subprocess.run([ROOT / "deploy" / "quickstart", "--graph", str(graph)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=False, cwd="/")
    check(done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])
    check("1400 examples delivered, each once an epoch" in done.stdout, done.stdout[-1000:])


def test_quickstart_packs_the_documents_of_a_folder_of_tokens():
    if pathlib.Path(os.environ["MILLRACE_BUILD_DIR"]) != ROOT / "build" / "release":
        raise Skipped("quickstart builds the release preset")
    with cluster(None) as c:
        for form in ("pairs", "raw"):  # of raw files `inspect` says which type they have
            texts = c.folder / form
            c.run("generate", texts, "--kind", "tokens", "--documents", 300, "--format", form)
            done = subprocess.run([ROOT / "deploy" / "quickstart", "--tokens", str(texts)],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=False, cwd="/")
            check(done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:])
            rows = re.search(r"(\d+) examples delivered, each once an epoch", done.stdout)
            check(rows and 100 < int(rows[1]) < 300, done.stdout[-1000:])
