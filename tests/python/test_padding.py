"""Batches of graphs that `pad.graph` pads: what the loop gets, and what tools say."""

import json

import numpy
import pytest
from conftest import pipeline, run

import millrace

SIZES = {"nodes": 1100, "edges": 9000, "graphs": 20}
PAD = {"pad": {"graph": SIZES}}
COMPUTED = {
    "tensors": {
        "label": {"cast": "node_label", "dtype": "float32"},
        "hot": {"one_hot": "faithful", "depth": 2, "at": "consumer"},
        "first": {"slice": "global_args", "range": [0, 1], "at": "consumer"},
    },
    "output": ["label", "hot", "first", "local_args", "edge_source", "node_label", "root"],
}
MASKS = ["edge_mask", "graph_mask", "node_mask"]


def rows_of(tensor):
    """How many rows a padded tensor has; None: batches differ."""
    if tensor.kind == "splits":
        return SIZES["graphs"] + 1
    return {"": SIZES["graphs"], "node_splits": SIZES["nodes"],
            "edge_splits": SIZES["edges"]}.get(tensor.splits)


def check(batch, plain, spec):
    """Whether a padded batch has what the same one without padding has, and masks that say so."""
    assert list(batch) == [tensor.path for tensor in spec.tensors]
    assert batch.example_ids == plain.example_ids and batch.num_graphs == plain.num_graphs
    for tensor in spec.tensors:
        array = batch[tensor.path].numpy()
        assert tensor.rows == rows_of(tensor)
        assert tensor.rows in (None, len(array))
        if tensor.path not in MASKS:
            own = plain[tensor.path].numpy()
            assert array.dtype == own.dtype and (array[:len(own)] == own).all()
    for mask, own in (("node_mask", plain["node_label"]), ("edge_mask", plain["edge_source"]),
                      ("graph_mask", plain.example_ids)):
        array = batch[mask].numpy()
        assert array.dtype == bool
        assert array.sum() == len(own) and array[:len(own)].all()


@pytest.mark.parametrize("lines", [{}, COMPUTED])
@pytest.mark.parametrize("micro", [1, 3])
def test_every_batch_has_one_shape(connect, dataset, lines, micro):
    for session in (connect(pipeline(**lines, **PAD), validate=True, micro=micro),
                    millrace.reference(pipeline(**lines, **PAD), dataset, validate=True, micro=micro)):
        assert session.spec.graph_pad == (1100, 9000, 20)
        assert session.spec.masks == tuple(MASKS)
        plain = millrace.reference(pipeline(**lines), dataset, micro=micro)
        assert plain.spec.graph_pad is None and plain.spec.masks == ()
        for (_, batch), (_, whole) in zip(session.next_epoch(), plain.next_epoch(), strict=True):
            for part, own in zip(*([b] if micro == 1 else b for b in (batch, whole)), strict=True):
                check(part, own, session.spec)


def test_rows_of_a_padded_batch_are_its_examples_and_then_padding(dataset):
    session = millrace.reference(pipeline(**PAD), dataset)
    _, batch = next(iter(session.next_epoch()))
    _, plain = next(iter(millrace.reference(pipeline(), dataset).next_epoch()))
    for i in range(batch.num_graphs):
        row, own = batch.row(i), plain.row(i)
        assert list(row) == [*own, *MASKS]
        assert all((row[path] == own[path]).all() for path in own)
        assert row["node_mask"].all() and row["edge_mask"].all() and row["graph_mask"]
    empty, last = batch.row(batch.num_graphs), batch.row(SIZES["graphs"] - 1)
    assert len(empty["node_label"]) == len(empty["edge_source"]) == len(empty["local_args"]) == 0
    assert not last["graph_mask"] and not last["node_mask"].any()
    assert len(last["node_label"]) == SIZES["nodes"] - len(plain["node_label"])
    assert (last["edge_source"] == 0).all() and (last["edge_target"] == 0).all()
    assert last["root"] == 0 and len(last["local_context"]) == 0
    with pytest.raises(IndexError, match="row 20: the batch has 16 examples, and 4 rows of padding"):
        batch.row(SIZES["graphs"])


def test_a_batch_that_does_not_fit_is_a_data_error_with_its_size(connect):
    session = connect(pipeline(pad={"graph": {**SIZES, "graphs": 16}}))
    with pytest.raises(millrace.DataError, match="pad.graph: the batch of epoch 0 from place 0 on "
                       "does not fit: .* and there is room for 1099 nodes, 9000 edges and 15 graphs"):
        next(iter(session.next_epoch()))


def test_a_mistake_in_it_has_its_place(dataset):
    text = json.dumps(pipeline())[1:-1]
    with pytest.raises(millrace.ConfigError, match="2:7: the key pad.graph.edges is missing"):
        millrace.reference("{" + text + ",\npad: {graph: {nodes: 3, graphs: 4}}}", dataset)


def test_torch_has_its_shapes(dataset):
    torch = pytest.importorskip("torch")
    session = millrace.reference(pipeline(**PAD), dataset)
    for _, batch in session.next_epoch():
        tensors = millrace.torch.tensors(batch)
        assert tensors["edge_source"].shape == (9000,) and tensors["node_mask"].dtype == torch.bool
        degrees = torch.zeros(1100, dtype=torch.int32)
        degrees.index_add_(0, tensors["edge_target"], tensors["edge_mask"].int())
        assert int(degrees.sum()) == int(tensors["edge_mask"].sum())
        assert not degrees[~tensors["node_mask"]].any()
        assert len(millrace.torch.nested(batch, "node_label").unbind()) == 20


def test_tools_show_it(dataset, tmp_path):
    path = tmp_path / "p.yaml"
    path.write_text(json.dumps(pipeline(**PAD)))
    plan = run("inspect", path, "--dataset", f"data={dataset}", "--plan")
    assert "pad.graph      1100 nodes, 9000 edges and 20 graphs a batch; the edges, edge_mask" in plan
    assert "pad.graph" in run("inspect", path, "--dataset", f"data={dataset}", "--dot")
    assert "pad          graph: {edges: 9000, graphs: 20, nodes: 1100}" in run("inspect", path)
    _, batch = next(iter(millrace.reference(pipeline(**PAD), dataset).next_epoch()))
    own = [int(batch[mask].numpy().sum()) for mask in ("node_mask", "edge_mask", "graph_mask")]
    shown = run("batch", path, "--dataset", f"data={dataset}")
    assert (f"pad.graph: 1100 nodes, 9000 edges and 20 graphs are delivered; {own[0]}, {own[1]} and "
            f"{own[2]} of them are no padding") in shown
    path.write_text(json.dumps(pipeline(pad={"graph": {**SIZES, "nodes": 2}})))
    assert "does not fit: it has" in run("batch", path, "--dataset", f"data={dataset}")
    assert numpy.prod(batch["node_mask"].shape) == 1100
