"""Neighbourhoods: the recorded cases of shared/golden-graphs, and what follows from how they are drawn."""

import json

import numpy
import pytest
from conftest import SHARED, run

import millrace

GOLDEN = SHARED / "golden-graphs"
OUTPUT = ["node", "edge", "edge_source", "edge_target", "root", "hop_nodes", "hop_edges"]


def pipeline(roots, output=None, **closure):
    made = {"millrace": 1, "dataset": "g", "source": {"roots": roots}, "batch": {"size": 4},
            "closure": {"kind": "neighbors", **closure}}
    return made if output is None else {**made, "output": output}


def recorded():
    file = GOLDEN / "cases.json"
    return json.loads(file.read_text()) if file.is_file() else []


@pytest.mark.skipif(not recorded(), reason=f"the recorded graphs are not at {GOLDEN}")
@pytest.mark.parametrize("number", range(max(1, len(recorded()))))
def test_neighbourhoods_are_the_recorded_ones(number):
    case = recorded()[number]
    closure = {key: case[key] for key in ("fanout", "replace", "merge", "seed")}
    if case["max_subgraph_size"] is not None:
        closure["max_subgraph_size"] = case["max_subgraph_size"]
    labels = ["edge_label"] if "edge_label" in case else []
    session = millrace.reference(pipeline(case["roots"], OUTPUT + labels, **closure),
                                 GOLDEN / "graphs" / case["graph"], packed=True)
    batch = session.batch_of(case["examples"], epoch=case["epoch"])
    for name in OUTPUT + labels + ["node_splits", "edge_splits"]:
        assert batch[name].numpy().tolist() == case[name], name
    assert batch.example_ids == case["examples"]
    assert batch.epoch == case["epoch"]


NODES = 600


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A graph whose first nodes have most edges, with a feature and a target that name the node."""
    folder = tmp_path_factory.mktemp("neighbors") / "g"
    chance = numpy.random.default_rng(3)
    ends = (NODES * chance.random((2, 9000)) ** 2).astype("int64")
    millrace.write_graph(
        folder, edge_index=ends, num_nodes=NODES, rows="target",
        edge_label=chance.integers(0, 3, 9000), edge_labels=["cites", "likes", "writes"],
        node_features={"x": numpy.arange(NODES, dtype="float32")[:, None] * [1, 2, 3]},
        edge_features={"w": numpy.arange(9000, dtype="int32")},
        roots={"train": chance.integers(0, NODES, 200), "few": [5, 5, 5]},
        targets={"train": {"y": numpy.arange(200)}})
    return folder


def training(**closure):
    return {**pipeline("train", fanout=[4, 3], **closure), "shuffle": {"seed": 1}, "features": ["x"],
            "targets": ["y"], "batch": {"size": 16, "remainder": "keep"}}


def everything(batch):
    return {name: tensor.numpy().tolist() for name, tensor in batch.items()}


@pytest.mark.parametrize("merge", [True, False])
def test_every_fleet_gives_the_bytes_of_the_reference(graph, tmp_path, merge):
    of = training(merge=merge)
    expected = [batch.digest for _, batch in millrace.reference(of, graph).next_epoch()]
    assert len(set(expected)) == 13
    for threads in (1, 3):
        with millrace.local({"g": graph}, of, threads=threads, packed=True) as session:
            assert [batch.digest for _, batch in session.next_epoch()] == expected


@pytest.mark.parametrize("merge", [True, False])
def test_ranks_share_an_epoch_and_a_resumed_one_goes_on_with_the_same_bytes(graph, merge):
    of = training(merge=merge)
    with millrace.LocalServer({"g": graph}) as server:
        def read(rank, until, cursor=None):
            with millrace.connect(server, pipeline=of, job=f"j{merge}{cursor}", rank=rank, world_size=2,
                                  packed=True, cursor=cursor) as session:
                digests = []
                for step, batch in session.next_epoch():
                    digests.append(batch.digest)
                    if step == until:
                        break
                return digests, session.cursor
        import concurrent.futures

        with concurrent.futures.ThreadPoolExecutor(2) as both:
            whole = [got for got, _ in both.map(lambda rank: read(rank, None), range(2))]
            begun = list(both.map(lambda rank: read(rank, 2), range(2)))
            cursor = begun[0][1]
            rest = [got for got, _ in both.map(lambda rank: read(rank, None, cursor), range(2))]
    for rank in range(2):
        assert begun[rank][0] + rest[rank] == whole[rank]


def test_a_merged_batch_has_every_node_once_with_its_rows(graph):
    batch = millrace.reference(training(), graph).batch_at(0, 3)
    nodes = batch["node"].numpy()
    assert len(set(nodes.tolist())) == len(nodes) == batch["node_splits"].tolist()[1]
    numpy.testing.assert_array_equal(batch["node_feature/x"].numpy(),
                                     nodes.astype("float32")[:, None] * [1, 2, 3])
    assert batch["root"].shape == (16,) and batch["target/y"].tolist() == batch.example_ids
    assert batch["hop_nodes"].numpy().sum() == len(nodes)
    assert batch["hop_edges"].numpy().sum() == len(batch["edge_source"].numpy())


def test_edges_are_those_of_the_dataset_in_their_direction(graph):
    of = {**training(), "edge_features": ["w"],
          "output": ["node", "edge", "edge_source", "edge_target", "edge_label", "edge_feature.w"]}
    batch = millrace.reference(of, graph).batch_at(2, 0)
    nodes, edge = batch["node"].numpy(), batch["edge"].numpy()
    indices, indptr = (numpy.load(graph / f"{name}.npy") for name in ("indices", "indptr"))
    numpy.testing.assert_array_equal(nodes[batch["edge_source"].numpy()], indices[edge])
    numpy.testing.assert_array_equal(nodes[batch["edge_target"].numpy()],
                                     numpy.searchsorted(indptr, edge, side="right") - 1)
    numpy.testing.assert_array_equal(batch["edge_feature/w"].numpy(),
                                     numpy.load(graph / "edge_feature" / "w.npy")[edge])
    numpy.testing.assert_array_equal(batch["edge_label"].numpy(),
                                     numpy.load(graph / "edge_label.npy")[edge])


def test_every_epoch_and_every_seed_draws_others(graph):
    def drawn(epoch, **closure):
        return everything(millrace.reference(training(**closure), graph).batch_of(range(8), epoch))

    assert drawn(0) == drawn(0)
    assert drawn(0)["node"] != drawn(1)["node"]
    assert drawn(0)["node"] != drawn(0, seed=1)["node"]
    assert drawn(0)["root"] == drawn(1)["root"]


def test_an_excluded_example_leaves_the_draws_of_the_others(graph):
    """The key is that of the first planned example, also if it is left out."""
    of = {**training(), "batch": {"size": 4}}
    ids = millrace.reference(of, graph).batch_at(0, 0).example_ids
    session = millrace.reference({**of, "exclude": {"examples": [ids[0]]}}, graph)
    batch = session.batch_at(0, 0)
    assert batch.example_ids == ids[1:] and batch.dropped == [(ids[0], "excluded")]
    everybody = millrace.reference({**of, "exclude": {"examples": ids}}, graph).batch_at(0, 0)
    assert everybody["node_splits"].tolist() == [0, 0] and everybody["node"].shape == (0,)
    assert everybody["hop_nodes"].tolist() == [[0, 0, 0]]


def test_batch_of_builds_examples_outside_the_order_as_the_order_does(graph):
    for merge in (True, False):
        session = millrace.reference(training(merge=merge), graph)
        ordered = session.batch_at(1, 4)
        built = session.batch_of(ordered.example_ids, epoch=1)
        assert everything(built) == everything(ordered)
    with millrace.local({"g": graph}, training()) as session:
        with pytest.raises(millrace.ConfigError, match="millrace.reference"):
            session.batch_of([0])


def test_packed_batches_have_numbers_within_their_graphs(graph):
    of = training(merge=False)
    packed = millrace.reference(of, graph, packed=True).batch_of([3, 4, 5])
    splits = packed["node_splits"].tolist()
    sizes = numpy.repeat(numpy.diff(splits), numpy.diff(packed["edge_splits"].numpy()))
    assert (packed["edge_source"].numpy() < sizes).all()
    assert packed["edge_source"].numpy().dtype == numpy.uint8
    delivered = millrace.reference(of, graph).batch_of([3, 4, 5])
    firsts = numpy.repeat(splits[:-1], numpy.diff(packed["edge_splits"].numpy()))
    numpy.testing.assert_array_equal(delivered["edge_source"].numpy(), packed["edge_source"].numpy() + firsts)


@pytest.mark.parametrize("keys, message", [
    ({"cache": {"examples": "memory"}}, "cache.examples: .*depends on more than"),
    ({"closure": {"kind": "neighbors"}}, "closure.*fanout"),
    ({"closure": {"kind": "neighbors", "fanout": [-2]}}, "closure.fanout: expected .*-1"),
    ({"closure": {"kind": "neighbors", "fanout": []}}, "closure.fanout: expected"),
    ({"closure": {"kind": "neighbors", "fanout": {"cite": [1]}}},
     "closure.fanout: the dataset has no edge label 'cite'; it has cites, likes, writes"),
    ({"closure": {"kind": "neighbors", "fanout": {"cites": [1], "likes": [1, 2]}}},
     "closure.fanout.likes: has 2 hops"),
    ({"closure": {"kind": "neighbors", "fanout": [2], "max_subgraph_size": 9}},
     "max_subgraph_size: expected merge: false"),
    ({"closure": {"kind": "neighbours", "fanout": [2]}}, "did you mean neighbors"),
    ({"batch": {"bucket": {"by": "nodes", "count": 3, "budget": 100}}}, "nodes"),
    ({"batch": {"size": 8}, "balance": {"by": "edges"}}, "edges"),
    ({"pad": {"graph": {"nodes": 900, "edges": 900, "graphs": 17}}}, "merge: false"),
])
def test_what_does_not_go_with_drawn_neighbours_is_refused_by_name(graph, keys, message):
    with pytest.raises(millrace.ConfigError, match=message):
        millrace.reference({**training(), **keys}, graph)


def test_a_merged_batch_cannot_be_cut(graph):
    with pytest.raises(millrace.ConfigError, match="micro=2: .*merge: false"):
        millrace.reference(training(), graph, micro=2)
    with pytest.raises(millrace.ConfigError, match="micro=2: .*merge: false"):
        millrace.local({"g": graph}, training(), micro=2)
    parts = millrace.reference(training(merge=False), graph, micro=2).batch_at(0, 0)
    assert [len(part.example_ids) for part in parts] == [8, 8]


def test_the_tool_builds_the_same_batch(graph, tmp_path):
    file = tmp_path / "p.json"
    file.write_text(json.dumps(training()))
    out = run("batch", file, "--dataset", f"g={graph}", "--examples", "4,0,2", "--epoch", 3,
              "--out", tmp_path / "batch")
    saved = millrace.load_batch(tmp_path / "batch")
    expected = millrace.reference(training(), graph).batch_of([4, 0, 2], epoch=3)
    assert everything(saved) == everything(expected) and saved.epoch == 3
    nodes, edges = len(expected["node"].numpy()), len(expected["edge_source"].numpy())
    assert f"3 examples in one graph of {nodes} nodes and {edges} edges" in out
