"""Neighbourhoods: the recorded cases of shared/golden-graphs, and what follows from how they are drawn."""

import json

import numpy
import pytest
from conftest import SHARED

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
