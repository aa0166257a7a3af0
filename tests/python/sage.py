"""Trains PyG's GraphSAGE on neighbourhoods, on one rank or several: a program for tests."""

import argparse
import json
import os

import torch
import torch.distributed
from torch_geometric.nn import GraphSAGE

import millrace
import millrace.pyg

PIPELINE = {
    "millrace": 1, "dataset": "g", "source": {"roots": "train"}, "shuffle": {"seed": 0},
    "closure": {"kind": "neighbors", "fanout": [10, 5]}, "batch": {"size": 32},
    "features": ["x"], "targets": ["y"],
}


def network(features, classes):
    return GraphSAGE(features, 32, num_layers=2, out_channels=classes)


def loss_of(model, data):
    """The loss of a batch that Millrace or a NeighborLoader gave."""
    # Over torch_sparse, a NeighborLoader does not tell hops; nothing is trimmed then.
    out = model(data.x, data.edge_index,
                num_sampled_nodes_per_hop=getattr(data, "num_sampled_nodes", None),
                num_sampled_edges_per_hop=getattr(data, "num_sampled_edges", None))
    return torch.nn.functional.cross_entropy(out[:data.batch_size], data.y[:data.batch_size])


def step(optimizer, loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("address", "job", "losses", "checkpoint"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    torch.manual_seed(0)
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
    first = ranks == 1 or torch.distributed.get_rank() == 0
    session = millrace.connect(options.address, pipeline=PIPELINE, job=options.job,
                               index_dtype="int64")
    model = network(session.spec["node_feature/x"].inner[0], 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    if options.checkpoint and os.path.exists(options.checkpoint):
        saved = torch.load(options.checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        session.load_state_dict(saved["session"])
    trained = torch.nn.parallel.DistributedDataParallel(model) if ranks > 1 else model
    for epoch in session.epochs(options.epochs):
        for number, batch in epoch:
            loss = loss_of(trained, millrace.pyg.to_data(batch, session.spec))
            step(optimizer, loss)
            if not first:
                continue
            with open(options.losses, "a", encoding="utf-8") as losses:
                line = {"epoch": epoch.number, "step": number, "loss": loss.item().hex()}
                print(json.dumps(line), file=losses)
            if options.checkpoint and (number + 1) % 5 == 0:
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                            "session": session.state_dict()}, options.checkpoint + ".new")
                os.replace(options.checkpoint + ".new", options.checkpoint)
    session.close()
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
