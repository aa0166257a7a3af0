#!/usr/bin/env python3
"""Trains GraphSAGE on sampled neighbourhoods of a graph dataset, and prints its accuracy.

    sage_training.py --data DIR --seed 1

The dataset has node_feature/x, classes in node_feature/y, and the roots train, valid and test. The
accuracy is that of the epoch which does best on valid. `learn` takes the batches from anywhere, so
that the same model can be trained from batches of another sampler. It wants an iterator for every
pass, whose batches have x, edge_index (sources and targets), y and batch_size. The first batch_size
nodes are the roots, and y may be that short.
"""

import json
import time
import warnings

warnings.filterwarnings("ignore")

# pylint: disable=wrong-import-position
import numpy as np
import torch
from torch_geometric.nn import SAGEConv

import graph_dataset
import measure


class Sage(torch.nn.Module):
    def __init__(self, features, classes, hidden=64):
        super().__init__()
        self.first = SAGEConv(features, hidden)
        self.second = SAGEConv(hidden, classes)

    def forward(self, x, edge_index):
        x = torch.relu(self.first(x, edge_index))
        x = torch.nn.functional.dropout(x, 0.2, self.training)
        return self.second(x, edge_index)


def loss_and_right(model, batch):
    """Returns the mean loss of the roots, and how many of them are right."""
    out = model(batch.x.float(), batch.edge_index.long())[:batch.batch_size]
    y = batch.y[:batch.batch_size].long()
    return torch.nn.functional.cross_entropy(out, y), int((out.argmax(1) == y).sum())


def train_epoch(model, optimizer, batches):
    """Returns the mean loss of the roots."""
    model.train()
    total = roots = 0
    for batch in batches:
        optimizer.zero_grad()
        loss, _ = loss_and_right(model, batch)
        loss.backward()
        optimizer.step()
        total += float(loss.detach()) * batch.batch_size
        roots += batch.batch_size
    return total / roots


@torch.no_grad()
def accuracy(model, batches):
    model.eval()
    right = roots = 0
    for batch in batches:
        right += loss_and_right(model, batch)[1]
        roots += batch.batch_size
    return right / roots


def learn(model, batches, epochs, rate=0.003, log=lambda text: None):
    """`batches(NAME, EPOCH)` gives the batches of a list of roots. Returns the test accuracy and
    the valid accuracy of the epoch with the best valid accuracy, and the valid accuracies of
    all."""
    optimizer = torch.optim.Adam(model.parameters(), rate)
    best, valids = (0.0, 0.0), []
    for epoch in range(epochs):
        loss = train_epoch(model, optimizer, batches("train", epoch))
        valids.append(accuracy(model, batches("valid", epoch)))
        log(f"epoch {epoch}: loss {loss:.4f}, valid {valids[-1]:.4f}")
        if valids[-1] > best[1]:
            best = (accuracy(model, batches("test", epoch)), valids[-1])
    return *best, valids


def pyg_batches(graph, x, y, parsed):
    """Batches of PyG's NeighborLoader."""
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader
    targets = np.repeat(np.arange(graph.nodes), np.diff(graph.indptr))
    data = Data(x=x, y=y, edge_index=torch.from_numpy(
        np.stack([graph.indices.astype(np.int64), targets])))
    loaders = {}
    for name in ("train", "valid", "test"):
        loaders[name] = NeighborLoader(
            data, list(graph_dataset.HOPS), is_sorted=True, batch_size=parsed.batch,
            input_nodes=torch.from_numpy(graph.array(f"roots/{name}").astype(np.int64)),
            shuffle=name == "train", num_workers=parsed.workers)
    return lambda name, epoch: iter(loaders[name])


def main():
    parsed = measure.options(epochs=5, batch=1024, workers=0, hidden=64, feature="x", target="y",
                             mapped=0)
    torch.set_num_threads(1)
    torch.manual_seed(parsed.seed)
    graph = graph_dataset.Graph(parsed.data, parsed.mapped)
    x = torch.from_numpy(graph.array(f"node_feature/{parsed.feature}"))
    y = torch.from_numpy(graph.array(f"node_feature/{parsed.target}").astype(np.int64))
    batches = pyg_batches(graph, x, y, parsed)
    model = Sage(x.shape[1], int(y.max()) + 1, parsed.hidden)
    began = time.perf_counter()
    test, valid, valids = learn(model, batches, parsed.epochs,
                                log=lambda text: print(text, flush=True))
    print(json.dumps({"batches": "pyg", "seed": parsed.seed, "test_accuracy": test,
                      "valid_accuracy": valid, "valid_accuracies": valids,
                      "seconds": time.perf_counter() - began,
                      **measure.versions("torch", "torch_geometric")}))


if __name__ == "__main__":
    main()
