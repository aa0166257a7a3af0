"""Plugins that tests list, and what their examples are, computed beside Millrace."""

import runpy
import textwrap

CORPUS = """
import numpy as np

__all__ = ["Corpus", "Measured", "Noisy", "Folder"]


class Corpus:
    '''A dataset as torch's map datasets are: a length, and examples of any length.'''

    def __init__(self, size=60, scale=1):
        self.size = size
        self.scale = scale

    def __len__(self):
        return self.size

    def spec(self):
        return {"features": "float32[*, 3]", "label": "int64", "name": "str"}

    def columns(self):
        return {"frames": [self.frames(i) for i in range(self.size)]}

    def frames(self, i):
        return 3 + i * 7 % 20

    def __getitem__(self, i):
        row = np.arange(3 * self.frames(i), dtype=np.float32).reshape(-1, 3)
        return {"features": row * self.scale + i, "label": i % 5, "name": "utterance %d" % i}


class Measured(Corpus):
    '''Says no columns, so that the lengths of examples have to be measured.'''

    def columns(self):
        return {}


class Noisy(Corpus):
    '''Gives other features in every epoch.'''

    def spec(self):
        return {"features": "float64[*]", "epoch": "int64"}

    def example(self, i, epoch, rng):
        return {"features": rng.standard_normal(self.frames(i)), "epoch": epoch}


class Folder:
    '''Numbers in the lines of the files of a folder.'''

    def __init__(self, folder):
        import pathlib
        files = sorted(pathlib.Path(folder).glob("*.txt"))
        self.lines = [line for path in files for line in path.read_text().splitlines()]

    def __len__(self):
        return len(self.lines)

    def spec(self):
        return {"numbers": "int32[*]"}

    def __getitem__(self, i):
        return {"numbers": np.array(self.lines[i].split(), np.int32)}
"""

BROKEN = """
import os
import sys
import numpy as np

__all__ = ["Broken", "NoLength", "imported", "gone"]

def imported(): pass
imported.__module__ = "os"


class NoLength:
    def spec(self): return {"x": "int64"}
    def __getitem__(self, i): return {"x": i}


class Hidden(NoLength):
    def __len__(self): return 3


class Broken:
    '''Fails at one example, in the way that it is told.'''

    def __init__(self, how, at=7):
        self.how = how
        self.at = at

    def __len__(self):
        return 20

    def spec(self):
        return {"x": "float32[*]", "n": "int32"}

    def columns(self):
        return {"n": [i + (self.how == "column" and i == self.at) for i in range(20)]}

    def __getitem__(self, i):
        example = {"x": np.ones(i, np.float32), "n": i}
        return example if i != self.at else getattr(self, self.how)(example)

    def column(self, example):
        return example

    def exception(self, example):
        return self.deeper(example)

    def deeper(self, example):
        raise ValueError("the label of utterance 7 is empty")

    def dtype(self, example):
        return {**example, "x": example["x"].astype(np.float64)}

    def rank(self, example):
        return {**example, "x": example["x"][None]}

    def range(self, example):
        return {**example, "n": 1 << 40}

    def names(self, example):
        return {"x": example["x"], "m": 1}

    def nothing(self, example):
        return None

    def exit(self, example):
        sys.exit("no more")

    def death(self, example):
        print("the last words of the decoder", flush=True)
        os._exit(3)

    def segfault(self, example):
        import ctypes
        ctypes.string_at(0)

    def hang(self, example):
        import time
        time.sleep(10000)
"""

RANDOM = """
import random
import numpy as np
__all__ = ["Source"]
class Source:
    def __len__(self): return 12
    def spec(self): return {"x": "float64[2]"}
    def __getitem__(self, i): return {"x": np.array([random.random(), np.random.rand()])}
"""


def write(folder, name, text):
    """Writes a module, and returns the folder to list it with."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return folder


def class_of(text, name, folder):
    """A class of a plugin, to compare with: it runs here, without Millrace."""
    return runpy.run_path(str(write(folder, "alone", text) / "alone.py"))[name]


def rows_of(batch, *names):
    """(id, value, …) of every row; ragged values are lists."""
    columns = [batch.example_ids]
    for name in names:
        values = batch[name].numpy()
        if f"{name}_splits" in batch:
            splits = batch[f"{name}_splits"].numpy()
            columns.append([values[a:b].tolist() for a, b in zip(splits, splits[1:])])
        else:
            columns.append(values.tolist())
    return list(zip(*columns, strict=True))


def of_plugin(named="corpus:Corpus", source=None, **more):
    return {"millrace": 1, "source": {"python": named, **(source or {})}, "shuffle": {"seed": 3},
            "batch": {"size": 8, "remainder": "keep"}, **more}


def broken_at(how, at=7, **options):
    return of_plugin("broken:Broken", {"args": {"how": how, "at": at}, **options})


def all_rows(session, *names):
    return [row for _, batch in session.next_epoch() for row in rows_of(batch, *names)]


def digests(session):
    return [batch.digest for _, batch in session.next_epoch()]
