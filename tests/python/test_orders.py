"""Orders whose units are batches, and measured columns: what the loop gets, and what specs say."""

import numpy
import pytest

import millrace

NODES = 400
BUCKETS = "batch: {bucket: {by: nodes, count: 4, budget: 600}, remainder: keep}"
BALANCE = "batch: {size: 16, remainder: keep}\nbalance: {by: nodes, group: 25}"
BLOCKS = "batch: {size: 16, remainder: keep}\nshuffle.block: 25"


def pipeline(order):
    shuffle = "" if "shuffle." in order else "shuffle: {seed: 1}\n"
    return f"millrace: 1\ndataset: g\nsource: {{roots: all}}\nclosure: {{max_subgraph_size: 60}}\n{shuffle}{order}\n"


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Node i leads to i + 1, up to the next multiple of 50: closures have 1 to 50 nodes."""
    folder = tmp_path_factory.mktemp("orders") / "g"
    source = numpy.array([i for i in range(NODES - 1) if (i + 1) % 50])
    millrace.write_graph(folder, edge_index=numpy.stack([source, source + 1]), num_nodes=NODES)
    return folder


def nodes_of(batch):
    return numpy.diff(batch["node_splits"].numpy()).tolist()


@pytest.mark.parametrize("order", [BUCKETS, BALANCE, BLOCKS])
def test_every_example_comes_once_and_the_daemon_has_the_references_batches(graph, order):
    session = millrace.reference(pipeline(order), graph, validate=True)
    for _ in range(2):
        epoch = session.next_epoch()
        steps = len(epoch)
        batches = [batch for _, batch in epoch]
        assert len(batches) == steps == session.spec.steps_per_epoch
        assert sorted(i for batch in batches for i in batch.example_ids) == list(range(NODES))
    expected = [b.digest for _, b in millrace.reference(pipeline(order), graph).next_epoch()]
    with millrace.local({"g": graph}, pipeline(order), packed=True) as served:
        assert [batch.digest for _, batch in served.next_epoch()] == expected


def test_batches_of_buckets_keep_the_budget(graph):
    session = millrace.reference(pipeline(BUCKETS), graph)
    spec = session.spec
    assert spec.unit == "batch" and spec.examples_per_epoch == NODES
    assert spec.units_per_epoch == spec.steps_per_epoch and spec.stride == 1
    sizes = []
    for step, batch in session.next_epoch():
        nodes = nodes_of(batch)
        assert max(nodes) * len(nodes) <= 600
        assert batch.first_example == batch.step == step
        sizes.append(len(nodes))
    assert max(sizes) == spec.batch_size == spec.global_batch_size


def test_balanced_batches_have_about_as_many_nodes(graph):
    def spread(order):
        session = millrace.reference(pipeline(order), graph)
        sums = [sum(nodes_of(batch)) for _, batch in session.next_epoch()]
        return max(sums) - min(sums)

    plain = BALANCE.split("\n")[0]
    assert spread(BALANCE) * 4 < spread(plain)
    spec = millrace.reference(pipeline(plain), graph).spec
    assert spec.unit == "example" and spec.units_per_epoch == NODES and spec.stride == 16


@pytest.mark.parametrize("order", [BUCKETS, BALANCE])
def test_a_cursor_goes_on_with_another_world_size(graph, order):
    session = millrace.reference(pipeline(order), graph)
    seen = []
    for step, batch in session.next_epoch():
        seen += batch.example_ids
        if step == 4:
            break
    cursor = session.cursor
    for rank in range(3):
        rest = millrace.reference(pipeline(order), graph, cursor=cursor, rank=rank, world_size=3)
        for _, batch in rest.next_epoch():
            seen += batch.example_ids
    assert sorted(seen) == list(range(NODES))


def test_any_step_can_be_asked_for(graph):
    session = millrace.reference(pipeline(BUCKETS), graph)
    batches = [batch.digest for _, batch in session.next_epoch()]
    assert session.batch_at(0, 7).digest == batches[7]
    assert session.provenance(session.batch_at(0, 7), 0)["step"] == 7
