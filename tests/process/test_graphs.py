"""Graph datasets through the command line, and while they are served from memory."""

import json
import os
import re
import subprocess

from harness import binary, check, check_same, cluster, wait_for
from test_streams import DATA
from test_tools import drop_from_cache

PIPELINE = """millrace: 1
dataset: data
source: {roots: train}
closure: {max_subgraph_size: 64}
features: [x]
targets: [y]
shuffle: {seed: 7}
batch: {size: 8, remainder: keep}
"""


def millrace(*arguments, program="cli"):
    return subprocess.run([binary(program), *map(str, arguments)], capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL)


def graph(c, *options):
    """Generates a graph dataset, which the cluster's pipeline is over."""
    c.dataset = c.folder / "graph"
    c.run("generate", "--kind", "graph", "--model", "rmat", c.dataset, "--nodes", 5000, "--edges", 40000,
          "--classes", 4, *options)
    c.pipeline.write_text(PIPELINE)
    return c.dataset


def files(folder):
    """The paths of the files of all arrays, beside which there is graph.json."""
    arrays = json.loads((folder / "graph.json").read_text())["arrays"]
    return {array["path"] for array in arrays.values()}


def write(file, at, value):
    with open(file, "r+b") as f:
        f.seek(at)
        f.write(bytes([value]))


def state(c):
    """Of the one dataset that is served; empty before the dispatcher knows it."""
    states = list(c.status()["datasets"].values())
    check(len(states) <= 1, str(states))
    return states[0] if states else {}


def test_arrays_of_a_graph_are_warmed_wherever_they_lie():
    with cluster(DATA) as c:
        folder = graph(c)
        # A raw file elsewhere, named by its absolute path.
        features = c.folder / "features.raw"
        os.rename(folder / "node_feature" / "x.npy", features)
        text = (folder / "graph.json").read_text()
        (folder / "graph.json").write_text(text.replace("node_feature/x.npy", str(features)))
        c.run("verify", folder)
        read = [features, folder / "indices.npy"]
        others = folder / "node_feature" / "y.npy"
        for file in [*read, others]:
            drop_from_cache(file)
        done = millrace("warm", folder, "--arrays", "indices,node_feature/x")
        check(done.returncode == 0, done.stderr)
        total = sum(file.stat().st_size for file in read)
        check("files            2\n" in done.stdout, done.stdout)
        check(f"cached now       {total} (100.0 %)" in done.stdout, done.stdout)
        check("100 %" in done.stderr, f"no progress: {done.stderr}")
        before = int(re.search(r"cached before    (\d+)", done.stdout).group(1))
        if before < total:  # a file system in memory has nothing to drop
            check(f"read             {total} in" in done.stdout, done.stdout)
        out = c.run("warm", folder)
        cached = int(re.search(r"cached before    (\d+)", out).group(1))
        check(f"files            {len(files(folder)) + 1}\n" in out, out)
        check(cached >= total, f"what was warmed is gone: {out}")
        if before < total:
            check(f"read             {others.stat().st_size} in" in out, out)
        done = millrace("warm", folder, "--arrays", "indices,node_feature/z")
        check(done.returncode == 2 and "has no array 'node_feature/z': expected one of " in done.stderr,
              f"{done.returncode} {done.stderr}")
        done = millrace("warm", DATA, "--arrays", "indices")
        check(done.returncode == 2 and "is of kind coq, which has no arrays" in done.stderr,
              f"{done.returncode} {done.stderr}")


def test_a_graph_is_served_from_memory_whatever_becomes_of_its_files():
    with cluster(DATA) as c:
        folder = graph(c)
        expected = c.reference(0, 1)
        daemon = c.serve("--in-memory", "data")
        wait_for(lambda: state(c).get("in_memory_bytes"), "not in memory", daemon.popen)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        size -= (folder / ".millrace.verified").stat().st_size if (folder / ".millrace.verified").exists() else 0
        check(size <= int(state(c)["in_memory_bytes"]) < size + 10 * 4096, f"{size}: {state(c)}")
        check(" GB in memory" in c.run("status", "--address", c.address), "not in the table")
        check(re.search(r"dataset is in memory dataset=data bytes=\d+ in_huge_pages=\d+", daemon.text()),
              daemon.text())
        values = (folder / "node_feature" / "x.npy").read_bytes()
        for at in range(128, len(values), 4096):
            write(folder / "node_feature" / "x.npy", at, values[at] ^ 255)
        os.truncate(folder / "indices.npy", 100)
        consumer = c.consumer(1)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), expected, "from memory")
        check(not state(c).get("error"), f"the files matter: {state(c)}")
        os.remove(folder / "indices.npy")


def test_a_graph_that_differs_from_its_digests_is_not_served_from_memory():
    with cluster(DATA) as c:
        folder = graph(c)
        write(folder / "node_feature" / "x.npy", 500, 77)
        verified = millrace("verify", folder)
        check(verified.returncode == 3, verified.stderr)
        daemon = c.serve("--in-memory", "data")
        wait_for(lambda: state(c).get("error"), "no error", daemon.popen)
        told = [line for line in verified.stderr.splitlines() if not line.startswith("verifying ")]
        check(len(told) >= 2, verified.stderr)
        for line in told:
            check(line.removeprefix("millrace: ") in state(c)["error"], f"{line} is not in {state(c)}")


def test_only_graphs_that_there_are_can_be_in_memory():
    with cluster(DATA) as c:
        folder = graph(c)
        for options, message in (
                (["--dataset", f"data={folder}", "--in-memory", "data,other"],
                 "option in_memory: no dataset has the id 'other'"),
                (["--dataset", f"coq={DATA}", "--in-memory", "coq"],
                 "option in_memory: dataset 'coq' is of kind coq: expected a graph dataset")):
            done = millrace("serve", "--listen", "127.0.0.1:0", "--batch-listen", "127.0.0.1:0", "--state",
                            c.folder / "no", *options, program="daemon")
            check(done.returncode == 2 and message in done.stderr, f"{done.returncode} {done.stderr}")
        config = c.folder / "config.yaml"
        config.write_text(json.dumps({"datasets": {"data": str(folder)}, "in_memory": "data"}))
        done = millrace("serve", "--config", config, "--print-config", program="daemon")
        check(re.search(r"in_memory: .?data", done.stdout), done.stdout + done.stderr)
