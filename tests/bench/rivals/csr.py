"""The dataset as flat arrays, for rivals that cannot read Coq data: the form that a user of a
general loader would export once.

    csr.py --data DIR --csr FILE.npz      (in the reference loader's environment)

The arrays have all nodes that proof states reach, numbered in the order in which they are met. The
edges out of node x are targets[offsets[x]:offsets[x + 1]], with their labels in edge_labels.
Definitions have no edges out, because closures stop there. A plain reachability search therefore
finds the nodes of a closure, if the closure is below the size limit. `depth` is the longest
distance from a root to a node that it reaches.
"""

import collections

import numpy as np


def export(data, out):
    from reference import make_server  # the module exists only in the reference's environment

    server = make_server(data)
    stop = server._definition_label
    number, order, roots = {}, [], []
    children = []

    def add(node):
        if node not in number:
            number[node] = len(order)
            order.append(node)
        return number[node]

    for step, _, _ in server._proof_steps:
        roots.append(add(step.before.root))
    at = 0
    while at < len(order):
        node = order[at]
        at += 1
        edges = []
        if int(node.label.which) != stop:
            edges = [(server._edge_labels[label], add(child)) for label, child in node.children
                     if label not in server._edges_to_ignore]
        children.append(edges)
    offsets = np.zeros(len(order) + 1, np.int64)
    np.cumsum([len(e) for e in children], out=offsets[1:])
    flat = [edge for edges in children for edge in edges]
    np.savez(out, roots=np.array(roots, np.int64), offsets=offsets,
             targets=np.array([t for _, t in flat], np.int64),
             edge_labels=np.array([l for l, _ in flat], np.int64),
             node_labels=np.array([server._get_node_label_index(n) for n in order], np.int64),
             depth=_depth(children, roots))


def _depth(children, roots):
    """Largest distance from a root to any node that it reaches."""
    deepest = 0
    for root in set(roots):
        seen = {root: 0}
        queue = collections.deque([root])
        while queue:
            x = queue.popleft()
            for _, y in children[x]:
                if y not in seen:
                    seen[y] = seen[x] + 1
                    queue.append(y)
        deepest = max(deepest, max(seen.values()))
    return deepest


def load(path):
    with np.load(path) as file:
        return {name: file[name] for name in file.files}


if __name__ == "__main__":
    import measure
    parsed = measure.options()
    export(parsed.data, parsed.csr)
