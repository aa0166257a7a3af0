"""Operations on ragged tensors against numpy, row by row: rows of every length, also none.

The rows are the texts and arguments of proof states, read by a pipeline that computes nothing.
"""

import numpy
import plain_tensors as plain
import pytest
from conftest import pipeline
from plain_tensors import Tensor

import millrace

SLICES = [(0, 2), (1, 3), (0, 1000), (-2, 1000), (-1000, -1), (2, 1), (-1, -3), (5, 6), (0, 0),
          (-3, -1), (1000, 2000), (-1000, 1000), (1, -1), (-9223372036854775808, 9223372036854775807)]


def source(**more):
    return pipeline(size=8, fields={"text": True}, shuffle=None, **more)


def rows(batch, name):
    """The rows of a ragged tensor."""
    values, splits = batch[name].numpy(), batch[batch[name].splits].numpy()
    assert splits[0] == 0 and splits[-1] == len(values) and len(splits) == batch.num_graphs + 1
    return [values[begin:end] for begin, end in zip(splits[:-1], splits[1:], strict=True)]


def operands(batch):
    """What operations read: text as bytes, other integers as int64."""
    read = {name: [row.astype("int64") for row in rows(batch, name)]
            for name in ("local_args", "global_args")}
    read["text"] = rows(batch, "state_text")
    assert all(row.dtype == "uint8" for row in read["text"])
    return read


def each(name, function):
    return lambda of: [function(row) for row in of[name]]


def unpacked(order):
    return lambda row: numpy.unpackbits(row, bitorder=order)


def hot(depth, row):
    return plain.one_hot(Tensor("int64", row.astype("int64")), depth).array


def cuts(of):
    """Parts of the texts: some have no elements."""
    return [row[20:40].astype("int64") for row in of["text"]]


def pairs(of):
    """Two numbers of each element of a part."""
    return [numpy.stack([row % 7, row * 1000], 1) for row in cuts(of)]


# Tensors between: ragged ones with an axis within.
VIA = {
    "via_mod": {"expr": "state_text % 5"},
    "via_hot": {"one_hot": "via_mod", "depth": 5},
    "via_cut": {"slice": "state_text", "range": [20, 40]},
    "via_low": {"expr": "via_cut % 7"},
    "via_high": {"expr": "via_cut * 1000"},
    "via_pair": {"stack": ["via_low", "via_high"], "axis": -1},
    "via_grid": {"stack": ["via_hot", "via_hot"], "axis": 2},
}


def mods(of):
    return [row.astype("int64") % 5 for row in of["text"]]


def grid(of):
    return [numpy.stack([hot(5, row)] * 2, 1) for row in mods(of)]


def cases():
    """Name → definition, dtype, and how the rows follow from the operands."""
    made = {
        "bits": ({"bits": "state_text"}, "uint8", each("text", unpacked("big"))),
        "lsb": ({"bits": "state_text", "order": "lsb"}, "uint8", each("text", unpacked("little"))),
        "floats": ({"bits": "state_text", "scale": -1, "dtype": "float32"}, "float32",
                   each("text", lambda row: 0 - unpacked("big")(row).astype("float32"))),
        "grown": ({"reshape": "state_text", "shape": [1, 1]}, "uint8",
                  each("text", lambda row: row.reshape(-1, 1, 1))),
        "narrow": ({"cast": "local_args", "dtype": "int8", "scale": 3, "offset": -1}, "int8",
                   each("local_args", lambda row: (row * 3 - 1).astype("int8"))),
        "view": ({"view": "via_pair", "dtype": "uint8"}, "uint8",
                 lambda of: [row.view("uint8") for row in pairs(of)]),
        "viewed": ({"view": "state_text", "dtype": "int8"}, "int8",
                   each("text", lambda row: row.view("int8"))),
        "hot": ({"one_hot": "via_mod", "depth": 7}, "uint8",
                lambda of: [hot(7, row) for row in mods(of)]),
        "inner": ({"slice": "via_hot", "range": [-3, 4], "axis": 2}, "uint8",
                  lambda of: [hot(5, row)[:, -3:4] for row in mods(of)]),
        "taken": ({"take": "via_hot", "index": [4, 0, -2], "axis": -1}, "uint8",
                  lambda of: [hot(5, row)[:, [4, 0, -2]] for row in mods(of)]),
        "single": ({"take": "via_hot", "index": 3, "axis": 2, "dtype": "bool"}, "bool",
                   lambda of: [hot(5, row)[:, 3] != 0 for row in mods(of)]),
        "turned": ({"transpose": "via_grid", "axes": [0, 1, 3, 2]}, "uint8",
                   lambda of: [row.transpose(0, 2, 1) for row in grid(of)]),
        "flat": ({"reshape": "via_grid", "shape": [-1]}, "uint8",
                 lambda of: [row.reshape(-1, 10) for row in grid(of)]),
        "scaled": ({"reshape": "via_pair", "shape": [2], "scale": [2, -3], "dtype": "float64"},
                   "float64", lambda of: [row * numpy.array([2.0, -3.0]) + 0.0 for row in pairs(of)]),
        "joined": ({"concat": ["local_args", "global_args", "local_args"]}, "int64",
                   lambda of: [numpy.concatenate(three) for three in
                               zip(of["local_args"], of["global_args"], of["local_args"])]),
        "longer": ({"concat": ["via_cut", "state_text"], "axis": -1}, "uint8",
                   lambda of: [numpy.concatenate([row[20:40], row]) for row in of["text"]]),
        "wide": ({"concat": ["via_grid", "via_grid"], "axis": 3}, "uint8",
                 lambda of: [numpy.concatenate([row, row], 2) for row in grid(of)]),
        "high": ({"concat": ["via_pair", "via_pair"], "axis": 1}, "int64",
                 lambda of: [numpy.concatenate([row, row], 0) for row in pairs(of)]),
        "stacked": ({"stack": ["local_args", "global_args", "local_args"], "axis": 2}, "int64",
                    lambda of: [numpy.stack(three, 1) for three in
                                zip(of["local_args"], of["global_args"], of["local_args"])]),
        "sum": ({"expr": "local_args * 10 - global_args"}, "int64",
                lambda of: [a * 10 - b for a, b in zip(of["local_args"], of["global_args"])]),
        "spread": ({"expr": "state_text / 2 + text_length", "dtype": "float32"}, "float32",
                   lambda of: [(row / 2 + len(row)).astype("float32") for row in of["text"]]),
        "wider": ({"expr": "via_grid * 3 > text_length % 4"}, "bool",
                  lambda of: [row.astype("int64") * 3 > len(text) % 4
                              for row, text in zip(grid(of), of["text"])]),
    }
    for i, (a, b) in enumerate(SLICES):
        made[f"text_{i}"] = ({"slice": "state_text", "range": [a, b]}, "uint8",
                             each("text", lambda row, a=a, b=b: row[a:b]))
        made[f"args_{i}"] = ({"slice": "local_args", "range": [a, b], "axis": -1}, "int64",
                             each("local_args", lambda row, a=a, b=b: row[a:b]))
        made[f"cut_{i}"] = ({"slice": "via_low", "range": [a, b]}, "int64",
                            lambda of, a=a, b=b: [(row % 7)[a:b] for row in cuts(of)])
        made[f"pairs_{i}"] = ({"slice": "via_pair", "range": [a, b], "axis": 1}, "int64",
                              lambda of, a=a, b=b: [row[a:b] for row in pairs(of)])
    return made


def sessions(dataset, whole):
    """Batches of a pipeline and of the one that computes nothing, and parts of both."""
    for micro in (1, 9):
        made = plain.batches(millrace.reference(whole, dataset, micro=micro))
        read = plain.batches(millrace.reference(source(), dataset, micro=micro))
        for number, (batch, plainly) in enumerate(zip(made, read, strict=False)):
            if number == 12:
                break
            assert list(batch.example_ids) == list(plainly.example_ids)
            yield batch, operands(plainly)


@pytest.mark.parametrize("place", ["worker", "consumer"])
def test_ragged_rows_are_computed_as_numpy_does(dataset, place):
    own = cases()
    text_length = {"text_length": {"length": "state_text"}}
    definitions = {**VIA, **text_length, **{name: one[0] for name, one in own.items()}}
    whole = source(tensors={name: {**one, "at": place} for name, one in definitions.items()},
                   output=[*own, "text_length", "local_args.length"])
    empty_rows = empty_batches = 0
    for batch, of in sessions(dataset, whole):
        for name, (definition, dtype, function) in own.items():
            expected = function(of)
            assert batch[name].dtype == dtype, (name, batch[name].dtype)
            assert batch[name].splits == f"{name}_splits"
            got = rows(batch, name)
            assert [row.shape for row in got] == [row.shape for row in expected], definition
            for one, other in zip(got, expected, strict=True):
                assert one.tobytes() == other.astype(dtype).tobytes(), definition
        assert batch["text_length"].numpy().dtype == "int64"
        assert batch["text_length"].tolist() == [len(row) for row in of["text"]]
        assert batch["local_args.length"].tolist() == [len(row) for row in of["local_args"]]
        empty_rows += sum(len(row) == 0 for row in cuts(of))
        empty_batches += batch.num_graphs == 0
    assert empty_rows > 0 and empty_batches > 0


PADS = [({}, "int64", 0), ({"value": -1}, "int8", -1), ({"value": 255}, "uint8", 255),
        ({"value": 7, "multiple": 8}, "uint16", 7), ({"multiple": 5}, "bool", 0),
        ({"value": 1, "multiple": 3}, "bool", 1), ({"value": 0.1}, "float32", 0.1),
        ({"value": -0.0}, "float64", -0.0), ({"value": 65520}, "float16", 65520),
        ({"value": 1.00390625, "multiple": 4}, "bfloat16", 1.00390625),
        ({"value": -9223372036854775808}, "int64", -(1 << 63)), ({"value": 3}, "int32", 3),
        ({"to": 4096}, "uint8", 0), ({"to": 4096, "value": 9, "multiple": 4096}, "uint64", 9)]


@pytest.mark.parametrize("place", ["worker", "consumer"])
def test_padded_rows_are_filled_up_to_one_extent(dataset, place):
    tensors, pads = {}, {}
    for i, (params, dtype, _) in enumerate(PADS):
        tensors[f"p{i}"] = {"cast": "state_text", "dtype": dtype, "at": place}
        pads[f"p{i}"] = params
        # The same rows without pad, so that both can be compared.
        tensors[f"q{i}"] = {"cast": f"p{i}", "dtype": dtype, "at": place}
    tensors["grid"] = {"concat": ["via_pair"], "axis": 2, "at": place}
    whole = source(tensors={**VIA, **tensors}, output=[*tensors, "local_args"],
                   pad={**pads, "grid": {"value": 5, "multiple": 2}, "local_args": {"value": -7}})
    zero = 0
    for batch, of in sessions(dataset, whole):
        for i, (params, dtype, value) in enumerate(PADS):
            number = plain.packed([plain.converted(value, dtype)], dtype, (1,)).array.tobytes()
            lengths = [len(row) for row in of["text"]]
            longest = max(lengths, default=0)
            multiple = params.get("multiple", 1)
            extent = params.get("to", -(-longest // multiple) * multiple)
            padded = batch[f"p{i}"].numpy()
            assert batch[f"p{i}"].dtype == dtype and padded.shape == (batch.num_graphs, extent)
            assert batch[f"p{i}.length"].tolist() == lengths
            for row, text, ragged in zip(padded, of["text"], rows(batch, f"q{i}"), strict=True):
                cast = plain.cast(Tensor("uint8", text), dtype).array
                assert cast.tobytes() == ragged.tobytes() == row[:len(text)].tobytes()
                assert row[len(text):].tobytes() == number * (extent - len(text)), (params, dtype)
        longest = max((len(row) for row in pairs(of)), default=0)
        grid = batch["grid"].numpy()
        assert grid.shape == (batch.num_graphs, longest + longest % 2, 2)
        for row, pair in zip(grid, pairs(of), strict=True):
            assert row[:len(pair)].tolist() == pair.tolist() and (row[len(pair):] == 5).all()
        longest = max((len(row) for row in of["local_args"]), default=0)
        zero += longest == 0 and batch.num_graphs > 0
        args = batch["local_args"].numpy()
        assert args.dtype == "int32" and args.shape == (batch.num_graphs, longest)
        for row, few in zip(args, of["local_args"], strict=True):
            assert row[:len(few)].tolist() == few.tolist() and (row[len(few):] == -7).all()
    assert zero > 0


@pytest.mark.parametrize("place", ["worker", "consumer"])
@pytest.mark.parametrize("definition, message", [
    ({"expr": "state_text + local_args"}, "expr: state_text and local_args have different lengths"),
    ({"stack": ["local_args", "via"], "axis": 2}, "stack: the inputs have different lengths"),
])
def test_rows_of_different_lengths_are_refused(dataset, place, definition, message):
    via = {"slice": "local_args", "range": [0, 0], "at": place}
    whole = source(tensors={"via": via, "t": {**definition, "at": place}}, output=["t"])
    with pytest.raises(millrace.DataError, match=f"tensor t: {message} from row"):
        list(plain.batches(millrace.reference(whole, dataset)))


def test_a_row_that_is_longer_than_its_padding_is_refused(dataset):
    whole = source(output=["state_text"], pad={"state_text": {"to": 3}})
    with pytest.raises(millrace.DataError, match="pad: row . of the batch has .* more than 3"):
        list(plain.batches(millrace.reference(whole, dataset)))
