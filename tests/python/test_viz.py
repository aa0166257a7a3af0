"""Drawings: each node and base edge once, names escaped."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from conftest import pipeline, run

import millrace
from millrace._core import graph_svg

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


def test_a_cluster_has_a_root_for_each_definition(dataset):
    session = millrace.reference({"millrace": 1, "dataset": "data", "source": "definitions",
                                  "batch": {"size": 64}}, dataset)
    _, batch = next(iter(session.next_epoch()))
    counts = batch["num_definitions"].tolist()
    row = counts.index(max(counts))
    names = session.vocabulary["node_label_names"]
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
    svg = graph_svg('a<b>&"', ["<x>", "y" * 40], [True, False], [False, True], [(0, 1, "&e"),
                                                                               (1, 1, "self")])
    tree = ElementTree.fromstring(svg)
    assert tree.find(f"{SVG}title").text == 'a<b>&"'
    titles = [title.text for title in tree.iter(f"{SVG}title")]
    assert "0: <x>" in titles and f"1: {'y' * 40}" in titles and "0 → 1: &e" in titles
    with pytest.raises(ValueError):
        graph_svg("", ["a"], [True], [False], [(0, 1, "e")])
