"""Random expressions of docs/reference/tensors.md against numpy, at the worker and at the consumer.

exp, log, tanh, sin and cos are not here: numpy's differ from machine to machine. Millrace's are held
to recorded values by the C++ tests and by test_golden_tensors.py.
"""

import dataclasses

import numpy
import plain_tensors as plain
import pytest
from plain_tensors import Case, Tensor

import millrace

ROWS = 23
LEVELS = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "+": 5, "-": 5,
          "*": 6, "/": 6, "//": 6, "%": 6}
UNARY, ATOM = 7, 8
FLOAT = ("float32", "float64")


@dataclasses.dataclass
class Value:
    """Text and value of a part. `kind`: bool, narrow (an integer of at most 16 bits, as a name
    gives it), int64, float32 or float64. `weak`: made of numbers alone. `level`: how tightly the
    text holds together; 0: a ?:."""

    text: str
    kind: str
    array: numpy.ndarray
    weak: bool = False
    level: int = ATOM

    def at(self, level):
        return self.text if self.level >= level else f"({self.text})"

    @property
    def is_float(self):
        return self.kind in FLOAT


def machine(kind):
    return kind if kind in FLOAT else "int64"


def to(value, kind):
    """The array in the type that it is computed in."""
    if value.is_float and kind not in FLOAT:
        flat = [plain.converted(one, "int64") for one in value.array.reshape(-1).tolist()]
        return numpy.array(flat, "int64").reshape(value.array.shape)
    return value.array.astype(machine(kind))


def common(a, b):
    if a.weak and b.weak:
        return "float64" if a.is_float or b.is_float else "int64"
    if a.weak:
        a, b = b, a
    if b.weak:
        return a.kind if a.is_float else "float64" if b.is_float else "int64"
    if not a.is_float and not b.is_float:
        return "int64"
    kinds = {a.kind, b.kind}
    return "float64" if kinds & {"float64", "int64"} else "float32"


def binary(symbol, a, b):
    level = LEVELS[symbol]
    compares = symbol in ("==", "!=", "<", "<=", ">", ">=")
    # Operators of one level are taken from the left; comparisons of one level are no chain.
    text = f"{a.at(level + 1 if compares else level)} {symbol} {b.at(level + 1)}"
    weak = a.weak and b.weak
    if symbol in ("&&", "||"):
        x, y = a.array != 0, b.array != 0
        made = (x & y) if symbol == "&&" else (x | y)
        return Value(text, "bool", made.astype("int64"), weak, level)
    kind = common(a, b)
    if symbol == "/" and kind not in FLOAT:
        kind = "float64"
    x, y = to(a, kind), to(b, kind)
    if compares:
        made = {"==": x == y, "!=": x != y, "<": x < y, "<=": x <= y, ">": x > y, ">=": x >= y}
        return Value(text, "bool", made[symbol].astype("int64"), weak, level)
    if symbol in ("//", "%"):
        flat = [0 if q == 0 else plain.converted(p // q if symbol == "//" else p % q, "int64")
                for p, q in zip(*(part.reshape(-1).tolist()
                                  for part in numpy.broadcast_arrays(x, y)), strict=True)]
        made = numpy.array(flat, "int64").reshape(numpy.broadcast_shapes(x.shape, y.shape))
    elif symbol == "/":
        made = x / y
    else:
        made = x + y if symbol == "+" else x - y if symbol == "-" else x * y
    return Value(text, kind, made, weak, level)


def negative(a):
    kind = a.kind if a.is_float else "int64"
    return Value(f"-{a.at(UNARY)}", kind, -to(a, kind), a.weak, UNARY)


def negation(a):
    return Value(f"!{a.at(UNARY)}", "bool", (a.array == 0).astype("int64"), a.weak, UNARY)


def select(condition, a, b):
    kind = common(a, b)
    made = numpy.where(condition.array != 0, to(a, kind), to(b, kind))
    text = f"{condition.at(1)} ? {a.at(0)} : {b.at(0)}"
    return Value(text, kind, made, condition.weak and a.weak and b.weak, 0)


def extreme(name, a, b):
    kind = common(a, b)
    x, y = to(a, kind), to(b, kind)
    first = (x > y if name == "max" else x < y) | (x != x)
    return Value(f"{name}({a.text}, {b.text})", kind, numpy.where(first, x, y), a.weak and b.weak)


def function(name, a):
    text = f"{name}({a.text})"
    if name in ("int64", "float32", "float64"):
        return Value(text, name, to(a, name))
    kind = a.kind if a.is_float else "float64" if name == "sqrt" else "int64"
    x = to(a, kind)
    if name == "sign":
        made = numpy.where(x > 0, 1, numpy.where(x < 0, -1, 0)).astype(x.dtype)
        made = numpy.where(x != x, x, made)
    elif name in ("floor", "ceil", "round") and not a.is_float:
        made = x
    else:
        made = {"abs": numpy.abs, "floor": numpy.floor, "ceil": numpy.ceil, "round": numpy.rint,
                "sqrt": numpy.sqrt}[name](x)
    return Value(text, kind, made, a.weak)


def number(text, value):
    kind = "float64" if isinstance(value, float) else "int64"
    return Value(text, kind, numpy.array(value, kind), True)


def name(text, tensor):
    """A name of a tensor, as expressions read it."""
    if tensor.dtype == "bfloat16":
        array, kind = (tensor.array.astype("uint32") << 16).view("float32"), "float32"
    elif tensor.dtype in plain.FLOATS:
        kind = "float64" if tensor.dtype == "float64" else "float32"
        array = tensor.array.astype(kind)
    else:
        array = tensor.array.astype("int64")  # uint64 wraps
        kind = ("bool" if tensor.dtype == "bool" else
                "narrow" if tensor.array.itemsize <= 2 else "int64")
    return Value(text, kind, array)


class Expressions:
    """Random expressions over some names."""

    def __init__(self, rng, names, constants):
        self.rng = rng
        self.names = names
        self.constants = constants

    def any(self, depth):
        rng = self.rng
        if depth == 0 or rng.integers(6) == 0:
            return self.leaf()
        kind = rng.choice(["binary", "binary", "binary", "unary", "function", "extreme", "select"])
        if kind == "unary":
            return (negative if rng.integers(2) else negation)(self.any(depth - 1))
        if kind == "function":
            functions = ["abs", "sign", "floor", "ceil", "round", "sqrt", "int64", "float32",
                         "float64"]
            return function(str(rng.choice(functions)), self.any(depth - 1))
        if kind == "extreme":
            return extreme(str(rng.choice(["min", "max"])), self.any(depth - 1), self.any(depth - 1))
        if kind == "select":
            return select(self.any(depth - 1), self.any(depth - 1), self.any(depth - 1))
        a, b = self.any(depth - 1), self.any(depth - 1)
        symbols = [one for one in LEVELS
                   if one not in ("//", "%") or not (a.is_float or b.is_float)]
        return binary(str(rng.choice(symbols)), a, b)

    def leaf(self):
        rng = self.rng
        if rng.integers(3):
            return self.names[rng.integers(len(self.names))]
        if rng.integers(3) == 0:
            return self.constants[rng.integers(len(self.constants))]
        known = [0, 1, 2, 3, 10, 255, 65536, 2**53 + 1, 2**63 - 1, 0.0, 0.5, 1.5, 0.1, 3e38, 1e-310,
                 1e300, 16777217.0]
        value = known[rng.integers(len(known))]
        return number(repr(value), value)


def result(value, shape):
    """What Millrace gives: one NaN for all, and a bool as such."""
    array = numpy.broadcast_to(value.array, shape).copy()
    if value.is_float:
        array[array != array] = numpy.nan
        return Tensor(value.kind, array)
    return Tensor("bool", array != 0) if value.kind == "bool" else Tensor("int64", array)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_random_expressions_have_numpys_values(tmp_path, seed):
    rng = numpy.random.default_rng(seed)
    width = (3,) if seed else (2, 2)
    sources, names = {}, []
    for dtype in plain.DTYPES:
        for letter, inner in (("s", ()), ("v", width)):
            tensor = plain.sample(rng, dtype, (ROWS, *inner))
            sources[f"{letter}_{dtype}"] = tensor
            # One value a row spreads over the rows of the others.
            spread = tensor.array.reshape(ROWS, *((1,) * (len(width) - len(inner))), *inner)
            names.append(name(f"target.{letter}_{dtype}", Tensor(dtype, spread)))
    given = {"A": 0.9, "B": 50, "C": -3, "D": -0.25, "E": 1e40, "F": 0}
    constants = [number(key, value) for key, value in given.items()]
    expressions = Expressions(rng, names, constants)
    cases, kinds = [], set()
    while len(cases) < 250:
        made = expressions.any(int(rng.integers(1, 6)))
        if len(made.text) > 2000:
            continue
        kinds.add(made.kind)
        wide = any(f"target.v_{dtype}" in made.text for dtype in plain.DTYPES)
        flat = made.array if made.array.ndim == 0 or wide else made.array.reshape(ROWS)
        expected = result(dataclasses.replace(made, array=flat), (ROWS, *width) if wide else (ROWS,))
        cases.append(Case({"expr": made.text, "with": given}, expected))
    assert kinds >= {"bool", "int64", "float32", "float64"}
    assert plain.check(tmp_path / "g", sources, cases) > 220


def test_an_expression_of_numbers_alone_has_one_value_for_each_example(tmp_path):
    sources = {"a": Tensor("uint8", numpy.zeros((ROWS, 2), "uint8"))}
    cases = [Case({"expr": text, "with": {"K": 4, "H": 0.5}}, Tensor(dtype, numpy.full(ROWS, value, dtype)))
             for text, dtype, value in (
                 ("7 / 2", "float64", 3.5), ("7 // 2 + -7 // 2", "int64", -1),
                 ("-7 % 4 + 7 % 0", "int64", 1), ("1 < 2 && 3 != 3", "bool", False),
                 ("2 > 1 ? 10 : 20.5", "float64", 10), ("round(2.5) + round(3.5)", "float64", 6),
                 ("K * K - H", "float64", 15.5), ("K // 3", "int64", 1),
                 ("float32(1) / 3 == 1.0 / 3", "bool", True))]
    assert plain.check(tmp_path / "g", sources, cases) == 9


def test_inputs_of_other_extents_are_refused(tmp_path, rng=numpy.random.default_rng(1)):
    sources = {"a": plain.sample(rng, "float32", (ROWS, 3)),
               "b": plain.sample(rng, "float32", (ROWS, 4))}
    data = plain.write(tmp_path / "g", sources)
    definition = {"t": {"expr": "target.a + target.b"}}
    with pytest.raises(millrace.ConfigError, match="expected rows of the same extents"):
        millrace.reference(plain.pipeline(sources, definition), data)
