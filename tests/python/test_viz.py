"""Drawings: each node and base edge once, names escaped."""

import re
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


def test_the_tool_draws_the_same(dataset, tmp_path):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    import json
    (tmp_path / "p.yaml").write_text(json.dumps(pipeline()))
    run("batch", tmp_path / "p.yaml", "--dataset", f"data={dataset}", "--example",
        batch.example_ids[2], "--svg", tmp_path / "x.svg")
    strip = re.compile(r"(?<=edges)|\s+$")
    assert strip.sub("", (tmp_path / "x.svg").read_text()) == strip.sub(
        "", millrace.viz.graph(batch, 2, session))


def test_names_are_escaped():
    svg = graph_svg('a<b>&"', ["<x>", "y" * 40], [True, False], [False, True], [(0, 1, "&e"),
                                                                               (1, 1, "self")])
    tree = ElementTree.fromstring(svg)
    assert tree.find(f"{SVG}title").text == 'a<b>&"'
    titles = [title.text for title in tree.iter(f"{SVG}title")]
    assert "0: <x>" in titles and f"1: {'y' * 40}" in titles and "0 → 1: &e" in titles
    with pytest.raises(ValueError):
        graph_svg("", ["a"], [True], [False], [(0, 1, "e")])
