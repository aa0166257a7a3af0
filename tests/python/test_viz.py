"""Drawings: each node and base edge once, names escaped."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import pipeline, run

import millrace
from millrace._core import example_svg

SVG = "{http://www.w3.org/2000/svg}"


def test_a_drawing_has_every_node_and_base_edge(dataset):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    drawing = millrace.viz.graph(batch, 2, session)
    tree = ElementTree.fromstring(drawing)
    splits = batch["node_splits"].numpy()
    assert len(tree.findall(f".//{SVG}circle")) == splits[3] - splits[2]
    labels = batch["edge_label"].numpy()
    cut = batch["edge_splits"].numpy()
    base = (labels[cut[2]:cut[3]] < session.spec.base_edge_labels).sum()
    assert len(tree.findall(f"{SVG}path")) == base
    assert drawing._repr_svg_() == drawing
    with pytest.raises(IndexError):
        millrace.viz.graph(batch, batch.num_graphs, session)


def test_a_drawing_needs_names_and_a_spec(dataset):
    session = millrace.reference(pipeline(), dataset)
    batch = session.batch_at(0, 0)
    for given in ({}, {"spec": session.spec}, {"tables": session.tables}):
        with pytest.raises(millrace.ConfigError, match="give the session that the batch is of"):
            millrace.viz.graph(batch, 0, **given)
    assert millrace.viz.graph(batch, 0, spec=session.spec, tables=session.tables)


class OnGpu:
    """A batch whose tensors lie where only torch can fetch them."""

    def __init__(self, batch):
        self.batch = batch

    def __getattr__(self, name):
        return getattr(self.batch, name)

    def __contains__(self, path):
        return path in self.batch

    def __getitem__(self, path):
        array = self.batch[path].numpy()

        class Tensor:
            device = "cuda:0"

            def torch(self):
                return self

            def cpu(self):
                return self

            def numpy(self):
                return array

            def __buffer__(self, flags):
                raise BufferError("lies in memory of cuda:0")

        return Tensor()


def test_what_lies_on_a_gpu_is_drawn_and_explained(connect):
    session = connect()
    _, batch = next(iter(session.next_epoch()))
    assert millrace.viz.graph(OnGpu(batch), 2, session) == millrace.viz.graph(batch, 2, session)
    assert session.provenance(OnGpu(batch), 2) == session.provenance(batch, 2)


def test_a_cluster_has_a_root_for_each_definition(dataset):
    session = millrace.reference({"millrace": 1, "dataset": "data", "source": "definitions",
                                  "batch": {"size": 64}}, dataset)
    _, batch = next(iter(session.next_epoch()))
    counts = batch["num_definitions"].tolist()
    row = counts.index(max(counts))
    names = session.tables["node_labels"]["name"]
    labels = batch["node_label"].numpy()[batch["node_splits"].numpy()[row]:][:counts[row]]

    def roots(of):
        tree = ElementTree.fromstring(millrace.viz.graph(batch, of, session))
        return [group.find(f"{SVG}title").text for group in tree.iter(f"{SVG}g")
                if group.find(f"{SVG}circle").get("stroke-width") == "3"]

    drawn = roots(row)
    assert drawn == [f"{i}: {names[label]}" for i, label in enumerate(labels)]
    assert len(roots(counts.index(min(counts)))) == min(counts)


def test_the_tool_draws_the_same(dataset, tmp_path):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline()))
    run("batch", tmp_path / "p.yaml", "--dataset", f"data={dataset}", "--example",
        batch.example_ids[2], "--svg", tmp_path / "x.svg")
    assert (tmp_path / "x.svg").read_text() == millrace.viz.graph(batch, 2, session)


def test_names_are_escaped():
    svg = example_svg(7, [0, 1, 2], [True, False, False], [(0, 1, 0), (1, 1, 1)],
                      ["<x>", "y" * 40], ["&e", "self"], 1)
    tree = ElementTree.fromstring(svg)
    assert tree.find(f"{SVG}title").text == "example 7: 3 nodes, 2 edges"
    titles = [title.text for title in tree.iter(f"{SVG}title")]
    assert "0: <x>" in titles and f"1: {'y' * 40}" in titles and "0 → 1: &e" in titles
    assert "2: ?" in titles  # a label that has no name
    with pytest.raises(ValueError):
        example_svg(7, [0], [True], [(0, 1, 0)], ["a"], ["e"], 1)
    with pytest.raises(ValueError):
        example_svg(7, [0, 0], [True], [], ["a"], ["e"], 1)
