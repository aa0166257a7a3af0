"""One rank of a small training with Accelerate. It writes the examples it saw and its weight."""

import json
import pathlib
import sys

import accelerate
import torch

import millrace
import millrace.torch

folder, address, pipeline = sys.argv[1:]
accelerator = accelerate.Accelerator(cpu=True)
session = millrace.connect(address, pipeline=json.loads(pipeline), job="accelerate")
model = torch.nn.Linear(1, 1, bias=False)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
seen = []
for batch in torch.utils.data.DataLoader(millrace.torch.IterableDataset(session), batch_size=None):
    seen.append(batch["example_id"].tolist())
    optimizer.zero_grad()
    accelerator.backward(model(batch["tactic"].float()[:, None] / 100).square().mean())
    optimizer.step()
weight = accelerator.unwrap_model(model).weight.item()
(pathlib.Path(folder) / str(accelerator.process_index)).write_text(
    json.dumps({"ids": seen, "weight": weight}))
session.close()
accelerator.end_training()
