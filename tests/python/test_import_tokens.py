"""`millrace import tokens`: pairs as Megatron-LM has them, and each error."""

import gzip
import json
import os
import subprocess
import sys

import numpy
import pytest
from token_imports import (
    BYTES, GOOD, TEXTS, TOKENIZER, documents_of, files, here, imports, refused, run_import, save_json,
    save_parquet,
)

import millrace
from millrace import _binaries
from millrace._import import main as command
from millrace._import.tokens import options as tokens_options
from millrace._import.tokens import texts as texts_module
from millrace._import.tokens.pair import CODES, PairWriter, most_of


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


def test_a_file_that_changes_while_it_is_read_is_refused(here, capsys):
    said = refused(here, capsys, GOOD, tokenizer="def f(texts):\n    open('t', 'a').write('\\n')\n"
                                                 "    return [[1]] * len(texts)\n")
    assert said == "t: was changed while it was read: import it when it is whole"


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
