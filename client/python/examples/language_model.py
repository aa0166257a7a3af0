"""Trains a language model on packed rows: python language_model.py PIPELINE FOLDER"""
import sys

import torch
from torch.nn.functional import cross_entropy, scaled_dot_product_attention

import millrace
import millrace.torch


class Model(torch.nn.Module):
    def __init__(self, vocabulary=512, size=256, width=32):
        super().__init__()
        self.word, self.place = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(size, width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, vocabulary)

    def forward(self, rows):
        x = self.word(rows["tokens"]) + self.place(rows["pack.position"])
        alike = rows["pack.segment"][:, :, None] == rows["pack.segment"][:, None]
        return self.out(x + scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), alike.tril()))


with millrace.local({"corpus": sys.argv[2]}, sys.argv[1], index_dtype="int64") as session:
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    for step, rows in enumerate(millrace.torch.IterableDataset(session)):  # an epoch
        loss = cross_entropy(model(rows).flatten(0, 1), rows["pack.label"].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.3f}")
