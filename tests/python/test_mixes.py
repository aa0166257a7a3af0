"""Mixes of several datasets: what the loop gets, and what specs and status say."""

import collections
import subprocess

import numpy
import pytest

import millrace
from millrace import _binaries

MIX = """
millrace: 1
branches:
  long:  {dataset: l, source: {roots: all}, shuffle: {seed: 1}}
  short: {dataset: s, source: {roots: all}, shuffle: {seed: 1}}
mix: {weights: {long: 2, short: 1}, epoch: {of: long}}
targets: [y]
batch: {size: 16, remainder: keep}
"""
LONG, SHORT = 300, 40


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Rings of 300 and of 40 nodes; the target of node i is 2 i as int32, and 3 i as int16."""
    folder = tmp_path_factory.mktemp("mixes")
    found = {}
    for name, nodes, target in (("l", LONG, numpy.int32(2)), ("s", SHORT, numpy.int16(3))):
        source = numpy.arange(nodes)
        y = (source * target).astype(target.dtype)
        millrace.write_graph(folder / name, edge_index=numpy.stack([source, (source + 1) % nodes]),
                             num_nodes=nodes, node_features={"y": y})
        found[name] = folder / name
    return found


def rows(batches):
    for batch in batches:
        yield from zip(batch["branch"].numpy().tolist(), batch["example_id"].numpy().tolist(),
                       batch["target/y"].numpy().tolist())


def test_an_epoch_has_all_of_one_branch_and_a_share_of_the_other(folders):
    session = millrace.reference(MIX, folders, validate=True)
    passes = collections.Counter()
    for _ in range(4):
        of_long = []
        for branch, example, target in rows(batch for _, batch in session.next_epoch()):
            assert target == example * (3 if branch else 2)
            if branch:
                passes[example] += 1
            else:
                of_long.append(example)
        assert sorted(of_long) == list(range(LONG))
    assert len(passes) == SHORT and max(passes.values()) - min(passes.values()) <= 1


def test_specs_say_what_is_mixed(folders):
    session = millrace.reference(MIX, folders)
    long, short = session.spec.branches
    assert (long.name, long.dataset, long.weight) == ("long", "l", 2)
    assert (long.examples, long.rows_per_epoch, long.first_example) == (LONG, LONG, 0)
    assert (short.examples, short.first_example, short.source_examples) == (SHORT, LONG, SHORT)
    assert abs(short.rows_per_epoch - LONG / 2) <= 1
    assert session.spec.source == "roots" and session.spec["target/y"].dtype == "int32"
    assert session.spec["branch"].table == "branches"
    assert session.tables["branches"]["name"] == ["long", "short"]
    _, batch = next(iter(session.next_epoch()))
    row = batch["branch"].numpy().tolist().index(1)
    told = session.provenance(batch, row)
    assert told["branch"] == "short"
    assert told["example_of_branch"] == batch["example_id"].numpy()[row]
    assert told["example"] == LONG + told["example_of_branch"]


def test_the_daemon_has_the_references_batches_and_a_cursor_fits_any_world_size(folders):
    expected = [batch.digest for _, batch in millrace.reference(MIX, folders).next_epoch()]
    with millrace.local(folders, MIX, packed=True) as served:
        assert [batch.digest for _, batch in served.next_epoch()] == expected
    session = millrace.reference(MIX, folders)
    seen = []
    for step, batch in session.next_epoch():
        seen += batch.example_ids
        if step == 9:
            break
    rest = []
    for rank in range(3):
        part = millrace.reference(MIX, folders, cursor=session.cursor, rank=rank, world_size=3)
        for _, batch in part.next_epoch():
            rest += batch.example_ids
    whole = millrace.reference(MIX, folders).next_epoch()
    assert sorted(seen + rest) == sorted(i for _, batch in whole for i in batch.example_ids)
    assert millrace.reference(MIX, folders).batch_at(0, 5).digest == expected[5]


def test_a_folder_that_is_missing_is_named(folders):
    with pytest.raises(millrace.ConfigError, match="draws from dataset 's'"):
        millrace.reference(MIX, {"l": folders["l"]})


def tool(*arguments):
    return subprocess.run([_binaries.path("millrace"), *map(str, arguments)], capture_output=True,
                          text=True, check=False)


def test_the_tools_know_branches(folders, tmp_path):
    pipeline = tmp_path / "mix.yaml"
    pipeline.write_text(MIX)
    given = [f"--dataset={name}={folder}" for name, folder in folders.items()]
    told = tool("inspect", pipeline, *given)
    assert told.returncode == 0, told.stderr
    assert "datasets       l, s" in told.stdout and "branches       2" in told.stdout
    found = tool("where", pipeline, *given, "--branch", "short", "--example", "3")
    assert "example 303: node 3, branch short, its 3" in found.stdout
    assert "of dataset s (graph)" in found.stdout
    lost = tool("where", pipeline, *given, "--branch", "shrot", "--example", "3")
    assert lost.returncode != 0 and "--branch shrot: expected one of long, short" in lost.stderr
    beyond = tool("batch", pipeline, *given, "--branch", "short", "--example", "40")
    assert "--example 40: branch short has 40 examples, from 0 on" in beyond.stderr
    digests = tool("digest", pipeline, *given, "--epoch", "1", "--world-size", "2")
    assert digests.returncode == 0 and digests.stdout.count("\n") == 2 * 15


def test_replicas_parts_and_variants_of_a_mix(folders):
    variant = MIX + 'variants:\n  even: {mix.weights: {long: 1, short: 1}}\n'
    whole = [list(b.example_ids) for _, b in millrace.reference(variant, folders).next_epoch()]
    with millrace.LocalServer(folders) as server:
        replicas = [millrace.connect(server, pipeline=variant, job="replicas", replica=replica,
                                     packed=True) for replica in range(2)]
        first, second = [[b.digest for _, b in replica.next_epoch()] for replica in replicas]
        assert first == second and len(first) == len(whole)
        with millrace.connect(server, pipeline=variant, job="parts", micro=3) as parts:
            joined = [sum((list(part.example_ids) for part in micro), [])
                      for _, micro in parts.next_epoch()]
        assert joined == whole
        with millrace.connect(server, pipeline=variant, variant="even", job="even") as even:
            long, short = even.spec.branches
            assert abs(long.rows_per_epoch - short.rows_per_epoch) <= 1
        for replica in replicas:
            replica.close()
    with pytest.raises(millrace.JobError, match="another order"):
        millrace.reference(variant, folders, variant="even",
                           cursor=millrace.reference(variant, folders).cursor)
