"""igraph: `neighborhood` of each proof state's root along outgoing edges, then the induced subgraph
with its edges.

Less than Millrace: no size limit, no order of search, edges not grouped by label, nothing packed,
no contexts, arguments or tactics.
"""

import random

import igraph
import numpy as np

import csr
import measure


def main():
    parsed = measure.options()
    arrays = csr.load(parsed.csr)
    offsets = arrays["offsets"]
    sources = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    graph = igraph.Graph(n=len(offsets) - 1, directed=True,
                         edges=np.stack([sources, arrays["targets"]], 1))
    graph.es["label"] = arrays["edge_labels"].tolist()
    node_labels = arrays["node_labels"]
    hops = int(arrays["depth"])
    roots = arrays["roots"].tolist()
    meter = measure.Meter(parsed.seconds)
    order = random.Random(parsed.seed)
    while True:
        order.shuffle(roots)
        for root in roots:
            nodes = graph.neighborhood(root, order=hops, mode="out")
            part = graph.induced_subgraph(nodes, implementation="create_from_scratch")
            meter.touch(node_labels[nodes], np.array(part.get_edgelist(), np.int32),
                        np.array(part.es["label"], np.int32))
            if not meter.take():
                measure.emit("examples", meter.rate(), "examples/s", checksum=meter.checksum(),
                             **measure.versions("igraph", "numpy"))
                return


if __name__ == "__main__":
    main()
