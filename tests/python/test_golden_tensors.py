"""The recorded expressions and the chess pipeline of shared/golden-tensors, through the targets of a
graph dataset: every case is checked as a user would meet it."""

import json
import pathlib
import subprocess

import numpy
import plain_tensors as plain
import pytest
from conftest import SHARED
from plain_tensors import Tensor

import millrace
from millrace import _binaries

GOLDEN = SHARED / "golden-tensors"
PLACES = ("worker", "consumer")


@pytest.fixture(scope="module")
def golden():
    if not GOLDEN.is_dir():
        pytest.skip(f"the golden files are not at {GOLDEN}")
    return json.loads((GOLDEN / "expr.json").read_text())


def values_of(dtype, values):
    """Recorded values: floats are C99 hex, and nan."""
    if dtype in plain.FLOATS:
        return plain.packed([float.fromhex(value) for value in values], dtype, (-1,))
    return Tensor(dtype, numpy.array(values, dtype))


def columns(golden):
    return {name: values_of(column["dtype"], column["values"])
            for name, column in golden["columns"].items()}


def named(sources, place=None):
    """Definitions by which the columns have the names that the expressions use."""
    at = {} if place is None else {"at": place}
    return {name: {"cast": f"target.{name}", "dtype": tensor.dtype, **at}
            for name, tensor in sources.items()}


def steps_between(got, expected):
    """How many floats lie between two. Zeros of different signs are 1 apart; NaNs are equal."""
    signed = f"i{got.itemsize}"
    low = numpy.iinfo(signed).min
    places = [one.view(signed).astype(object) for one in (got, expected)]
    places = [numpy.where(one < 0, low - one - 1, one) for one in places]
    apart = numpy.abs(places[0] - places[1])
    apart[numpy.isnan(got) & numpy.isnan(expected)] = 0
    return apart


@pytest.mark.parametrize("place", PLACES)
def test_every_recorded_expression_has_its_type_and_values(golden, tmp_path, place):
    sources = columns(golden)
    assert len(golden["cases"]) == 83
    definitions = {f"e{i}": {"expr": case["expr"], "with": golden["with"], "at": place}
                   for i, case in enumerate(golden["cases"])}
    data = plain.write(tmp_path / "g", sources)
    session = millrace.reference(plain.pipeline(
        sources, {**named(sources), **definitions}, output=[*definitions]), data)
    made = list(plain.batches(session))
    ids = [example for batch in made for example in batch.example_ids]
    assert ids == list(range(12)) and len(made) == 2
    for i, case in enumerate(golden["cases"]):
        assert session.spec[f"e{i}"].computed == (place == "consumer")
        expected = values_of(case["dtype"], case["values"])
        parts = [batch[f"e{i}"] for batch in made]
        assert {part.dtype for part in parts} == {case["dtype"]}, case["expr"]
        got = numpy.concatenate([part.numpy() for part in parts])
        if case["dtype"] in plain.FLOATS:
            assert (steps_between(got, expected.array) <= case["ulp"]).all(), (case, got)
        else:
            assert got.tolist() == expected.array.tolist(), case


def test_every_wrong_expression_is_refused_at_its_column(golden, tmp_path):
    """By millrace.reference, and by `millrace inspect` of a file, with line and column."""
    sources = columns(golden)
    data = plain.write(tmp_path / "g", sources)
    assert len(golden["errors"]) == 17
    for error in golden["errors"]:
        for quote in ("'", '"'):
            lines = [f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in named(sources).items()]
            text = "\n".join(["millrace: 1", "dataset: g", "source: {roots: all}",
                              f"targets: [{', '.join(sources)}]", "batch: {size: 8}", "tensors:",
                              *lines, f"  wrong: {{expr: {quote}{error['expr']}{quote}}}", ""])
            before = f"  wrong: {{expr: {quote}"
            place = f"{len(text.splitlines())}:{len(before) + error['column']}"
            expected = f"tensors.wrong.expr: column {error['column']}: "
            with pytest.raises(millrace.ConfigError) as raised:
                millrace.reference(text, data)
            path = tmp_path / "wrong.yaml"
            path.write_text(text)
            done = subprocess.run([_binaries.path("millrace"), "inspect", str(path), "--dataset",
                                   f"g={data}"], capture_output=True, text=True, check=False)
            assert done.returncode != 0, error
            for message in (str(raised.value), done.stderr):
                assert f":{place}: {expected}" in message, (error, message)
                assert error["about"] in message.split(expected)[1], (error, message)


def chess():
    """The pipeline of chess.yaml, its records being the rows `d` and `s` of a graph dataset."""
    index = [i // 6 + 4 * (i % 6) for i in range(24)]
    scale = [1 if i // 6 % 2 == 0 else -1 for i in range(24)]
    assert f"index: {index}".replace(" ", "") in (GOLDEN / "chess.yaml").read_text().replace(" ", "")
    return {
        "bits": {"bits": "target.d", "order": "msb"},
        "planes": {"slice": "bits", "range": [0, 1536], "shape": [8, 8, 24]},
        "board": {"take": "planes", "axis": -1, "index": index, "scale": scale, "dtype": "float32"},
        "flags": {"slice": "bits", "range": [1536, 1546], "dtype": "float32"},
        "mate": {"slice": "bits", "range": [1546, 1547], "squeeze": True},
        "sf": {"cast": "target.s", "dtype": "float64"},
        "score": {"expr": "mate ? sign(sf) * (A + (1 - A) / (B - 1) * max(0, B - abs(sf))) : "
                          "A * tanh(sf / K)", "with": {"A": 0.9, "B": 50, "K": 400},
                  "dtype": "float32"},
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("dtype, ulp", [("float32", 0), ("float64", 4)])
def test_the_chess_pipeline_gives_the_recorded_values(golden, tmp_path, place, dtype, ulp):
    expected = numpy.load(GOLDEN / "expected.npz")
    sources = {"d": Tensor("uint8", expected["d"]), "s": Tensor("int64", expected["s"])}
    assert sources["d"].array.shape == (600, 194)
    definitions = chess()
    for name in ("board", "flags", "score"):
        definitions[name] |= {"dtype": dtype, "at": place}
    data = plain.write(tmp_path / "g", sources)
    session = millrace.reference(plain.pipeline(
        sources, definitions, output=["board", "flags", "score", "mate"],
        batch={"size": 60}), data)
    seen = 0
    for batch in plain.batches(session):
        ids = list(batch.example_ids)
        seen += len(ids)
        for name in ("board", "flags"):
            got = batch[name].numpy()
            assert got.dtype == dtype and not (numpy.signbit(got) & (got == 0)).any()
            numpy.testing.assert_array_equal(got, expected[name][ids].astype(dtype))
        assert batch["board"].shape == (60, 8, 8, 24)
        assert batch["mate"].tolist() == expected["mate"][ids].tolist()
        score = batch["score"].numpy()
        assert score.dtype == dtype
        assert (steps_between(score, expected[f"score_{dtype}"][ids]) <= ulp).all()
    assert seen == 600


def test_the_two_wordings_of_the_golden_files_are_the_same_pipeline(golden):
    """chess.yaml needs the kind `records`; this file has its operations in another form."""
    text = (GOLDEN / "chess.yaml").read_text()
    for part in ("sign(sf) * (A + (1 - A) / (B - 1) * max(0, B - abs(sf)))", "A * tanh(sf / K)",
                 "range: [0, 1536], shape: [8, 8, 24]", "range: [1536, 1546]",
                 "range: [1546, 1547], squeeze: true"):
        assert part in text
    assert pathlib.Path(GOLDEN / "expected.npz").is_file()
