"""A small training of two ranks with Lightning, which starts this file again for the second rank.
Each rank writes the examples that it saw and its weight."""

import json
import pathlib
import sys

import torch
from lightning.pytorch import LightningModule, Trainer

import millrace
import millrace.torch


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1, 1, bias=False)
        self.seen = []

    def training_step(self, batch, _):
        self.seen.append(batch["example_id"].tolist())
        return self.linear(batch["tactic"].float()[:, None] / 100).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


folder, address, pipeline = sys.argv[1:]
model = Model()
trainer = Trainer(accelerator="cpu", strategy="ddp", devices=2, max_epochs=1, logger=False,
                  enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
                  default_root_dir=folder)
trainer.fit(model, datamodule=millrace.torch.data_module(
    lambda: millrace.connect(address, pipeline=json.loads(pipeline), job="lightning")))
(pathlib.Path(folder) / str(trainer.global_rank)).write_text(
    json.dumps({"ids": model.seen, "weight": model.linear.weight.item()}))
