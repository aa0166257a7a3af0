"""`millrace import tokens`: pairs as Megatron-LM has them, each error, and going on after a kill."""

import gzip
import io
import json
import os
import signal
import struct
import subprocess
import sys

import numpy
import pytest
from conftest import in_a_fork
from kills import Killed
from patience import tries

import millrace
from millrace import _binaries
from millrace._import import main as command
from millrace._import.tokens import options as tokens_options
from millrace._import.tokens import texts as texts_module
from millrace._import.tokens.pair import CODES, PairWriter, most_of

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


@pytest.mark.parametrize("dtype", list(CODES))
def test_a_pair_is_written_as_megatron_has_it(tmp_path, dtype):
    most = most_of(dtype)
    with PairWriter(tmp_path / "x.bin", tmp_path / "x.idx", dtype) as writer:
        writer.append(numpy.array([2, 0, 1]), numpy.array([0, most, 7]))
        writer.append(numpy.array([0]), numpy.array([], numpy.int64))
        writer.append(numpy.array([1]), numpy.array([5]))
        writer.finish()
    assert documents_of(tmp_path) == [[0, most], [], [7], [], [5]]
    assert (writer.documents, writer.tokens) == (5, 4)
    assert writer.bytes == os.path.getsize(tmp_path / "x.bin")


def test_the_largest_tokens_of_types():
    assert {dtype: most_of(dtype) for dtype in CODES} == {
        "uint8": 255, "int8": 127, "int16": 32767, "int32": 2**31 - 1, "int64": 2**31 - 1,
        "uint16": 65535}


def test_a_pair_without_documents_is_whole(tmp_path):
    with PairWriter(tmp_path / "x.bin", tmp_path / "x.idx", "uint16") as writer:
        writer.finish()
    assert documents_of(tmp_path) == [] and (tmp_path / "x.idx").stat().st_size == 42


def test_texts_of_all_forms_become_documents(here, capsys):
    save_json(here / "a.jsonl", TEXTS)
    save_json(here / "b.jsonl.gz", TEXTS[::-1], open_file=gzip.open)
    save_parquet(here / "c.parquet", TEXTS, row_group_size=2)
    pyarrow = pytest.importorskip("pyarrow")
    save_json(here / "d.json.zst", TEXTS[:2],
              open_file=lambda path, _: pyarrow.output_stream(str(path), compression="zstd"))
    assert imports("a.jsonl", "b.jsonl.gz", "c.parquet", "d.json.zst") == 0
    out, err = capsys.readouterr()
    assert out == "source: tokens\n"
    assert "out: 17 documents and " in err and " tokens of uint16 in 4 pairs, " in err
    assert documents_of(here / "out") == BYTES + BYTES[::-1] + BYTES + BYTES[:2]
    assert {path.name for path in (here / "out").iterdir()} == {
        "import.json", *(f"{name}.{half}" for name in "abcd" for half in ("bin", "idx"))}


def test_blank_lines_and_windows_ends_are_passed_over(here):
    (here / "t").write_bytes(b'{"text": "a"}\r\n\r\n  \n{"text": "b"}')
    assert imports("t") == 0
    assert documents_of(here / "out") == [[97], [98]]


def test_another_column_type_and_end_of_documents(here):
    save_json(here / "t", TEXTS, column="content")
    assert imports("t", "--column", "content", "--dtype", "int32", "--eos", 100_000) == 0
    assert documents_of(here / "out") == [[*tokens, 100_000] for tokens in BYTES]
    assert (here / "out" / "t.idx").read_bytes()[17] == CODES["int32"]


def test_columns_of_dictionaries_are_texts(here):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    for number, kind in enumerate((pyarrow.large_string(), pyarrow.dictionary(pyarrow.int32(), pyarrow.string()))):
        table = pyarrow.table({"text": pyarrow.array(TEXTS).cast(kind)})
        pyarrow.parquet.write_table(table, f"{number}.parquet")
    assert imports("0.parquet", "1.parquet") == 0
    assert documents_of(here / "out") == BYTES + BYTES


def test_arrays_are_lists_too(here):
    (here / "own.py").write_text("import numpy\ndef f(texts):\n    return [numpy.frombuffer(t.encode(), 'u1')"
                                 ".astype('u8') for t in texts]\n")
    sys.modules.pop("own", None)
    save_json(here / "t", TEXTS)
    assert imports("t", tokenizer="own:f") == 0
    assert documents_of(here / "out") == BYTES


def test_a_tokenizer_is_given_batches_that_are_bounded(here, monkeypatch):
    monkeypatch.setattr(texts_module, "_MOST_TEXTS", 10)
    monkeypatch.setattr(texts_module, "_MOST_CHARACTERS", 1000)
    save_json(here / "t", ["x"] * 25 + ["x" * 600] * 3)
    assert imports("t", tokenizer="mine:logged") == 0
    assert (here / "calls").read_text().split() == ["10", "10", "7", "1"]


def test_pairs_have_names_of_their_own():
    assert tokens_options.pair_names(["a/x.jsonl", "b/x.parquet", "x-2.jsonl", "c/x", ".h.json.gz", ".jsonl"]) == [
        "x", "x-3", "x-2", "x-4", "h", "texts"]


GOOD = '{"text": "abc"}\n'


@pytest.mark.parametrize(("line", "message"), [
    ("nothing", "t: line 2: is no JSON: Expecting value at column 1; expected an object on each line"),
    ('{"text": "a"', "t: line 2: is no JSON: Expecting ',' delimiter at column 13; expected"),
    (b'{"text": "\xff"}', "t: line 2: is no UTF-8, expected a JSON object in UTF-8"),
    ("[" * 100_000, "t: line 2: is no JSON that can be read: "),
    ('["abc"]', "t: line 2: expected a JSON object, got an array"),
    ('{"content": "a", "id": 1}',
     "t: line 2: has no column text; there are content, id: name it with --column"),
    ("{}", "t: line 2: has no column text; it is empty: name it with --column"),
    ('{"text": null}', "t: line 2: column text is null, expected a text"),
    ('{"text": 1.5}', "t: line 2: column text is a number, expected a text"),
    ('{"text": ["a"]}', "t: line 2: column text is an array, expected a text")])
def test_a_line_that_is_no_text_is_named(here, capsys, line, message):
    line = line if isinstance(line, bytes) else line.encode()
    said = refused(here, capsys, GOOD.encode() + line + b"\n" + GOOD.encode())
    assert said.startswith(message), said


def test_a_line_that_is_too_long_is_named(here, capsys, monkeypatch):
    monkeypatch.setattr(texts_module, "_LONGEST_LINE", 100)
    said = refused(here, capsys, GOOD + json.dumps({"text": "x" * 100}))
    assert said == "t: line 2: has more than 100 bytes: cut its text"


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_compressed_file_that_is_cut_off_is_named(here, capsys, form):
    if form == "gzip":
        packed = gzip.compress(GOOD.encode() * 1000)
    else:
        packed = pytest.importorskip("pyarrow").Codec("zstd").compress(GOOD.encode() * 1000, asbytes=True)
    said = refused(here, capsys, packed[:-9])
    assert said.startswith("t: line ") and "cannot be read: " in said, said


@pytest.mark.parametrize(("columns", "message", "code"), [
    ({"text": ["a", None]}, "t.parquet: row 1: column text is null, expected a text", 3),
    ({"text": [1, 2]}, "t.parquet: column text is int64, expected texts", 2),
    ({"body": ["a"], "id": [1]}, "t.parquet: has no column text; there are body, id: name it with --column", 2)])
def test_a_row_that_is_no_text_is_named(here, capsys, columns, message, code):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), "t.parquet")
    assert imports("t.parquet") == code
    assert capsys.readouterr().err == f"millrace: {message}\n"
    assert not (here / "out").exists()


def test_damaged_parquet_is_named(here, capsys):
    save_parquet(here / "t.parquet", TEXTS * 100, compression="none", use_dictionary=False)
    data = bytearray((here / "t.parquet").read_bytes())
    assert "is no Parquet file, or damaged" in refused(here, capsys, bytes(data[:-20]))
    at = data.index(b"zwei") - 1
    data[at:at + 9] = b"\xff" * 9
    said = refused(here, capsys, bytes(data))
    assert said.startswith("t: "), said


@pytest.mark.parametrize(("body", "message"), [
    ("return [[1]] * (len(texts) - 1)",
     "t: lines 1 to 2: tokenizer own:f gave 1 lists for 2 texts, expected a list of integers for each text"),
    ("return {'input_ids': [[1], [2]]}", "t: lines 1 to 2: tokenizer own:f gave dict, expected a list of"),
    ("return None", "t: lines 1 to 2: tokenizer own:f gave NoneType, expected"),
    ("return 'ab'", "t: lines 1 to 2: tokenizer own:f gave str, expected"),
    ("return [[1], 2]", "t: line 2: tokenizer own:f gave int, expected"),
    ("return [[1], None]", "t: line 2: tokenizer own:f gave NoneType, expected"),
    ("return [[1], [[2]]]", "t: line 2: tokenizer own:f gave list of lists, expected"),
    ("return [[1], [2, [3]]]", "t: line 2: tokenizer own:f gave list of lists, expected"),
    ("return [[1], [2, 1.5]]", "t: line 2: tokenizer own:f gave 1.5 as token 1, expected"),
    ("return [[1], [2, 'b']]", "t: line 2: tokenizer own:f gave 'b' as token 1, expected"),
    ("return [[1], [2, None]]", "t: line 2: tokenizer own:f gave None as token 1, expected"),
    ("return [[1], [7, -1]]", "t: line 2: token 1 is -1, expected 0 to 65535 with --dtype uint16"),
    ("return [[1, 2, 3], [7, 70000]]",
     "t: line 2: token 1 is 70000, expected 0 to 65535 with --dtype uint16: --dtype int32 has room for it"),
    ("return [[1], [2**31]]", "t: line 2: token 0 is 2147483648, expected 0 to 65535 with --dtype uint16"),
    ("return [[1], [2**63, -1]]", "t: line 2: token 0 is 9223372036854775808, expected 0 to 65535"),
    ("return [[1], [0, 2**70]]", f"t: line 2: token 1 is {2**70}, expected 0 to 65535 with")])
def test_what_a_tokenizer_may_not_give_is_named(here, capsys, body, message):
    said = refused(here, capsys, GOOD * 2, tokenizer=f"def f(texts):\n    {body}\n")
    assert said.startswith(message), said


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_a_token_above_what_a_dataset_may_have_fits_no_type(here, capsys, dtype):
    said = refused(here, capsys, GOOD, "--dtype", dtype, tokenizer="def f(texts): return [[2**31]]")
    assert said == f"t: line 1: token 0 is 2147483648, expected 0 to 2147483647 with --dtype {dtype}"


def test_a_tokenizer_that_raises_is_named_with_the_text(here, capsys):
    (here / "own.py").write_text("def f(texts):\n    return [[1 // (len(t) - 4)] for t in texts]\n")
    sys.modules.pop("own", None)
    (here / "t").write_text(GOOD + '{"text": "four"}\n' + GOOD)
    assert imports("t", tokenizer="own:f") == 1
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("millrace: t: line 2: tokenizer own:f raised ZeroDivisionError: ")
    # The frames are those of the user's function alone.
    assert "own.py" in said and "_import" not in said
    assert not (here / "out").exists()


@pytest.mark.parametrize(("name", "message", "code"), [
    ("mine", "mine: expected MODULE:FUNCTION", 2), ("mine:nothing", "module mine has no nothing", 2),
    ("nowhere:f", "there is no module nowhere in ", 2),
    ("mine:TEXT", "tokenizer mine:TEXT is no function but str: expected one that takes a list", 2),
    ("broken:f", "the module of tokenizer broken:f raised ValueError: not today", 1)])
def test_a_tokenizer_that_cannot_be_found_is_named(here, capsys, name, message, code):
    (here / "mine.py").write_text("TEXT = 'a'\n")
    (here / "broken.py").write_text("raise ValueError('not today')\n")
    save_json(here / "t", TEXTS)
    assert imports("t", tokenizer=name) == code
    assert f"millrace: {message}" in capsys.readouterr().err
    assert not (here / "out").exists()


def test_a_tokenizer_in_another_folder_is_found(here):
    (here / "elsewhere").mkdir()
    (here / "elsewhere" / "far.py").write_text(TOKENIZER)
    save_json(here / "t", TEXTS)
    assert imports("t", "--plugin", "far=elsewhere", tokenizer="far:tokenize") == 0
    assert documents_of(here / "out") == BYTES


@pytest.mark.parametrize(("words", "message"), [
    (["t", "--dtype", "uint8", "--eos", "256"], "--eos is 256, expected 0 to 255 with --dtype uint8"),
    (["t", "./t"], "./t: is named twice: name each file once"),
    (["missing"], "missing: No such file or directory"), (["."], ".: is no file, expected JSON lines")])
def test_arguments_that_cannot_be_met_are_named(here, capsys, words, message):
    save_json(here / "t", TEXTS)
    assert imports(*words) == 2
    assert capsys.readouterr().err.startswith(f"millrace: {message}")
    assert not (here / "out").exists()


@pytest.mark.parametrize("words", [["--eos", "-1"], ["--eos", str(2**31)], ["--dtype", "uint32"]])
def test_options_that_are_none_are_refused(here, capsys, words):
    with pytest.raises(SystemExit) as error:
        imports("t", *words)
    assert error.value.code == 2 and words[0] in capsys.readouterr().err


def test_texts_without_a_token_are_no_dataset(here, capsys):
    said = refused(here, capsys, '{"text": ""}\n', code=2)
    assert said == "t: the texts have no token, expected at least one: give files with texts"
    assert imports("t", "--eos", 0) == 0 and documents_of(here / "out") == [[0]]


def test_a_file_without_texts_is_an_empty_pair(here):
    save_json(here / "a", [])
    save_json(here / "b", TEXTS)
    assert imports("a", "b") == 0
    assert documents_of(here / "out") == BYTES and (here / "out" / "a.bin").stat().st_size == 0


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


def run_import(here, *words, **options):
    return subprocess.Popen([_binaries.path("millrace"), "import", "tokens", *words], cwd=here, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


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


def test_a_file_that_changes_while_it_is_read_is_refused(here, capsys):
    said = refused(here, capsys, GOOD, tokenizer="def f(texts):\n    open('t', 'a').write('\\n')\n"
                                                 "    return [[1]] * len(texts)\n")
    assert said == "t: was changed while it was read: import it when it is whole"


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


def test_memory_is_that_of_a_batch(here):
    """Texts of 120 MB, which become tokens of 240 MB, take a small part of that."""
    with open(here / "t", "wb") as file:
        for _ in range(12_000):
            file.write(b'{"text": "' + b"x" * 10_000 + b'"}\n')
    (here / "own.py").write_text("import numpy\ndef f(texts):\n    return [numpy.frombuffer(t.encode(), 'u1') "
                                 "for t in texts]\n")
    words = [sys.executable, "-c", "import resource, sys, millrace._import.main as command\n"
             "code = command.main(sys.argv[1:])\n"
             "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\nsys.exit(code)"]
    done = subprocess.run([*words, "tokens", "t", "--to", "out", "--tokenizer", "own:f"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (here / "out" / "t.bin").stat().st_size == 240_000_000
    assert int(done.stdout.split()[-1]) < 250_000, "kB"


def import_texts_of_both_forms(here):
    """Imports JSON and Parquet with the program. Returns the documents."""
    texts = [f"{number} " * (number % 40) for number in range(300)]
    save_json(here / "a.jsonl", texts[:200])
    save_parquet(here / "b.parquet", texts[200:])
    done = run_import(here, "a.jsonl", "b.parquet", "--tokenizer", "mine:tokenize", "--eos", "0",
                      "--to", "out")
    assert done.communicate()[0] == "source: tokens\n" and done.returncode == 0
    return [[*text.encode(), 0] for text in texts]


def test_imported_texts_are_inspected(here):
    import_texts_of_both_forms(here)
    seen = subprocess.run([_binaries.path("millrace"), "inspect", "out"], cwd=here, capture_output=True,
                          text=True, check=False)
    assert seen.returncode == 0, seen.stderr
    for line in ("kind             tokens\n", "documents        300\n", "dtype            uint16\n",
                 "  a.bin: 200 sequences, ", "\nsource: tokens\n"):
        assert line in seen.stdout


def test_imported_texts_are_served_token_for_token(here):
    assert import_texts_of_both_forms(here) == served(here / "out")


def served(folder):
    """The documents that a daemon delivers, by their ids."""
    pipeline = {"millrace": 1, "dataset": "data", "source": "tokens", "shuffle": {"seed": 3},
                "batch": {"size": 16, "remainder": "keep"}}
    found = {}
    with millrace.local({"data": folder}, pipeline=pipeline) as session:
        for _, batch in session.next_epoch():
            values, offsets = batch["tokens"].numpy(), batch["tokens_splits"].numpy()
            for row, example in enumerate(batch["example_id"].numpy()):
                found[int(example)] = values[offsets[row]:offsets[row + 1]].tolist()
    return [found[example] for example in sorted(found)]


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
