"""Trains PyG's GraphSAGE on two ranks: torchrun --nproc-per-node 2 graph_sage.py ADDRESS"""
import sys

import torch
from torch_geometric.nn import GraphSAGE

import millrace
import millrace.pyg

PIPELINE = {
    "millrace": 1, "dataset": "papers", "source": {"roots": "train"}, "shuffle": {"seed": 0},
    "closure": {"kind": "neighbors", "fanout": [15, 10]}, "batch": {"size": 128},
    "features": ["x"], "targets": ["y"],
}
torch.distributed.init_process_group("gloo")
session = millrace.connect(sys.argv[1], pipeline=PIPELINE, job="sage", index_dtype="int64")
model = GraphSAGE(session.spec["node_feature/x"].inner[0], 64, num_layers=2, out_channels=16)
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.Adam(model.parameters(), 0.01)
for epoch in session.epochs(3):
    for step, batch in epoch:
        data = millrace.pyg.to_data(batch, session.spec)
        out = model(data.x, data.edge_index)[:data.batch_size]
        loss = torch.nn.functional.cross_entropy(out, data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch.number}: loss {loss.item():.3f}")
