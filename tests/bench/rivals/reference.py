"""The reference loader, graph2tac's DataServer: one proof state after another, in Python.

`--export tfdata` measures its tf.data export instead: GraphTensors of the same examples, one by
one.

The loader does more than Millrace's closure benchmark: it adds reversed edges and self edges, and
each example carries its whole global context. It also does less: nothing is packed into batches.
"""

import pathlib
import random

import measure


def make_server(data):
    from graph2tac.loader.data_classes import BIDIRECTIONAL, DataConfig, DatasetConfig
    from graph2tac.loader.data_server import DataServer
    graphs = DataConfig(bfs_option=True, max_subgraph_size=1024, stop_at_definitions=True,
                        symmetrization=BIDIRECTIONAL, add_self_edges=True)
    config = DatasetConfig(data_config=graphs, split_method="disabled", split={},
                           restrict_to_spine=False, exclude_none_arguments=False,
                           exclude_not_faithful=False, required_tactic_occurrence=1,
                           shuffle_random_seed=random.randrange(1 << 30))
    return DataServer(pathlib.Path(data), config)


def alone(server, meter):
    """Reads epoch after epoch, shuffled, as its own trainer does without TensorFlow."""
    while True:
        for state, action, _ in server.data_train(shuffled=True):
            graph = state.graph
            meter.touch(graph.nodes, graph.edges, graph.edge_labels, state.context.local_context,
                        state.context.global_context, action.local_args, action.global_args)
            if not meter.take():
                return


def through_tfdata(server, meter):
    while True:
        for graph in server.proofstates_tfgnn(0, True):
            edges = graph.edge_sets["edge"]
            context = graph.context.features
            meter.touch(graph.node_sets["node"]["node_label"].numpy(), edges["edge_label"].numpy(),
                        edges.adjacency.source.numpy(), edges.adjacency.target.numpy(),
                        context["local_context_ids"].flat_values.numpy(),
                        context["global_context_ids"].flat_values.numpy(),
                        context["local_arguments"].flat_values.numpy(),
                        context["global_arguments"].flat_values.numpy(), context["tactic"].numpy())
            if not meter.take():
                return


def main():
    parsed = measure.options(export="none")
    random.seed(parsed.seed)
    server = make_server(parsed.data)
    meter = measure.Meter(parsed.seconds, one_core=True)
    (through_tfdata if parsed.export == "tfdata" else alone)(server, meter)
    measure.emit("examples", meter.rate(), "examples/s", checksum=meter.checksum(),
                 **measure.versions("graph2tac", "pytactician", "tensorflow", "numpy"))


if __name__ == "__main__":
    main()
