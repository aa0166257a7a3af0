"""`millrace import tfrecord`: compressed files, damage, and going on after a kill."""

import gzip
import io
import os
import subprocess
import sys
import zlib

import pytest
from conftest import SHARED, in_a_fork
from kills import Killed, content
from records import example, frame, records_of

from millrace import _binaries
from millrace._import import main as command


def run_import(*words, cwd):
    return subprocess.run([_binaries.path("millrace"), "import", "tfrecord", *map(str, words)],
                          cwd=cwd, capture_output=True, text=True, check=False)


def numbered(begin, end):
    return [example({"i": [i], "text": [b"x" * (i % 4)], "rag": [0.5] * (1 + i % 3)})
            for i in range(begin, end)]


def framed(records):
    return b"".join(map(frame, records))


SOURCE = 'source: {records: {i: int64, rag: "float32[*]", text: "bytes[*]"}}\n'


def write_inputs(folder):
    """The records of files that are compressed in all ways, plain and empty."""
    files = {"a.gz": gzip.compress(framed(numbered(0, 5))),
             "b.zlib": zlib.compress(framed(numbered(5, 8))), "c": framed(numbered(8, 12)), "d": b"",
             "e.gz": gzip.compress(b""),
             # Several compressed files in one, which zeros fill up.
             "f.gz": gzip.compress(framed(numbered(12, 13))) + gzip.compress(
                 framed(numbered(13, 15))) + bytes(100)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return list(files), numbered(0, 15)


def test_compressed_files_become_plain_shards(tmp_path):
    names, records = write_inputs(tmp_path)
    done = run_import(*names, "--to", "out", "--shard-records", 4, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == SOURCE and "15 examples in 4 shards" in done.stderr
    assert records_of(tmp_path / "out") == records
    assert len(list((tmp_path / "out").glob("part-*-of-00004.tfrecord"))) == 4


def test_the_records_of_the_chess_pipeline_come_through_compression(tmp_path):
    good = SHARED / "golden-tensors" / "good"
    if not good.is_dir():
        pytest.skip(f"the golden files are not at {good}")
    files = sorted(good.glob("*.tfrecord"))
    for number, file in enumerate(files):
        (tmp_path / f"{number}.gz").write_bytes(gzip.compress(file.read_bytes(), 1))
    done = run_import(*(f"{i}.gz" for i in range(len(files))), "--to", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == 'source: {records: {d: "bytes[194]", s: int64}}\n'
    (shard,) = (tmp_path / "out").glob("*.tfrecord")
    assert shard.read_bytes() == b"".join(file.read_bytes() for file in files)


def test_a_record_of_any_length_is_copied(tmp_path):
    # Longer than what is read at once, compressed well enough to lie in one piece, and badly.
    records = [example({"x": [bytes(5_000_000)]}), example({"x": [os.urandom(3_000_000)]}),
               example({"x": [b""]})]
    # The checksum in Python is slow, so that the file is made by an import.
    (tmp_path / "mine.py").write_text("import pathlib\nexamples = [{'x': bytes(5_000_000)}, "
                                      "{'x': pathlib.Path('noise').read_bytes()}, {'x': b''}]")
    (tmp_path / "noise").write_bytes(records[1][-3_000_000:])
    subprocess.run([_binaries.path("millrace"), "import", "stream", "mine:examples", "--to", "first"],
                   cwd=tmp_path, check=True, capture_output=True)
    (shard,) = (tmp_path / "first").glob("*.tfrecord")
    assert all(record in shard.read_bytes() for record in records)
    (tmp_path / "packed").write_bytes(gzip.compress(shard.read_bytes(), 1))
    done = run_import("packed", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (copy,) = (tmp_path / "out").glob("*.tfrecord")
    assert copy.read_bytes() == shard.read_bytes()


@pytest.mark.parametrize(("features", "types", "left_out"), [
    ([{"x": [1]}, {"x": [1, 2]}], 'x: "int64[*]"', ""),
    ([{"x": [1, 3]}, {"x": [1, 2]}], 'x: "int64[2]"', ""),
    ([{"x": [1]}, {"y": [0.5]}], "x: {type: int64, default: 0}, y: {type: float32, default: 0}", ""),
    ([{"x": [b"ab"]}, {"x": [b"cd"]}], 'x: "bytes[2]"', ""),
    ([{"x": [b"ab"], "a/b": [1]}, {"x": [b"cde"], "a/b": [2]}],
     'a_b: {feature: "a/b", type: int64}, x: "bytes[*]"', ""),
    ([{"x": [b"ab", b"c"]}, {"x": [b"cd"]}], 'x: "str[*]"', ""),
    ([{"x": [b"ab", b"c"]}, {"x": [b"de", b"f"]}], 'x: "str[*]"', ""),
    ([{"x": [b"ab", b"c"]}, {"y": [1]}], 'x: "str[*]", y: {type: int64, default: 0}', ""),
    ([{"x": [b"ab"]}, {"x": [1]}], "", "x: is of several kinds: bytes, int64")])
def test_the_source_line_says_what_all_records_have(tmp_path, features, types, left_out):
    (tmp_path / "in").write_bytes(framed(map(example, features)))
    for limit in (1, 2):  # in shards of their own too
        done = run_import("in", "--to", f"out{limit}", "--shard-records", limit, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"source: {{records: {{{types}}}}}\n"
        assert left_out in done.stderr


def damaged(what):
    """A file, and the message."""
    records = numbered(0, 3)
    whole = framed(records)
    second = len(frame(records[0]))
    if what == "data":
        return whole[:second + 20] + b"?" + whole[second + 21:], (
            f"record 1, offset {second}: checksum of the data")
    if what == "length":
        return whole[:second + 8] + b"????" + whole[second + 12:], (
            f"record 1, offset {second}: checksum of the length")
    if what == "cut":
        return whole[:second + 20], f"record 1, offset {second}: record cut off"
    if what == "text":
        return b"no records at all", "record 0, offset 0: checksum of the length"
    if what == "no example":
        return frame(b"\xff\xff"), "record 0, offset 0: no tf.train.Example"
    if what == "gzip cut":
        return gzip.compress(whole)[:-12], "of the uncompressed file: the compressed file is cut off"
    if what == "gzip data":
        packed = gzip.compress(whole[:second + 20] + b"?" + whole[second + 21:])
        return packed, f"record 1, offset {second} of the uncompressed file: checksum of the data"
    packed = bytearray(zlib.compress(whole))
    packed[-1] ^= 1
    return bytes(packed), "of the uncompressed file: Error -3 while decompressing data: incorrect"


@pytest.mark.parametrize("what", ["data", "length", "cut", "text", "no example", "gzip cut",
                                  "gzip data", "zlib check"])
def test_damage_is_named_with_file_record_and_offset(tmp_path, what):
    data, message = damaged(what)
    (tmp_path / "in").write_bytes(data)
    done = run_import("in", "--to", "out", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.startswith("millrace: in: ") and message in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    for name, message in (("missing", "missing: No such file"), (".", ".: Is a directory")):
        done = run_import(name, "--to", "out", cwd=tmp_path)
        assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "out").exists()


def import_files(monkeypatch, folder, names, target, point):
    """The exit code of an import in a process that is killed at a point; None: it is not."""
    def work():
        os.chdir(folder)
        if point is not None:
            Killed(monkeypatch, point)
        sys.stdout = sys.stderr = io.StringIO()
        return command.main(["tfrecord", *names, "--to", target, "--shard-records", "4"])
    return in_a_fork(work)


def test_an_import_of_files_goes_on_after_a_kill_at_every_point(tmp_path, monkeypatch):
    names, _ = write_inputs(tmp_path)
    assert import_files(monkeypatch, tmp_path, names, "whole", None) == 0
    expected = content(tmp_path / "whole")
    assert expected["import.json"].count(b'"examples": 4,') == 3
    point, code = 0, 9
    while code == 9:
        target = tmp_path / f"killed-{point}"
        code = import_files(monkeypatch, tmp_path, names, target.name, point)
        if code == 9:
            assert import_files(monkeypatch, tmp_path, names, target.name, None) == 0
        assert content(target) == expected, f"killed at point {point}"
        point += 1
    assert code == 0 and point > 40


def test_other_files_do_not_go_on(tmp_path, monkeypatch):
    names, _ = write_inputs(tmp_path)
    assert import_files(monkeypatch, tmp_path, names, "out", 40) == 9
    done = run_import(*names[:-1], "--to", "out", "--shard-records", 4, cwd=tmp_path)
    assert done.returncode == 2 and "an import into this folder began with files:" in done.stderr
