"""Trains a tiny language model on packed rows, on one rank or several.

All ranks are sessions of this process. Their gradients are added in the order of ranks and divided
by the labels of all, as a training on several GPUs does. --model gpt needs torch; --model bigram is
numpy alone. With --checkpoint it goes on where it was, bit for bit.
"""

import argparse
import os
import pickle
import signal

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy is imported

import json  # noqa: E402

import numpy  # noqa: E402

import millrace  # noqa: E402

VOCABULARY, SIZE, WIDTH = 50, 64, 16
PIPELINE = {
    "millrace": 1, "dataset": "texts", "source": "tokens", "shuffle": {"seed": 0},
    "pack": {"tensor": "tokens", "size": SIZE, "method": "fit"}, "batch": {"global_size": 4},
    "output": ["tokens", "pack.label", "pack.position", "pack.cu_seqlens"],
}


class Bigram:
    """The next token from a token and its place, by one hidden layer. Gradients by hand."""

    def __init__(self):
        draw = numpy.random.default_rng(0)
        shapes = {"token": (VOCABULARY, WIDTH), "place": (SIZE, WIDTH), "out": (WIDTH, VOCABULARY)}
        self.weights = {name: draw.normal(0, 0.3, shape) for name, shape in shapes.items()}

    def gradients(self, batch):
        """The sum of the losses, and of their gradients, over the labels of a batch."""
        tokens, places, labels = (batch[name].numpy() for name in (
            "tokens", "pack.position", "pack.label"))
        has = labels >= 0
        tokens, places, labels = tokens[has], places[has], labels[has]
        hidden = numpy.tanh(self.weights["token"][tokens] + self.weights["place"][places])
        logits = hidden @ self.weights["out"]
        logits -= logits.max(1, keepdims=True)
        chances = numpy.exp(logits)
        chances /= chances.sum(1, keepdims=True)
        at = numpy.arange(len(labels)), labels
        loss = -numpy.log(chances[at]).sum()
        chances[at] -= 1
        of_hidden = (chances @ self.weights["out"].T) * (1 - hidden ** 2)
        grads = {name: numpy.zeros_like(value) for name, value in self.weights.items()}
        numpy.add.at(grads["token"], tokens, of_hidden)
        numpy.add.at(grads["place"], places, of_hidden)
        grads["out"] = hidden.T @ chances
        return loss, list(grads.values())

    def step(self, grads):
        for value, grad in zip(self.weights.values(), grads, strict=True):
            value -= 0.5 * grad

    def state(self):
        return self.weights

    def load(self, state):
        self.weights = state


def make_gpt():
    import torch
    from varlen import attention

    import millrace.torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)

    class Gpt(torch.nn.Module):
        """One layer of a GPT, which attends within documents by pack.cu_seqlens."""

        def __init__(self, heads=2):
            super().__init__()
            self.heads = heads
            self.token = torch.nn.Embedding(VOCABULARY, WIDTH)
            self.place = torch.nn.Embedding(SIZE, WIDTH)
            self.first, self.second = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.qkv, self.join = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, tokens, position, ends, longest):
            x = self.token(tokens) + self.place(position)
            q, k, v = self.qkv(self.first(x)).view(len(x), 3, self.heads, -1).unbind(1)
            x = x + self.join(attention(q, k, v, ends, ends, longest, longest, causal=True).flatten(1))
            x = x + self.down(torch.nn.functional.gelu(self.up(self.second(x))))
            return x @ self.token.weight.T

    class Trained:
        def __init__(self):
            self.gpt = Gpt()
            self.adam = torch.optim.Adam(self.gpt.parameters(), 1e-2)

        def gradients(self, batch):
            one = millrace.torch.tensors(batch)
            ends, longest = millrace.torch.varlen(batch)
            logits = self.gpt(one["tokens"], one["pack.position"], ends, longest)
            loss = torch.nn.functional.cross_entropy(logits, one["pack.label"].long(), reduction="sum")
            return loss.item(), list(torch.autograd.grad(loss, list(self.gpt.parameters())))

        def step(self, grads):
            for parameter, grad in zip(self.gpt.parameters(), grads, strict=True):
                parameter.grad = grad
            self.adam.step()

        def state(self):
            return {"gpt": self.gpt.state_dict(), "adam": self.adam.state_dict()}

        def load(self, state):
            self.gpt.load_state_dict(state["gpt"])
            self.adam.load_state_dict(state["adam"])

    return Trained()


def save(path, **parts):
    """Writes the file completely or not at all."""
    with open(path + ".new", "wb") as file:
        pickle.dump(parts, file)
    os.replace(path + ".new", path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["bigram", "gpt"], required=True)
    parser.add_argument("--address", required=True)
    parser.add_argument("--job", required=True)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--checkpoint")
    parser.add_argument("--hold", type=int, help="steps after which it waits to be killed, unless it "
                        "goes on from a checkpoint")
    parser.add_argument("--losses", required=True, help="file that gets a line for each step")
    options = parser.parse_args()
    model = Bigram() if options.model == "bigram" else make_gpt()
    cursor = None
    if options.checkpoint and os.path.exists(options.checkpoint):
        with open(options.checkpoint, "rb") as file:
            saved = pickle.load(file)
        model.load(saved["model"])
        cursor = saved["session"]
    sessions = [millrace.connect(options.address, pipeline=PIPELINE, job=options.job, cursor=cursor,
                                 rank=rank, world_size=options.ranks) for rank in range(options.ranks)]
    losses = open(options.losses, "a", encoding="utf-8")
    for epochs in zip(*(session.epochs(options.epochs) for session in sessions), strict=True):
        for steps in zip(*epochs, strict=True):
            loss, grads, labels = 0.0, None, 0
            for _, batch in steps:
                own_loss, own = model.gradients(batch)
                loss += own_loss
                labels += int((batch["pack.label"].numpy() >= 0).sum())
                grads = own if grads is None else [a + b for a, b in zip(grads, own, strict=True)]
            model.step([grad / labels for grad in grads])
            step = steps[0][0]
            line = {"epoch": epochs[0].number, "step": step, "loss": float(loss / labels).hex()}
            print(json.dumps(line), file=losses, flush=True)
            if options.checkpoint and (step + 1) % 5 == 0:
                save(options.checkpoint, model=model.state(), session=sessions[0].state_dict())
            if cursor is None and options.hold == step + 1:
                signal.pause()
    for session in sessions:
        session.close()


if __name__ == "__main__":
    main()
