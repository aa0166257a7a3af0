"""Classifies small graphs with PyG's GCN: python graph_gcn.py FOLDER"""
import sys

import torch
from torch_geometric.nn import GCN, global_mean_pool

import millrace
import millrace.pyg

PIPELINE = {
    "millrace": 1, "dataset": "molecules", "source": {"graphs": "small"}, "shuffle": {"seed": 0},
    "features": ["x"], "targets": ["y"], "batch": {"size": 32},
}
session = millrace.local({"molecules": sys.argv[1]}, PIPELINE, index_dtype="int64")
model = GCN(session.spec["node_feature/x"].inner[0], 64, num_layers=2)
head = torch.nn.Linear(64, 16)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()], 0.01)
for epoch in session.epochs(3):
    for step, batch in epoch:
        data = millrace.pyg.to_batch(batch, session.spec)
        out = head(global_mean_pool(model(data.x, data.edge_index), data.batch))
        loss = torch.nn.functional.cross_entropy(out, data.y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch.number}: loss {loss.item():.3f}")
