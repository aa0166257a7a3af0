"""Imports of texts, by `millrace import tokens`, and the pairs that they make."""

import json
import os
import struct
import subprocess
import sys

import numpy
import pytest

from millrace import _binaries
from millrace._import import main as command
from millrace._import.tokens.pair import CODES

TOKENIZER = '''
import pathlib
import time


def tokenize(texts):
    return [list(text.encode()) for text in texts]


def waits(texts):
    """Stops at a text that says so, until it is killed."""
    if "wait" in texts:
        pathlib.Path("waiting").touch()
        time.sleep(600)
    return tokenize(texts)


def logged(texts):
    with open("calls", "a") as log:
        log.write(f"{len(texts)}\\n")
    return tokenize(texts)


def other(texts):
    return [[1] * len(text) for text in texts]
'''


def save_json(path, texts, column="text", open_file=open):
    """Writes a JSON object for each text."""
    with open_file(path, "wb") as file:
        for number, text in enumerate(texts):
            file.write(json.dumps({"id": number, column: text}).encode() + b"\n")


def save_parquet(path, texts, column="text", **options):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    columns = {"id": list(range(len(texts))), column: texts}
    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, with a module `mine` that has tokenizers."""
    (tmp_path / "mine.py").write_text(TOKENIZER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    sys.modules.pop("mine", None)
    yield tmp_path
    sys.modules.pop("mine", None)


def imports(*words, to="out", tokenizer="mine:tokenize"):
    """The exit code of an import in this process."""
    return command.main(["tokens", *map(str, words), "--to", to, "--tokenizer", tokenizer])


def refused(here, capsys, text, *words, code=3, tokenizer=None):
    """What an import says of a file `t` with this content. A text is that of a tokenizer `own:f`."""
    if tokenizer is not None:
        (here / "own.py").write_text(tokenizer)
        sys.modules.pop("own", None)
    (here / "t").write_bytes(text if isinstance(text, bytes) else text.encode())
    name = "own:f" if tokenizer is not None else "mine:tokenize"
    assert imports("t", *words, tokenizer=name) == code
    said = capsys.readouterr().err.splitlines()
    assert not (here / "out").exists(), "an import that failed leaves a folder"
    assert said[-1].startswith("millrace: ") and sum("millrace:" in line for line in said) == 1
    return said[-1].removeprefix("millrace: ")


def documents_of(folder):
    """The documents of all pairs, in the order of a dataset, read as the page says."""
    found = []
    for idx in sorted(folder.glob("*.idx"), key=lambda path: os.fsencode(path.with_suffix(".bin").name)):
        data = idx.read_bytes()
        magic, version, code, count, documents = struct.unpack_from("<9sQBQQ", data)
        assert (magic, version, documents) == (b"MMIDIDX\0\0", 1, count + 1)
        assert len(data) == 34 + 12 * count + 8 * documents
        dtype = {code: name for name, code in CODES.items()}[code]
        lengths = numpy.frombuffer(data, "<i4", count, 34)
        offsets = numpy.frombuffer(data, "<i8", count, 34 + 4 * count)
        assert list(numpy.frombuffer(data, "<i8", documents, 34 + 12 * count)) == list(range(documents))
        tokens = numpy.fromfile(idx.with_suffix(".bin"), dtype)
        width = tokens.itemsize
        assert len(tokens) == lengths.sum() and list(offsets) == list(
            width * (numpy.cumsum(lengths, dtype=int) - lengths))
        found += [tokens[offset // width:offset // width + length].tolist()
                  for offset, length in zip(offsets, lengths, strict=True)]
    return found


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".bin", ".idx")}


TEXTS = ["one", "", "zwei é", "x" * 700, "\n\"quoted\""]
BYTES = [list(text.encode()) for text in TEXTS]
GOOD = '{"text": "abc"}\n'


def run_import(here, *words, **options):
    return subprocess.Popen([_binaries.path("millrace"), "import", "tokens", *words], cwd=here, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
