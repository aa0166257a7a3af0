"""The recorded expressions of shared/golden-tensors, through the targets of a graph dataset, and its
records: every case is checked as a user would meet it."""

import json
import shutil
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


@pytest.fixture
def chess(golden, tmp_path):
    """The folder of good records, which can be written."""
    return shutil.copytree(GOLDEN / "good", tmp_path / "chess")


def check_chess(session, dtype, ulp):
    """An epoch of chess.yaml in order, in batches of 60, has the recorded values."""
    expected = numpy.load(GOLDEN / "expected.npz")
    seen = 0
    for _, batch in session.next_epoch():
        ids = list(batch.example_ids)
        assert ids == list(range(seen, seen + 60))
        seen += 60
        assert batch["board"].shape == (60, 8, 8, 24) and batch["flags"].shape == (60, 10)
        for name in ("board", "flags"):
            got = batch[name].numpy()
            assert got.dtype == dtype and not (numpy.signbit(got) & (got == 0)).any()
            numpy.testing.assert_array_equal(got, expected[name][ids].astype(dtype))
        score = batch["score"].numpy()
        assert score.dtype == dtype
        assert (steps_between(score, expected[f"score_{dtype}"][ids]) <= ulp).all()
    assert seen == 600


VARIANTS = [("in_order", {}, "float32", 0), ("exact", {"batch.size": 60}, "float64", 4)]


@pytest.mark.parametrize("variant, changes, dtype, ulp", VARIANTS)
def test_the_chess_pipeline_gives_the_recorded_values(chess, variant, changes, dtype, ulp):
    session = millrace.reference((GOLDEN / "chess.yaml").read_text(), chess, variant=variant,
                                 set=changes)
    check_chess(session, dtype, ulp)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("variant, changes, dtype, ulp", VARIANTS)
def test_the_chess_pipeline_gives_the_same_values_at_either_place(chess, variant, changes, dtype, ulp,
                                                                  place):
    at = {f"tensors.{name}.at": place for name in ("board", "flags", "score")}
    session = millrace.reference((GOLDEN / "chess.yaml").read_text(), chess, variant=variant,
                                 set={**changes, **at})
    assert session.spec["score"].computed == (place == "consumer")
    check_chess(session, dtype, ulp)


@pytest.mark.parametrize("variant, changes, dtype, ulp", VARIANTS)
def test_the_chess_pipeline_gives_the_recorded_values_through_a_server(chess, variant, changes, dtype,
                                                                       ulp):
    with millrace.local({"chess": chess}, (GOLDEN / "chess.yaml").read_text(), variant=variant,
                        set=changes) as session:
        check_chess(session, dtype, ulp)


RECORDS = {"millrace": 1, "dataset": "r", "source": {"records": {"d": "bytes[194]", "s": "int64"}},
           "batch": {"size": 8, "remainder": "keep"}}


def broken(outcome):
    """Name and what is said of each file of this outcome."""
    said = json.loads((GOLDEN / "broken" / "outcomes.json").read_text())
    assert len(said) == 29
    return [(name, one) for name, one in said.items() if one["outcome"] == outcome]


def alone(name, tmp_path):
    """A dataset of one of the broken files."""
    folder = tmp_path / name.split(".")[0]
    folder.mkdir()
    shutil.copy(GOLDEN / "broken" / name, folder)
    return folder


def why(said):
    return said["why"].split(" (zlib")[0]


def test_every_damaged_file_is_an_error_with_file_record_and_offset(golden, tmp_path):
    files = broken("file_damaged")
    assert len(files) == 14
    for name, said in files:
        with pytest.raises(millrace.DataError) as raised:
            millrace.reference(RECORDS, alone(name, tmp_path))
        expected = f"{name}: at byte {said['offset']}: record {said['record']}: {why(said)}"
        assert expected in str(raised.value)


def test_every_bad_record_is_an_error_with_file_record_and_offset(golden, tmp_path):
    files = broken("bad_record")
    assert len(files) == 14
    for name, said in files:
        folder = alone(name, tmp_path)
        with pytest.raises(millrace.DataError) as raised:
            list(millrace.reference(RECORDS, folder).next_epoch())
        place = f"file {name}, record {said['record']} at byte {said['offset']}: bad_record: "
        assert place + why(said) in str(raised.value)
        drops = {**RECORDS, "source": {**RECORDS["source"], "on_error": "drop"}}
        (_, batch), = millrace.reference(drops, folder).next_epoch()
        assert said["record"] not in batch.example_ids
        assert [tuple(one) for one in batch.dropped] == [(said["record"], "bad_record")]


def test_a_server_names_a_damaged_file_and_a_bad_record(golden, tmp_path):
    with pytest.raises(millrace.Error, match=r"data_crc.tfrecord: at byte 489: record 2: checksum"):
        millrace.local({"r": alone("data_crc.tfrecord", tmp_path)}, RECORDS, attach_timeout=600)
    with (millrace.local({"r": alone("short_d.tfrecord", tmp_path)}, RECORDS) as session,
          pytest.raises(millrace.DataError, match=r"short_d.tfrecord, record 1 at byte 249: bad_record: "
                                                 r"d: 193 bytes, expected \[194\]")):
        list(session.next_epoch())


def test_every_odd_encoding_is_read_as_protobuf_reads_it(golden, tmp_path):
    folder = shutil.copytree(GOLDEN / "encodings", tmp_path / "encodings")
    expected = json.loads((folder / "expected.json").read_text())
    batches = [batch for _, batch in millrace.reference(RECORDS, folder).next_epoch()]
    scores = [score for batch in batches for score in batch["s"].tolist()]
    assert scores == [one["s"] for one in expected] and len(scores) == 19
    boards = numpy.concatenate([batch["d"].numpy() for batch in batches])
    assert (boards == boards[0]).all() and boards[0].any()
