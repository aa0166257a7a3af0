"""Trains on a torch dataset whose examples differ in length: python torch_padded.py"""
import torch

__all__ = ["Utterances"]


class Utterances(torch.utils.data.Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, i):
        return {"features": torch.full((20 + i * 37 % 180, 40), i % 10 / 10), "label": i % 10}

    def spec(self):  # all that Millrace needs besides
        return {"features": "float32[*, 40]", "label": "int64"}


if __name__ == "__main__":
    import millrace
    pipeline = {"millrace": 1, "source": {"python": "torch_padded:Utterances"}, "shuffle": {"seed": 0},
                "batch": {"bucket": {"by": "features.length", "count": 8, "budget": 4000}},
                "pad": {"features": {"to": "bound"}}}
    model = torch.nn.Linear(40, 10)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step, batch in millrace.local({}, pipeline, plugins={"torch_padded": "."}).next_epoch():
        mean = batch["features"].torch().sum(1) / batch["features.length"].torch()[:, None]
        loss = torch.nn.functional.cross_entropy(model(mean), batch["label"].torch())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"step {step}: loss {loss.item():.3f}")
