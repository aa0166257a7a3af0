"""Trains a graph network that predicts the tactic of a proof state, on one rank or several.

    python tactics.py --local DIR                              # a daemon of its own
    torchrun --nproc-per-node 2 tactics.py --address HOST:PORT --job tactics

With --checkpoint it writes a checkpoint every few steps. If it is started again, it goes on at the
step after the last checkpoint, with the same losses as if it had never stopped. It needs torch and
torch_geometric.
"""

import argparse
import json
import os

import torch
import torch.distributed
from torch_geometric.nn import GraphConv, global_mean_pool

import millrace
import millrace.pyg

PIPELINE = {
    "millrace": 1, "dataset": "data", "source": "proof_states", "shuffle": {"seed": 0},
    "closure": {"max_subgraph_size": 256}, "batch": {"size": 32, "remainder": "drop"},
}


class Tactics(torch.nn.Module):
    """Labels of nodes and edges to scores of tactics, by two rounds of messages and a mean."""

    def __init__(self, spec, width=32):
        super().__init__()
        self.nodes = torch.nn.Embedding(spec.tables["node_labels"].rows, width)
        self.edges = torch.nn.Embedding(spec.edge_labels, 1)
        self.first = GraphConv(width, width)
        self.second = GraphConv(width, width)
        self.scores = torch.nn.Linear(width, spec.tables["tactics"].rows)

    def forward(self, data):
        weight = torch.sigmoid(self.edges(data.edge_attr)).squeeze(1)
        x = self.nodes(data.x)
        x = torch.relu(self.first(x, data.edge_index, weight))
        x = torch.relu(self.second(x, data.edge_index, weight))
        return self.scores(global_mean_pool(x, data.batch, data.num_graphs))


def save(path, **parts):
    """Writes the file completely or not at all."""
    torch.save(parts, path + ".new")
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", help="of the dispatcher")
    parser.add_argument("--local", metavar="DIR", help="a dataset, for a daemon of its own")
    parser.add_argument("--job")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--checkpoint", help="file to go on from, and to write")
    parser.add_argument("--every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--losses", help="file that gets a line for each step")
    options = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    if (options.local is None) == (options.address is None):
        parser.error("give --address or --local")
    if options.local and ranks > 1:
        parser.error("--local is for one rank: several read from one dispatcher, --address")

    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    first = ranks == 1 or torch.distributed.get_rank() == 0

    saved = None
    if options.checkpoint and os.path.exists(options.checkpoint):
        saved = torch.load(options.checkpoint)
    common = {"set": {"batch.size": options.batch_size}, "index_dtype": "int64",
              "cursor": saved["session"] if saved else None}
    if options.local:
        session = millrace.local({"data": options.local}, PIPELINE, **common)
    else:
        session = millrace.connect(options.address, pipeline=PIPELINE, job=options.job, **common)
    model = Tactics(session.spec)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if saved:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    trained = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model

    losses = open(options.losses, "a", encoding="utf-8") if options.losses and first else None
    for epoch in session.epochs(options.epochs):
        for step, batch in epoch:
            data = millrace.pyg.to_batch(batch, session.spec)
            loss = torch.nn.functional.cross_entropy(trained(data), data.tactic)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if losses:
                line = {"epoch": epoch.number, "step": step, "loss": loss.item().hex()}
                print(json.dumps(line), file=losses, flush=True)
            if options.checkpoint and first and (step + 1) % options.every == 0:
                save(options.checkpoint, model=model.state_dict(),
                     optimizer=optimizer.state_dict(), session=session.state_dict())
    if first:
        print(session.report())
    session.close()
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
