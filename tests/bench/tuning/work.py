"""The work of a batch as rivals do it in Python: the same as our workers do."""

import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rivals"))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "plugin"))

from tfdata_records import A, B, K, PLANES, SIGNS  # noqa: E402


def decode(data, score):
    """The chess pipeline of docs/guides/records.md over a batch: board, flags and score."""
    bits = np.unpackbits(data, axis=1)
    board = bits[:, :1536].reshape(-1, 8, 8, 24)[..., PLANES].astype(np.float32)
    board *= np.array(SIGNS, np.float32)
    score = score.astype(np.float64)
    near = np.sign(score) * (A + (1 - A) / (B - 1) * np.maximum(0, B - np.abs(score)))
    value = np.where(bits[:, 1546], near, A * np.tanh(score / K)).astype(np.float32)
    return [board, bits[:, 1536:1546].astype(np.float32), value]


class Records:
    """Batches of records: decoded from arrays, which is less than to read files."""

    def __init__(self, path, _):
        self._path = path
        with np.load(path) as file:
            self._data, self._score = file["d"], file["s"]

    def __len__(self):
        return len(self._score)

    def __getitems__(self, ids):
        return decode(self._data[ids], self._score[ids])


class Graphs:
    """Batches of closures, as tests/bench/rivals makes them."""

    def __init__(self, path, _):
        import closures
        self._closures, self._collate = closures.Closures(path), closures.collate

    def __len__(self):
        return len(self._closures)

    def __getitems__(self, ids):
        return list(self._collate([self._closures[int(i)] for i in ids]).values())


class Busy:
    """Batches of the source that our workers have as a plugin."""

    def __init__(self, _, milliseconds):
        import busy
        self._source = busy.Busy(milliseconds=milliseconds)

    def __len__(self):
        return len(self._source)

    def __getitems__(self, ids):
        rows = [self._source[int(i)] for i in ids]
        return [np.stack([row[name] for row in rows]) for name in ("x", "y")]


SOURCES = {"closures": Graphs, "records": Records, "python": Busy}


class Counted:
    """A source that counts the batches that it has begun; `counter` adds one."""

    def __init__(self, source, counter):
        self._source, self._count = source, counter

    def __len__(self):
        return len(self._source)

    def __getitems__(self, ids):
        self._count()
        return self._source.__getitems__(ids)


def add_arguments(parser):
    parser.add_argument("--source", choices=sorted(SOURCES), required=True)
    parser.add_argument("--file", default="", help="arrays of the dataset, see export.py")
    parser.add_argument("--folder", default="", help="folder of the records")
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--milliseconds", type=float, default=5, help="of the Python operation")
