"""The origin of examples of Coq datasets, found from a batch and its tables."""

import bisect
import itertools

from ._host import values


def origin(batch, row, spec, tables):
    """Definition and file of an example; nothing for other kinds of datasets, or if the batch has
    neither the definition nor the nodes."""
    files, classes = spec.tables.get("files"), spec.tables.get("node_classes")
    if files is None or classes is None:
        return {}
    if "definition" in batch:
        label = values(batch["definition"])[row]
    elif spec.node_splits is None or not spec.node_values:
        return {}
    else:  # a cluster's first definition is its first node
        first = values(batch[spec.node_splits])[row]
        label = values(batch[spec.node_values[0]])[first]
    # Labels are numbered file by file, after the classes.
    ends = list(itertools.accumulate(tables["files"]["labels"]))
    file = bisect.bisect_right(ends, label - classes.rows)
    told = {"definition": tables["node_labels"]["name"][label], "file": tables["files"]["name"][file]}
    if "proof_step" in batch:
        told["step_of_proof"] = values(batch["proof_step"])[row]
    return told
