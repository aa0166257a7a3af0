"""`millrace import stream`: values, types, errors, and going on after a kill."""

import io
import json
import os
import subprocess
import sys
import textwrap

import numpy
import pytest
from conftest import in_a_fork
from kills import Killed, content
from records import example, records_of

import millrace
from millrace import _binaries
from millrace._import import folder as folders
from millrace._import import main as command
from millrace._import.progress import Progress
from millrace._import.shapes import Shapes
from millrace._import.values import Converter


def run_import(*words, cwd):
    return subprocess.run([_binaries.path("millrace"), "import", *map(str, words)], cwd=cwd,
                          capture_output=True, text=True, check=False)


def import_stream(cwd, text, *words):
    """Imports what the function `examples` of a module with this text gives into the folder out."""
    (cwd / "mine.py").write_text(textwrap.dedent(text))
    return run_import("stream", "mine:examples", "--to", "out", *words, cwd=cwd)


def converted(value, **options):
    return Converter(Shapes(), **options).convert({"x": value}, 17)["x"]


MIXED = """
    import numpy

    def examples(n=5):
        for i in range(n):
            yield {"board": bytes([i]) * 4, "text": "é" * i, "score": -i, "good": i > 2,
                   "weight": i / 2, "wave": numpy.arange(3 * (i + 1), dtype="f4").reshape(-1, 3),
                   "moves": [i, i + 1], "meta": {"page/no": i, "none": None}, "nothing": []}
"""
MIXED_SOURCE = ('source: {records: {board: "bytes[4]", text: "bytes[*]", score: int64, good: int64, '
                'weight: float32, wave: "float32[*, 3]", moves: "int64[2]", '
                'meta_page_no: {feature: "meta/page/no", type: int64}}}\n')


def test_a_stream_becomes_canonical_examples(tmp_path):
    done = import_stream(tmp_path, MIXED, "--shard-records", 2)
    assert done.returncode == 0, done.stderr
    assert done.stdout == MIXED_SOURCE
    assert "nothing: is empty in every example" in done.stderr
    assert "out: 5 examples in 3 shards" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "import.json", *(f"part-0000{i}-of-00003.tfrecord" for i in range(3))]
    assert records_of(tmp_path / "out") == [
        example({"board": [bytes([i]) * 4], "text": [("é" * i).encode()], "score": [-i],
                 "good": [int(i > 2)], "weight": [i / 2],
                 "wave": [float(v) for v in range(3 * (i + 1))], "moves": [i, i + 1],
                 "meta/page/no": [i]}) for i in range(5)]


def test_an_imported_stream_is_read_back_value_for_value(tmp_path):
    done = import_stream(tmp_path, MIXED, "--shard-records", 2)
    assert done.returncode == 0, done.stderr
    pipeline = "millrace: 1\ndataset: out\nbatch: {size: 2, remainder: keep}\n" + done.stdout
    rows = []
    for _, batch in millrace.reference(pipeline, tmp_path / "out").next_epoch():
        batch = {name: numpy.asarray(batch[name]) for name in batch}
        starts = {name: 0 for name in ("text", "wave")}
        for row in range(len(batch["score"])):
            read = {}
            for name in ("text", "wave"):
                length = int(batch[f"{name}.length"][row]) if f"{name}.length" in batch else int(
                    batch[f"{name}_splits"][row + 1] - batch[f"{name}_splits"][row])
                read[name] = batch[name][starts[name]:starts[name] + length]
                starts[name] += length
            for name in ("board", "score", "good", "weight", "moves", "meta_page_no"):
                read[name] = batch[name][row]
            rows.append(read)
    assert len(rows) == 5
    for i, read in enumerate(rows):
        assert read["board"].tobytes() == bytes([i]) * 4
        assert read["text"].tobytes() == ("é" * i).encode()
        assert (read["score"], read["good"], read["weight"]) == (-i, i > 2, i / 2)
        assert read["wave"].dtype == numpy.float32
        assert read["wave"].tolist() == numpy.arange(3 * (i + 1)).reshape(-1, 3).tolist()
        assert read["moves"].tolist() == [i, i + 1] and read["meta_page_no"] == i


def test_a_folder_whose_import_has_not_ended_is_refused(tmp_path):
    (tmp_path / "import.unfinished.json").write_text("{}")
    with pytest.raises(millrace.JobError, match="run the same `millrace import` again"):
        millrace.reference("millrace: 1\ndataset: d\nsource: {records: {x: int64}}\n"
                           "batch: {size: 2}\n", tmp_path)


def test_a_shard_ends_with_the_record_that_reaches_its_bytes(tmp_path):
    done = import_stream(tmp_path, "examples = [{'x': bytes(100)}] * 5", "--shard-bytes", 200)
    assert done.returncode == 0, done.stderr
    sizes = [path.stat().st_size for path in sorted((tmp_path / "out").glob("*.tfrecord"))]
    one = len(example({"x": [bytes(100)]})) + 16
    assert one * 2 >= 200 > one and sizes == [one * 2, one * 2, one]


def test_a_module_lies_where_a_plugin_says(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "asr.py").write_text("def spoken(lang, n=2):\n"
                                             "    return [{'l': lang}] * n\n")
    words = ["stream", "asr:spoken", "--to", "out", "--plugin", "asr=lib"]
    done = run_import(*words, cwd=tmp_path)
    assert done.returncode == 2 and "missing a required argument: 'lang'" in done.stderr
    assert not (tmp_path / "out").exists()
    done = run_import(*words, "--args", '{"lang": "de"}', cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert records_of(tmp_path / "out") == [example({"l": [b"de"]})] * 2
    done = run_import("stream", "asr:spoken", "--to", "other", cwd=tmp_path)
    assert done.returncode == 2 and "there is no module asr in" in done.stderr


@pytest.mark.parametrize(("value", "expected"), [
    (True, [1]), (-(1 << 63), [-(1 << 63)]), (numpy.uint64(7), [7]), ([1, 2], [1, 2]),
    (numpy.arange(4, dtype=">i2").reshape(2, 2).T, [0, 2, 1, 3]), (0.5, [0.5]),
    (numpy.float16(0.1), [float(numpy.float16(0.1))]), (float("inf"), [numpy.inf]),
    (numpy.array([0.5, -0.0]), [0.5, -0.0])])
def test_a_number_becomes_ints_or_floats(value, expected):
    array = converted(value)
    kind = "float32" if isinstance(expected[0], float) else "int64"
    assert array.dtype == kind and array.tobytes() == numpy.array(expected, kind).tobytes()
    assert numpy.isnan(converted(float("nan")))


@pytest.mark.parametrize(("value", "expected"), [
    ("é", "é".encode()), (b"a\0", b"a\0"), (bytearray(b"x"), b"x"), (["a", b"b"], [b"a", b"b"]),
    (numpy.array(["a", "bc"]), [b"a", b"bc"]), (numpy.array("a"), b"a"),
    (numpy.array([b"a\0", b"b"], object), [b"a\0", b"b"])])
def test_a_text_becomes_bytes(value, expected):
    assert converted(value) == expected


@pytest.mark.parametrize(("value", "message"), [
    (0.1, "0.1 of float64 would not be the same as float32"),
    (numpy.array([1.0, 1e300]), "1e.300 of float64"),
    (1 << 63, "9223372036854775808 is beyond int64"),
    (numpy.array([1 << 63], "u8"), "9223372036854775808 is beyond int64"),
    ([0, 1 << 80], "1208925819614629174706176 is beyond int64")])
def test_a_value_changes_only_if_that_is_allowed(value, message):
    with pytest.raises(millrace.DataError, match=f"example 17: x: {message}.*--allow-narrowing"):
        converted(value)
    numbers = numpy.ravel(value)
    narrow = converted(value, allow_narrowing=True)
    if numbers.dtype.kind == "f":
        with numpy.errstate(over="ignore"):
            assert (narrow == numbers.astype("f4")).all()
    else:
        assert [int(one) % (1 << 64) for one in narrow] == [int(one) % (1 << 64) for one in numbers]


@pytest.mark.parametrize(("value", "message"), [
    (1j, "complex128 cannot be a feature"), (numpy.array(["2020"], "M8[Y]"), "datetime64"),
    (object(), "object cannot be a feature"), ([1, None], "a list of NoneType and int"),
    ([[1], [1, 2]], ""), (["a", 1], "also has int"), ({"y": {1: 2}}, "/y/1: the name"),
    ({"y": [["a"], ["b"]]}, "/y: texts in an array of 2 dimensions"), ("\ud800", "surrogates")])
def test_a_value_of_another_type_is_named(value, message):
    with pytest.raises(millrace.DataError, match=f"example 17: x.*{message}"):
        converted(value)


@pytest.mark.parametrize(("values", "message"), [
    ([1, 1.5], "example 1: x: is float32, but was int64 in the examples before"),
    ([[1, 2], 3], r"example 1: x: has the shape \[\], but \[2\] in the examples before"),
    ([numpy.zeros((2, 3)), numpy.zeros((2, 4))],
     r"has the shape \[2, 4\], but \[2, 3\] in the examples before: only the first")])
def test_examples_that_no_type_fits_are_refused(values, message):
    converter = Converter(Shapes())
    converter.convert({"x": values[0]}, 0)
    with pytest.raises(millrace.DataError, match=message):
        converter.convert({"x": values[1]}, 1)


@pytest.mark.parametrize(("examples", "types"), [
    ([{"x": [1, 2]}, {"x": [3, 4]}], 'x: "int64[2]"'),
    ([{"x": [1, 2]}, {"x": [3]}], 'x: "int64[*]"'),
    ([{"x": [1, 2]}, {"x": []}], 'x: "int64[*]"'),
    ([{"x": [1, 2]}, {}], 'x: "int64[*]"'),
    ([{"x": numpy.ones((1, 2, 3))}, {"x": numpy.ones((0, 2, 3))}], 'x: "float32[*, 2, 3]"'),
    ([{"x": 1}, {}], "x: {type: int64, default: 0}"),
    ([{"x": b"ab"}, {"x": b"cd"}], 'x: "bytes[2]"'),
    ([{"x": b"ab"}, {}], 'x: "bytes[*]"'),
    ([{"x": b""}], 'x: "bytes[*]"'),
    ([{"é y": 1, "_y": 2, "1": 3}],
     '_y_2: {feature: "é y", type: int64}, _y: int64, _1: {feature: "1", type: int64}')])
def test_the_source_line_says_what_all_examples_have(examples, types):
    shapes = Shapes()
    converter = Converter(shapes)
    for number, one in enumerate(examples):
        converter.convert(one, number)
    again = Shapes(json.loads(json.dumps(shapes.state())))
    assert again.source_line() == shapes.source_line() == (f"source: {{records: {{{types}}}}}", [])


def test_only_the_features_that_are_named_are_taken(tmp_path):
    text = "examples = [{'a': 1, 'b': {'c': 2, 'd': None}, 'bad': 1j}] * 2"
    done = import_stream(tmp_path, text, "--features", "a,b")
    assert done.returncode == 0, done.stderr
    assert records_of(tmp_path / "out") == [example({"a": [1], "b/c": [2]})] * 2
    done = run_import("stream", "mine:examples", "--to", "other", "--features", "a,q", cwd=tmp_path)
    assert done.returncode == 3
    assert "example 0: has no feature q; there are a, b/c, b/d, bad" in done.stderr


def test_an_error_of_the_users_code_begins_with_their_own_traceback(tmp_path):
    done = import_stream(tmp_path, """
        def decode(i):
            return {"x": 1 // (3 - i)}

        def examples():
            for i in range(5):
                yield decode(i)
    """, "--shard-records", 2)
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    begin = lines.index("Traceback (most recent call last):")
    assert "mine.py" in lines[begin + 1] and "millrace" not in "".join(lines[begin:-1])
    assert lines[-2].startswith("ZeroDivisionError")
    assert "raised ZeroDivisionError at example 3; when that is mended, run the same" in lines[-1]
    # The first shard stays, and the import goes on once it is mended.
    assert "shard-00000.whole" in os.listdir(tmp_path / "out")
    done = import_stream(tmp_path, "def examples():\n    return ({'x': i} for i in range(5))",
                         "--shard-records", 2)
    assert done.returncode == 3 and "example 1 is another one than when" in done.stderr
    done = import_stream(tmp_path, "examples = [{'x': 0}, {'x': 0}, {'x': 7}]",
                         "--shard-records", 2)
    assert done.returncode == 0, done.stderr
    assert records_of(tmp_path / "out") == [example({"x": [x]}) for x in (0, 0, 7)]


def test_a_module_that_cannot_be_imported_shows_its_traceback(tmp_path):
    done = import_stream(tmp_path, "import json\njson.loads('{')")
    assert done.returncode == 1 and "mine:examples raised JSONDecodeError" in done.stderr
    assert "mine.py\", line 2" in done.stderr and not (tmp_path / "out").exists()


def test_a_stream_without_examples_leaves_nothing(tmp_path):
    done = import_stream(tmp_path, "examples = []")
    assert done.returncode == 2 and "the source has no example" in done.stderr
    assert not (tmp_path / "out").exists()
    (tmp_path / "out").mkdir()
    assert import_stream(tmp_path, "examples = []").returncode == 2
    assert os.listdir(tmp_path / "out") == []


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "notes").write_text("mine")
    done = import_stream(tmp_path, MIXED)
    assert done.returncode == 2 and "folder out is not empty" in done.stderr
    assert os.listdir(tmp_path / "out") == ["notes"]


def test_a_finished_import_says_so_again(tmp_path):
    first = import_stream(tmp_path, MIXED)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = import_stream(tmp_path, "raise SystemExit('is not read again')")
    assert again.returncode == 0 and again.stdout == first.stdout
    assert "out: is finished: 5 examples in 1 shard" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    other = import_stream(tmp_path, MIXED, "--shard-records", 3)
    assert other.returncode == 2
    assert "began with shard-records: null, now it is 3" in other.stderr


def test_a_full_disk_says_how_to_go_on(tmp_path):
    (tmp_path / "mine.py").write_text("examples = [{'x': bytes(100_000)}] * 50")
    # The command may write files of 3 MB only.
    words = [sys.executable, "-c", "import resource, sys, millrace._import.main as command\n"
             "resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))\n"
             "sys.exit(command.main(sys.argv[1:]))"]
    rest = ["stream", "mine:examples", "--to", "out", "--shard-records"]
    done = subprocess.run([*words, *rest, "40"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 1, done.stderr
    assert "shard-00000.writing: cannot be written: File too large; make room, and run" in done.stderr
    assert not (tmp_path / "out").exists()
    done = subprocess.run([*words, *rest, "20"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


def numbered(point=lambda: None, n=7):
    for i in range(n):
        point()
        yield {"i": i, "text": "x" * i, "rag": [0] * (i % 3)}


def import_numbers(monkeypatch, target, point, examples=numbered):
    """The exit code of an import in a process that is killed at a point; None: it is not."""
    def work():
        at = Killed(monkeypatch, point).at if point is not None else lambda: None
        module = type(sys)("numbers_to_import")
        module.examples = lambda: examples(at)
        sys.modules["numbers_to_import"] = module
        sys.stdout = sys.stderr = io.StringIO()
        return command.main(["stream", "numbers_to_import:examples", "--to", str(target),
                             "--shard-records", "2"])
    return in_a_fork(work)


def test_an_import_goes_on_after_a_kill_at_every_point(tmp_path, monkeypatch):
    assert import_numbers(monkeypatch, tmp_path / "whole", None) == 0
    expected = content(tmp_path / "whole")
    assert len(expected) == 5
    point, code = 0, 9
    while code == 9:
        target = tmp_path / f"killed-{point}"
        code = import_numbers(monkeypatch, target, point)
        names = os.listdir(target) if target.exists() else []
        # A folder that looks like a dataset says that it is none yet.
        assert folders.UNFINISHED in names or folders.JOURNAL in names or not any(
            name.startswith("part-") for name in names)
        whole = sum(name.endswith(".whole") for name in names)
        if code == 9:
            assert import_numbers(monkeypatch, target, None) == 0
        assert content(target) == expected, f"killed at point {point}, with {whole} whole shards"
        point += 1
    assert code == 0 and point > 50


def test_an_import_that_is_killed_again_and_again_comes_to_its_end(tmp_path, monkeypatch):
    assert import_numbers(monkeypatch, tmp_path / "whole", None) == 0
    runs, code = 1, 9
    while code == 9:
        code = import_numbers(monkeypatch, tmp_path / "out", 24)
        runs += 1
        assert runs < 20
    assert runs > 3
    assert content(tmp_path / "out") == content(tmp_path / "whole")


def killed_after_two_shards(tmp_path, monkeypatch):
    def dies(at):
        yield from numbered(at, 4)
        os._exit(9)
    assert import_numbers(monkeypatch, tmp_path / "out", None, dies) == 9
    assert sum(name.endswith(".whole") for name in os.listdir(tmp_path / "out")) == 2


def outcome(capsys, *words):
    code = command.main(["stream", "numbers_to_import:examples", *map(str, words)])
    return code, capsys.readouterr().err


def test_other_arguments_do_not_go_on(tmp_path, monkeypatch, capsys):
    killed_after_two_shards(tmp_path, monkeypatch)
    code, text = outcome(capsys, "--to", tmp_path / "out", "--shard-records", 3)
    assert code == 2 and "began with shard-records: 2, now it is 3: use the same" in text
    assert sum(name.endswith(".whole") for name in os.listdir(tmp_path / "out")) == 2


@pytest.mark.parametrize("cut", [None, 5])
def test_a_shard_that_was_changed_is_noticed(tmp_path, monkeypatch, capsys, cut):
    killed_after_two_shards(tmp_path, monkeypatch)
    shard = tmp_path / "out" / "shard-00001.whole"
    if cut is None:
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:-cut])
    code, text = outcome(capsys, "--to", tmp_path / "out", "--shard-records", 2)
    assert code == 3 and "remove the folder and import again" in text
    assert ("is gone" if cut is None else "expected") in text


def test_a_journal_that_is_none_is_refused(tmp_path, capsys):
    (tmp_path / folders.UNFINISHED).write_text('{"millrace_import": 2}')
    code, text = outcome(capsys, "--to", tmp_path)
    assert code == 3 and "is no journal of version 1, but of 2" in text
    (tmp_path / folders.UNFINISHED).write_text("{")
    code, text = outcome(capsys, "--to", tmp_path)
    assert code == 3 and "is no journal of an import" in text


def test_a_source_that_has_become_shorter_does_not_go_on(tmp_path, monkeypatch):
    killed_after_two_shards(tmp_path, monkeypatch)
    assert import_numbers(monkeypatch, tmp_path / "out", None, lambda at: numbered(at, 3)) == 3
    assert import_numbers(monkeypatch, tmp_path / "out", None, lambda at: numbered(at, 4)) == 0
    assert len(records_of(tmp_path / "out")) == 4


def test_two_imports_do_not_write_into_one_folder(tmp_path):
    first = folders.Folder(tmp_path / "out", {})
    with pytest.raises(millrace.ConfigError, match="another import writes into this folder"):
        folders.Folder(tmp_path / "out", {})
    first.close()
    folders.Folder(tmp_path / "out", {}).close()


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("out", [Terminal(), io.StringIO()])
def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(out):
    now = [0.0]
    with Progress(1000, out, lambda: now[0]) as progress:
        progress.begin(100, 1_000_000, 100)
        progress.set(101, 1_010_000, 101)
        now[0] = 10.0
        progress.set(400, 4_000_000, 400)
    line = "400 examples, 4.0 MB, 30 examples/s, 0.3 MB/s, 0:20 left"
    text = out.getvalue()
    if out.isatty():
        assert text == f"\r\033[Kimporting [###########.................]  40 % {line}" * 2 + "\n"
    else:
        assert text == f"importing  40 % {line}\n" * 2


def test_a_python_without_the_package_says_how_to_install_it(tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    # A folder of this name is not the package.
    (tmp_path / "millrace").mkdir()
    for python, expected in (("bare/bin/python", "bare/bin/python: install it with pip install"),
                             ("none", "none cannot be run: name a Python that has the package")):
        done = subprocess.run([_binaries.path("millrace"), "import", "stream", "a:b", "--to", "out"],
                              cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={**os.environ, "MILLRACE_PYTHON": str(tmp_path / python)})
        assert done.returncode == 2 and expected in done.stderr, done.stderr
        assert "millrace import needs the Python package" in done.stderr
    assert not (tmp_path / "out").exists()


def test_an_argument_that_is_wrong_is_named(tmp_path):
    for words, message in ((["hf"], "--to"), (["stream", "a", "--to", "out"], "MODULE:FUNCTION"),
                           (["stream", "a:b", "--to", "out", "--shard-records", "0"], "from 1 on"),
                           (["stream", "a:b", "--to", "out", "--plugin", "a"], "NAME=PATH"),
                           (["stream", "a:b", "--to", "out", "--args", "[]"], "map of JSON"),
                           (["lmdb"], "invalid choice: 'lmdb'")):
        done = run_import(*words, cwd=tmp_path)
        assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_an_interrupt_leaves_what_is_whole(tmp_path, monkeypatch, capsys):
    def interrupted():
        yield from numbered(n=5)
        raise KeyboardInterrupt
    module = type(sys)("numbers_to_import")
    module.examples = interrupted
    monkeypatch.setitem(sys.modules, "numbers_to_import", module)
    code, text = outcome(capsys, "--to", tmp_path / "out", "--shard-records", 2)
    assert code == 1 and "millrace: interrupted; run the same command again to go on" in text
    assert sorted(os.listdir(tmp_path / "out")) == [
        folders.UNFINISHED, "shard-00000.whole", "shard-00001.whole"]
