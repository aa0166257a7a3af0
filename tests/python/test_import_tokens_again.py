"""`millrace import tokens` after a kill, a signal, a full disk, and with other arguments."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest
from conftest import in_a_fork
from kills import Killed
from patience import tries
from token_imports import (
    BYTES, GOOD, TEXTS, TOKENIZER, documents_of, files, here, imports, run_import, save_json,
    save_parquet,
)

from millrace import _binaries
from millrace._import import main as command


def import_in_a_fork(monkeypatch, target, point, *words):
    """The exit code of an import in a process that is killed at a point; None: it is not."""
    def work():
        if point is not None:
            Killed(monkeypatch, point)
        sys.stdout = sys.stderr = io.StringIO()
        return imports(*words, to=target)
    return in_a_fork(work)


def is_whole_or_refused(folder, whole):
    """Whether a folder has all pairs, or none, or half of one: every .idx is there then."""
    names = {name for name in os.listdir(folder) if name.endswith((".bin", ".idx"))}
    binary = {name for name in names if name.endswith(".bin")}
    return names == set(whole) or not names or not binary or (
        {name for name in whole if name.endswith(".idx")} <= names and binary < set(whole))


def test_an_import_of_texts_goes_on_after_a_kill_at_every_point(here, monkeypatch):
    save_json(here / "a.jsonl", TEXTS)
    save_parquet(here / "b.parquet", TEXTS[::-1])
    save_json(here / "c.jsonl", TEXTS * 2)
    words = ["a.jsonl", "b.parquet", "c.jsonl", "--eos", "7"]
    assert import_in_a_fork(monkeypatch, "whole", None, *words) == 0
    expected = files(here / "whole")
    point, code = 0, 9
    while code == 9:
        target = f"killed-{point}"
        code = import_in_a_fork(monkeypatch, target, point, *words)
        if code == 9:
            assert is_whole_or_refused(here / target, expected), f"killed at point {point}"
            assert import_in_a_fork(monkeypatch, target, None, *words) == 0
        assert files(here / target) == expected, f"killed at point {point}"
        assert set(os.listdir(target)) == {*expected, "import.json"}
        point += 1
    assert code == 0 and point > 60


def test_what_a_killed_import_left_is_removed_by_one_that_fails(here, monkeypatch, capsys):
    save_json(here / "t", TEXTS)
    left = 0
    for point in range(4, 16, 2):
        target = f"killed-{point}"
        assert import_in_a_fork(monkeypatch, target, point, "t") == 9
        if (here / target / "pair-00000.bin.writing").exists() or (here / target / "pair-00000.bin.whole").exists():
            left += 1
        if json.loads((here / target / "import.unfinished.json").read_bytes())["pairs"]:
            break
        assert imports("t", "--column", "none", to=target) == 3
        said = capsys.readouterr().err
        assert said.startswith("millrace: t: line 1: has no column none") and not (here / target).exists(), said
    assert left > 1


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGKILL])
def test_an_import_that_was_interrupted_does_only_the_rest(here, by):
    save_json(here / "a.jsonl", TEXTS)
    save_json(here / "b.jsonl", ["before", "wait"])
    words = ["a.jsonl", "b.jsonl", "--tokenizer", "mine:waits", "--to", "out"]
    first = run_import(here, *words)
    for _ in tries():
        if (here / "waiting").exists() or first.poll() is not None:
            break
    assert first.poll() is None, first.communicate()
    first.send_signal(by)
    said = first.communicate()[1]
    assert first.returncode == (1 if by == signal.SIGINT else -9), said
    if by == signal.SIGINT:
        assert said.splitlines()[-1] == (
            "millrace: interrupted; run the same command again to go on after the last whole file")
        assert "Traceback" not in said
    assert not files(here / "out")
    (here / "mine.py").write_text(TOKENIZER.replace("time.sleep(600)", "pass").replace(
        "def waits(texts):", "def waits(texts):\n    open('calls', 'a').write(f'{texts}\\n')"))
    again = run_import(here, *words)
    said = again.communicate()[1]
    assert again.returncode == 0, said
    assert documents_of(here / "out") == BYTES + [list(b"before"), list(b"wait")]
    # The first file's texts come once more, as the check of the tokenizer.
    assert len((here / "calls").read_text().splitlines()) == 2


def interrupted(here, monkeypatch):
    """An import of three files of which one is done."""
    for name in "abc":
        save_json(here / name, TEXTS)
    (here / "c").write_text("nothing")
    assert import_in_a_fork(monkeypatch, "out", None, "a", "b", "c") == 3
    assert len(list((here / "out").glob("*.whole"))) == 4
    save_json(here / "c", TEXTS)


@pytest.mark.parametrize(("words", "message"), [
    (["a", "b", "c", "--eos", "7"], "began with eos: null, now it is 7: use the same arguments, or another folder"),
    (["a", "b", "c", "--dtype", "int32"], 'began with dtype: "uint16", now it is "int32"'),
    (["a", "b", "c", "--column", "id"], 'began with column: "text", now it is "id"'),
    (["a", "b"], "began with files: ")])
def test_an_import_with_other_arguments_does_not_go_on(here, monkeypatch, capsys, words, message):
    interrupted(here, monkeypatch)
    assert imports(*words) == 2
    assert message in capsys.readouterr().err
    assert imports("a", "b", "c", tokenizer="mine:other") == 2
    assert 'began with tokenizer: "mine:tokenize", now it is "mine:other"' in capsys.readouterr().err
    assert imports("a", "b", "c") == 0 and documents_of(here / "out") == BYTES * 3


@pytest.mark.parametrize(("change", "message"), [
    (lambda path: path.write_text(GOOD), "b: has 16 bytes, but had "),
    (lambda path: os.utime(path, (1, 1)), "b: was written again when this import read it")])
def test_an_import_with_a_changed_file_does_not_go_on(here, monkeypatch, capsys, change, message):
    interrupted(here, monkeypatch)
    change(here / "b")
    assert imports("a", "b", "c") == 3
    said = capsys.readouterr().err
    assert said.startswith(f"millrace: {message}") and "remove the folder and import again" in said


def test_an_import_with_another_tokenizer_of_the_name_does_not_go_on(here, monkeypatch, capsys):
    interrupted(here, monkeypatch)
    (here / "mine.py").write_text(TOKENIZER.replace("text.encode()", "text.upper().encode()"))
    assert imports("a", "b", "c") == 3
    assert capsys.readouterr().err.startswith(
        "millrace: b: lines 1 to 5: tokenizer mine:tokenize gives other tokens than when this import began")


def test_a_pair_that_is_gone_is_named(here, monkeypatch, capsys):
    interrupted(here, monkeypatch)
    (here / "out" / "pair-00001.bin.whole").unlink()
    assert imports("a", "b", "c") == 3
    assert "pair-00001.bin.whole: is gone, expected " in capsys.readouterr().err


def test_a_finished_import_of_texts_says_so_again(here, capsys):
    save_json(here / "t", TEXTS)
    assert imports("t") == 0
    before = files(here / "out")
    (here / "t").unlink()
    capsys.readouterr()
    assert imports("t") == 0 and files(here / "out") == before
    out, err = capsys.readouterr()
    assert out == "source: tokens\n" and err.startswith("out: is finished: 5 documents and ")


def test_a_full_disk_says_how_an_import_of_texts_goes_on(here):
    save_json(here / "a", TEXTS)
    save_json(here / "b", ["x" * 1000] * 200)
    words = [sys.executable, "-c", "import resource, sys, millrace._import.main as command\n"
             "limit = int(sys.argv.pop(1))\nresource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
             "sys.exit(command.main(sys.argv[1:]))"]
    rest = ["tokens", "a", "b", "--to", "out", "--tokenizer", "mine:tokenize"]
    done = subprocess.run([*words, "100000", *rest], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "File too large; make room, and run the same command again to go on after" in done.stderr
    assert not files(here / "out") and not list((here / "out").glob("*.writing"))
    done = subprocess.run([*words, "1000000", *rest], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert documents_of(here / "out") == BYTES + [list(b"x" * 1000)] * 200


def test_a_folder_of_an_import_that_goes_on_is_no_dataset(here, monkeypatch):
    interrupted(here, monkeypatch)
    seen = subprocess.run([_binaries.path("millrace"), "inspect", "out"], capture_output=True, text=True,
                          check=False)
    assert seen.returncode == 2 and "the import into out has not ended: run the same" in seen.stderr


def test_a_folder_whose_last_names_are_missing_is_refused(here, monkeypatch):
    for name in "ab":
        save_json(here / name, TEXTS)
    point, names = 40, set()
    while not ("a.bin" in names and "b.bin" not in names):  # killed between the two
        point += 1
        assert import_in_a_fork(monkeypatch, f"killed-{point}", point, "a", "b") == 9
        names = set(os.listdir(f"killed-{point}"))
    assert {"a.idx", "b.idx"} <= names
    for dataset, code, message in ((f"killed-{point}", 2, "has not ended: run the same `millrace import`"),
                                   (f"tokens:killed-{point}", 3, "b.idx: has no b.bin beside it")):
        seen = subprocess.run([_binaries.path("millrace"), "inspect", dataset], capture_output=True,
                              text=True, check=False)
        assert seen.returncode == code and message in seen.stderr, seen.stderr
