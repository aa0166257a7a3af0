"""igraph's `neighborhood` of proof states' roots along outgoing edges, in three ways:

  nodes     the nodes alone, 512 roots a call: less than a closure, which has edges too
  induced   a root at a time, then the induced subgraph with its edges
  gathered  512 roots a call, then edges, labels and numbers within examples by vectorised numpy,
            as somebody who knows both libraries well would write it

This does less than Millrace: no size limit, edges not grouped by label, no contexts, arguments or
tactics; only `gathered` makes batches.
"""

import itertools
import random

import igraph
import numpy as np

import csr
import measure

BATCH = 512


class Neighborhoods:
    def __init__(self, arrays):
        self._offsets = arrays["offsets"]
        self._targets = arrays["targets"]
        self._edge_labels = arrays["edge_labels"]
        self._node_labels = arrays["node_labels"]
        self._hops = int(arrays["depth"])
        self._count = len(self._offsets) - 1
        sources = np.repeat(np.arange(self._count), np.diff(self._offsets))
        self._graph = igraph.Graph(n=self._count, directed=True,
                                   edges=np.stack([sources, self._targets], 1))
        self._graph.es["label"] = self._edge_labels.tolist()

    def _nodes(self, roots):
        return self._graph.neighborhood(roots, order=self._hops, mode="out")

    def nodes(self, roots):
        lists = self._nodes(roots)
        return (np.fromiter(itertools.chain.from_iterable(lists), np.int64),)

    def induced(self, roots):
        arrays = []
        for root in roots:
            nodes = self._nodes(root)
            part = self._graph.induced_subgraph(nodes)
            arrays += [self._node_labels[nodes], np.array(part.get_edgelist(), np.int32),
                       np.array(part.es["label"], np.int32)]
        return arrays

    def gathered(self, roots):
        lists = self._nodes(roots)
        nodes = np.fromiter(itertools.chain.from_iterable(lists), np.int64)
        sizes = np.fromiter(map(len, lists), np.int64, len(lists))
        example = np.repeat(np.arange(len(lists)), sizes)
        # A closure holds every node that its nodes point to, so all edges out of its nodes belong
        # to it.
        begin = self._offsets[nodes]
        degree = self._offsets[nodes + 1] - begin
        first = np.cumsum(degree) - degree
        edges = np.repeat(begin - first, degree) + np.arange(degree.sum())
        source = np.repeat(np.arange(len(nodes)), degree)
        # Finds the place of each target among the nodes of its example.
        keys = example * self._count + nodes
        order = np.argsort(keys)
        wanted = example[source] * self._count + self._targets[edges]
        target = order[np.searchsorted(keys[order], wanted)]
        return (self._node_labels[nodes], source, target, self._edge_labels[edges], sizes)


def main():
    parsed = measure.options(kind="induced")
    arrays = csr.load(parsed.csr)
    make = getattr(Neighborhoods(arrays), parsed.kind)
    roots = arrays["roots"].tolist()
    batch = BATCH if parsed.kind != "induced" else 16  # small enough that the clock is read often
    meter = measure.Meter(parsed.seconds, one_core=True)
    order = random.Random(parsed.seed)
    while True:
        order.shuffle(roots)
        for i in range(0, len(roots) - batch + 1, batch):
            meter.touch(*make(roots[i:i + batch]))
            if not meter.take(batch):
                measure.emit("examples", meter.rate(), "examples/s", checksum=meter.checksum(),
                             **measure.versions("igraph", "numpy"))
                return


if __name__ == "__main__":
    main()
