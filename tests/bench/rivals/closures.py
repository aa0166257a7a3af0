"""Forward closures as a user of a general loader would write them: Python over arrays, with a
dictionary of visited nodes, edges grouped by label, and batches concatenated in numpy.

csr.py makes the graph; every process that computes closures has it in memory.
"""

import collections

import numpy as np

import csr

MAX_NODES = 1024


class Closures:
    """A map-style dataset: index -> closure of one proof state. Pickles as the path of its file."""

    def __init__(self, path):
        self._path = path
        arrays = csr.load(path)
        self.roots = arrays["roots"].tolist()
        offsets = arrays["offsets"].tolist()
        targets = arrays["targets"].tolist()
        labels = arrays["edge_labels"].tolist()
        self._children = [list(zip(labels[b:e], targets[b:e]))
                          for b, e in zip(offsets, offsets[1:])]
        self._node_labels = arrays["node_labels"]

    def __reduce__(self):
        return Closures, (self._path,)

    def __len__(self):
        return len(self.roots)

    def __getitem__(self, index):
        root = self.roots[index]
        nodes = [root]
        number = {root: 0}
        queue = collections.deque([root])
        edges = []
        while queue:
            x = queue.popleft()
            xi = number[x]
            for label, y in self._children[x]:
                yi = number.get(y)
                if yi is None:
                    if len(nodes) == MAX_NODES:
                        continue
                    yi = number[y] = len(nodes)
                    nodes.append(y)
                    queue.append(y)
                edges.append((xi, yi, label))
        edges = np.array(edges, np.int32).reshape(-1, 3)
        edges = edges[np.argsort(edges[:, 2], kind="stable")]
        return {"node_label": self._node_labels[nodes].astype(np.int32),
                "edge_source": edges[:, 0], "edge_target": edges[:, 1], "edge_label": edges[:, 2],
                "index": index}


def collate(examples):
    """Merges examples into one graph, with splits between them."""
    nodes = [e["node_label"] for e in examples]
    node_splits = np.zeros(len(examples) + 1, np.int32)
    np.cumsum([len(n) for n in nodes], out=node_splits[1:])
    edge_splits = np.zeros(len(examples) + 1, np.int32)
    np.cumsum([len(e["edge_label"]) for e in examples], out=edge_splits[1:])
    return {"node_label": np.concatenate(nodes),
            "edge_source": np.concatenate(
                [e["edge_source"] + o for e, o in zip(examples, node_splits)]),
            "edge_target": np.concatenate(
                [e["edge_target"] + o for e, o in zip(examples, node_splits)]),
            "edge_label": np.concatenate([e["edge_label"] for e in examples]),
            "node_splits": node_splits, "edge_splits": edge_splits,
            "index": np.array([e["index"] for e in examples], np.int32)}
