"""Exports a dataset as arrays for rivals that cannot read it. Run with a Python that has the package.

    export.py records DATASET FILE.npz      the features of each record
    export.py closures DATASET FILE.npz     the closure of each example as a graph of its own, in
                                            the form that rivals/csr.py makes

A rival reads the first CLOSURES of them, each a graph of its own: less memory than the whole graph,
which is to its advantage.
"""

import itertools
import sys

import millrace
import numpy as np

from loads import CLOSURE

CLOSURES = 8000


def examples(pipeline, dataset):
    session = millrace.reference(pipeline, dataset)
    for _, batch in session.next_epoch():
        for row in range(batch.num_examples):
            yield {name: np.array(value) for name, value in batch.row(row).items()}


def records(dataset):
    pipeline = {"millrace": 1, "dataset": "data",
                "source": {"records": {"d": "bytes[194]", "s": "int64"}},
                "batch": {"size": 512, "remainder": "keep"}}
    rows = list(examples(pipeline, dataset))
    return {name: np.stack([row[name] for row in rows]) for name in ("d", "s")}


def closures(dataset):
    pipeline = {**CLOSURE, "dataset": "data", "batch": {"size": 64, "remainder": "keep"}}
    graphs = list(itertools.islice(examples(pipeline, dataset), CLOSURES))
    nodes = [len(graph["node_label"]) for graph in graphs]
    begins = np.concatenate([[0], np.cumsum(nodes)])
    sources = np.concatenate([g["edge_source"] + b for g, b in zip(graphs, begins)]).astype(np.int64)
    targets = np.concatenate([g["edge_target"] + b for g, b in zip(graphs, begins)]).astype(np.int64)
    labels = np.concatenate([graph["edge_label"] for graph in graphs]) if "edge_label" in graphs[0] \
        else np.zeros(len(sources))
    order = np.argsort(sources, kind="stable")
    return {"roots": begins[:-1].astype(np.int64),
            "offsets": np.searchsorted(sources[order], np.arange(begins[-1] + 1)).astype(np.int64),
            "targets": targets[order], "edge_labels": labels[order].astype(np.int64),
            "node_labels": np.concatenate([g["node_label"] for g in graphs]).astype(np.int64)}


if __name__ == "__main__":
    np.savez(sys.argv[3], **{"records": records, "closures": closures}[sys.argv[1]](sys.argv[2]))
