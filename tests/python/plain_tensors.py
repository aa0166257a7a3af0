"""Tensors in numpy's hands: what every operation has to give, computed without Millrace.

Numbers are converted one by one with Python's exact integers and fractions, so that nothing here
depends on how numpy or a processor rounds. A bfloat16 lies in an array as its uint16 bits.
"""

import dataclasses
import fractions
import json
import math

import numpy

import millrace

INTEGERS = {name: (numpy.iinfo(name).min, numpy.iinfo(name).max) for name in (
    "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")}
# Bits of the significand, and the least and the greatest exponent of a normal number.
FLOATS = {"float16": (11, -14, 15), "bfloat16": (8, -126, 127), "float32": (24, -126, 127),
          "float64": (53, -1022, 1023)}
DTYPES = [*INTEGERS, "bool", *FLOATS]


@dataclasses.dataclass
class Tensor:
    """Values of one type; the rows are the first axis."""

    dtype: str
    array: numpy.ndarray

    def __post_init__(self):
        assert self.array.dtype == stored(self.dtype), (self.dtype, self.array.dtype)

    def with_array(self, array):
        return Tensor(self.dtype, numpy.ascontiguousarray(array))

    def rows(self, ids):
        return self.with_array(self.array[numpy.asarray(ids, int)])


def stored(dtype):
    """numpy's type of the memory."""
    return numpy.dtype("uint16" if dtype == "bfloat16" else dtype)


def numbers(tensor):
    """The values as a list of Python's ints and floats."""
    array = tensor.array
    if tensor.dtype == "bfloat16":
        array = (array.astype("uint32") << 16).view("float32")
    if tensor.dtype == "bool":
        array = array.astype("uint8")
    return array.reshape(-1).tolist()


def rounded(value, dtype):
    """The float of this type that is nearest to a number, ties to even, as a Python float."""
    if isinstance(value, float) and (not math.isfinite(value) or value == 0):
        return value
    if value == 0:
        return 0.0
    bits, least, greatest = FLOATS[dtype]
    exact = abs(fractions.Fraction(value))
    exponent = exact.numerator.bit_length() - exact.denominator.bit_length()
    if exact < fractions.Fraction(2) ** exponent:
        exponent -= 1  # now 2^exponent <= exact < 2^(exponent + 1)
    unit = fractions.Fraction(2) ** (max(exponent, least) - (bits - 1))
    whole = round(exact / unit) * unit  # Python rounds half to even
    size = math.inf if whole >= fractions.Fraction(2) ** (greatest + 1) else float(whole)
    return -size if value < 0 else size


def converted(value, dtype):
    """One number by the rules of docs/reference/tensors.md."""
    if dtype == "bool":
        return value != 0
    if dtype in FLOATS:
        return rounded(value, dtype)
    least, greatest = INTEGERS[dtype]
    if not isinstance(value, float):
        return (value - least) % (greatest - least + 1) + least
    if math.isnan(value):
        return 0
    if math.isinf(value):
        return greatest if value > 0 else least
    return min(max(math.trunc(value), least), greatest)


def packed(values, dtype, shape):
    """Numbers that a type has exactly, as a tensor of it."""
    if dtype in FLOATS:
        with numpy.errstate(all="ignore"):  # NaNs
            array = numpy.array(values, "float64").astype(
                "float32" if dtype == "bfloat16" else dtype)
        if dtype == "bfloat16":
            array = (array.view("uint32") >> 16).astype("uint16")
        return Tensor(dtype, array.reshape(shape))
    return Tensor(dtype, numpy.array(values, dtype).reshape(shape))


def cast(tensor, dtype):
    values = [converted(value, dtype) for value in numbers(tensor)]
    return packed(values, dtype, tensor.array.shape)


def special(dtype):
    """The values of a type at which something could go wrong."""
    if dtype == "bool":
        return [False, True]
    if dtype in INTEGERS:
        least, greatest = INTEGERS[dtype]
        some = [0, 1, 2, 3, -1, -2, 127, 128, 255, 256, -128, -129, 2049, 2051, 65504, 65519, 65520,
                (1 << 24) + 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 53) + 1, (1 << 63) - 1,
                (1 << 63) + 1025, -(1 << 31) - 1, -(1 << 53) - 3, 257, 32895, 32897, 33023,
                (1 << 60) + (1 << 49), (1 << 60) + (1 << 52) + 1, (1 << 40) + (1 << 16) + 1,
                least, least + 1, greatest - 1, greatest]
        return sorted({value for value in some if least <= value <= greatest})
    some = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 0.999, -0.999, 1.5, 2.5, -2.5, 3.999, math.inf,
            -math.inf, math.nan, 127.5, 128.0, -128.5, -129.0, 255.0, 255.9, 256.0, 32767.5,
            65504.0, 65519.0, 65520.0, 65535.5, 2147483647.0, 2147483648.0, -2147483649.0,
            4294967295.0, 4294967296.0, 2.0 ** 53 + 2, 2.0 ** 63, -2.0 ** 63, 2.0 ** 63 - 1024,
            2.0 ** 64, 2.0 ** 64 - 2048, 1e300, -1e300, 5e-324, 2.0 ** -24, 2.0 ** -25,
            1.0000001 * 2.0 ** -25, 3 * 2.0 ** -25, 2.0 ** -14 - 2.0 ** -25, 2.0 ** -126,
            2.0 ** -133, 2.0 ** -134, 2.0 ** -149, 2.0 ** -150, 3.4028235677973366e38, 3.39e38,
            1 + 2.0 ** -11, 1 + 2.0 ** -11 + 2.0 ** -52, 1 + 3 * 2.0 ** -11, 1 + 2.0 ** -8,
            1 + 3 * 2.0 ** -8, 1 + 2.0 ** -8 + 2.0 ** -40, 1 + 2.0 ** -24, 1 + 3 * 2.0 ** -24]
    return [rounded(value, dtype) for value in some]


def sample(rng, dtype, shape):
    """Random values, with the special ones among them."""
    count = math.prod(shape)
    known = special(dtype)
    if dtype == "bool":
        return Tensor(dtype, rng.integers(0, 2, shape).astype(bool))
    width = stored(dtype).itemsize
    array = rng.integers(0, 256, count * width, "uint8").view(stored(dtype)).copy()
    at = rng.integers(0, 2, count).astype(bool)
    chosen = packed([known[i] for i in rng.integers(0, len(known), int(at.sum()))], dtype, (-1,))
    array[at] = chosen.array
    return Tensor(dtype, array.reshape(shape))


def everything(dtype, rows):
    """A tensor of two axes that has every special value."""
    known = special(dtype)
    width = -(-len(known) // rows)
    return packed([known[i % len(known)] for i in range(rows * width)], dtype, (rows, width))


# --- Operations ------------------------------------------------------------------------------

def common_type(a, b):
    """The type that `scale` and `offset` are computed in."""
    a, b = ("float32" if one in ("float16", "bfloat16") else one for one in (a, b))
    if a == b or b == "bool":
        return a
    if a == "bool":
        return b
    if a in FLOATS and b in FLOATS:
        return "float64"
    if a in FLOATS or b in FLOATS:
        real, whole = (a, b) if a in FLOATS else (b, a)
        return real if stored(whole).itemsize <= 2 else "float64"
    for dtype in ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"):
        if all(INTEGERS[dtype][0] <= bound <= INTEGERS[dtype][1]
               for one in (a, b) for bound in INTEGERS[one]):
            return dtype
    return "int64"


def scaled(tensor, dtype, scale, offset):
    """`scale` and `offset`, numbers or lists of them, and then `dtype`."""
    compute = common_type(tensor.dtype, dtype)
    values = cast(tensor, compute).array

    def as_computed(given):
        flat = [converted(value, compute) for value in numpy.atleast_1d(
            numpy.array(given, object)).tolist()]
        return packed(flat, compute, (-1,)).array

    with numpy.errstate(all="ignore"):
        product = values * as_computed(1 if scale is None else scale)
        total = product + as_computed(0 if offset is None else offset)
    if compute in FLOATS:
        total[total != total] = numpy.nan  # a NaN that is computed is always the same one
    return cast(Tensor(compute, numpy.asarray(total, stored(compute))), dtype)


def after(tensor, squeeze=False, shape=None, scale=None, offset=None, dtype=None):
    """The steps that may follow any operation."""
    if squeeze:
        tensor = tensor.with_array(numpy.squeeze(tensor.array, -1))
    if shape is not None:
        tensor = tensor.with_array(tensor.array.reshape(len(tensor.array), *shape))
    if scale is not None or offset is not None:
        return scaled(tensor, dtype or tensor.dtype, scale, offset)
    return tensor if dtype is None else cast(tensor, dtype)


def view(tensor, dtype):
    array = numpy.ascontiguousarray(tensor.array)
    if dtype == "bool":
        return Tensor(dtype, array.view("uint8") != 0)
    return Tensor(dtype, array.view(stored(dtype)))


def one_hot(tensor, depth):
    hot = numpy.zeros((*tensor.array.shape, depth), "uint8")
    for place in numpy.ndindex(tensor.array.shape):
        number = int(tensor.array[place])
        if number != -1:
            hot[place + (number,)] = 1
    return Tensor("uint8", hot)


# --- Comparing with Millrace -----------------------------------------------------------------

def is_nan(tensor):
    if tensor.dtype == "bfloat16":
        return (tensor.array & 0x7fff) > 0x7f80
    return tensor.array != tensor.array


def differs(got, expected, exact):
    """Where two tensors of one type and shape have other bits. Unless `exact`, every NaN is equal
    to every other one."""
    unsigned = f"u{stored(expected.dtype).itemsize}"
    other = got.array.view(unsigned) != expected.array.view(unsigned)
    if not exact and expected.dtype in FLOATS:
        other &= ~(is_nan(got) & is_nan(expected))
    return other


@dataclasses.dataclass
class Case:
    """A definition of a tensor, and what it has to give for all rows."""

    definition: dict
    expected: Tensor
    exact: bool = True  # also the bits of NaNs


def write(folder, sources):
    """A graph dataset whose nodes have no edges, and these tensors as targets."""
    files = folder.parent / (folder.name + "-files")
    files.mkdir()
    given = {}
    for name, tensor in sources.items():
        numpy.save(files / f"{name}.npy", tensor.array)
        given[name] = millrace.ArrayFile(files / f"{name}.npy", dtype=tensor.dtype)
    rows = len(next(iter(sources.values())).array)
    millrace.write_graph(folder, edge_index=numpy.zeros((2, 0), int), num_nodes=rows,
                         targets={"all": given})
    return folder


def pipeline(sources, definitions, **more):
    return {"millrace": 1, "dataset": "g", "source": {"roots": "all"}, "targets": list(sources),
            "batch": {"size": 8, "remainder": "keep"}, "tensors": definitions,
            "output": [name for name in definitions if not name.startswith("via_")], **more}


def batches(session):
    for _, batch in session.next_epoch():
        yield from batch if isinstance(batch, tuple) else (batch,)


def compare(batch, name, expected, exact, about):
    """Whether a batch has these rows of a tensor."""
    got = batch[name]
    assert got.dtype == expected.dtype, (about, got.dtype)
    array = Tensor(expected.dtype, got.numpy())
    assert array.array.shape == expected.array.shape, (about, array.array.shape)
    other = differs(array, expected, exact)
    assert not other.any(), (f"{json.dumps(about)}: {numbers(array)[int(other.argmax())]} instead "
                             f"of {numbers(expected)[int(other.argmax())]} (and "
                             f"{int(other.sum()) - 1} more)")


def check(folder, sources, cases, definitions=None, places=("worker", "consumer")):
    """Compares every case with what Millrace gives: computed at the worker and at the consumer, in
    batches, in parts of batches (of which some have no rows), and at ranks of which one has a
    batch without rows. `definitions`: further tensors that cases read, named via_…."""
    data = write(folder, sources)
    unique = {json.dumps(case.definition, sort_keys=True): case for case in cases}
    named = {f"t{i}": case for i, case in enumerate(unique.values())}
    for place in places:
        tensors = {name: {**one, "at": place} for name, one in (definitions or {}).items()}
        tensors.update({name: {**case.definition, "at": place} for name, case in named.items()})
        whole = pipeline(sources, tensors)
        sessions = [({}, False), ({"micro": 9}, True)]
        if place == places[0]:
            sessions.append(({"rank": 0, "world_size": 2, "set": {"batch.size": 11}}, True))
        for options, with_empty in sessions:
            session = millrace.reference(whole, data, **options)
            seen, empty = 0, 0
            for batch in batches(session):
                ids = list(batch.example_ids)
                seen += len(ids)
                empty += not ids
                for name, case in named.items():
                    compare(batch, name, case.expected.rows(ids), case.exact, case.definition)
            assert seen > 0 and (empty > 0 or not with_empty), (options, seen, empty)
            assert {session.spec[name].computed for name in named} == {place == "consumer"}
            session.close()
    return len(named)
