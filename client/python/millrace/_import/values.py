"""The values of a dict as features of a tf.train.Example. Needs numpy."""

import collections.abc

import numpy

from ..errors import DataError

_INT64 = numpy.iinfo(numpy.int64)
_WHAT = "expected numbers, bytes, str, or arrays or lists of these"
_NARROWING = "--allow-narrowing lets it change"
_TEXTS = (bytes, str, bytearray, memoryview)


class Converter:
    """Turns dicts into what encode_example takes, and notes their shapes.

    Not thread-safe.
    """

    def __init__(self, shapes, allow_narrowing=False, wanted=None):
        """wanted: names of features, or what they begin with before a /; None: all."""
        self._shapes = shapes
        self._allow_narrowing = allow_narrowing
        self._wanted = wanted

    def convert(self, example, number, note=True):
        """The features of an example. DataError names its number and the feature."""
        if not isinstance(example, collections.abc.Mapping):
            raise DataError(f"example {number}: expected a dict of features, got "
                            f"{type(example).__name__}")
        features = {}
        name = None
        try:
            for name, value in self._flat(example, number):
                self._add(features, name, value, note)
        except DataError as error:
            raise DataError(f"example {number}: {error}") from None
        except (TypeError, ValueError, OverflowError) as error:
            raise DataError(f"example {number}: {name}: {error}: {_WHAT}") from error
        if note:
            self._shapes.examples += 1
        return features

    def _add(self, features, name, value, note):
        if name in features:
            raise DataError(f"{name}: comes twice")
        kind, shape, features[name] = self._feature(name, value)
        if kind is None:
            # An empty list has no type. It is left out, and a ragged feature is read as empty then.
            del features[name]
            if note:
                self._shapes.note_empty(name)
            return
        if not note:
            return
        feature = self._shapes.note(name, kind, shape)
        if kind == "bytes":
            values = features[name] if shape else [features[name]]
            for one in values:
                feature.note_lengths(len(one), len(one))

    def _flat(self, example, number):
        """The features of nested dicts, named as paths. None is no value."""
        found = list(_flatten(example, ""))
        if self._wanted is None:
            return [(name, value) for name, value in found if value is not None]
        if number == 0:
            for wanted in self._wanted:
                if not any(_is_within(name, wanted) for name, _ in found):
                    raise DataError(f"has no feature {wanted}; there are "
                                    f"{', '.join(name for name, _ in found)}")
        return [(name, value) for name, value in found
                if value is not None and any(_is_within(name, one) for one in self._wanted)]

    def _feature(self, name, value):
        """Kind, shape, and what encode_example takes. The kind of an empty list is None."""
        if isinstance(value, _TEXTS):
            return "bytes", (), _text(name, value)
        if type(value) is float:
            return "float32", (), self._floats(name, numpy.array([value]))
        if isinstance(value, int):
            return "int64", (), self._big_ints(name, [value])
        if isinstance(value, (list, tuple)):
            if not value:
                return None, None, None
            if isinstance(value[0], _TEXTS):
                return "bytes", (len(value),), [_text(name, one) for one in value]
            if isinstance(value[0], int) and all(isinstance(one, int) for one in value):
                return "int64", (len(value),), self._big_ints(name, value)
        array = _array(name, value)
        if array.dtype.kind in "SUO":
            return _texts_of_array(name, array)
        values = numpy.ascontiguousarray(array.reshape(-1))
        if array.dtype.kind in "biu":
            return "int64", array.shape, self._ints(name, values)
        if array.dtype.kind == "f" or array.dtype.name.startswith(("bfloat16", "float8")):
            return "float32", array.shape, self._floats(name, values)
        raise DataError(f"{name}: {array.dtype} cannot be a feature: {_WHAT}")

    def _big_ints(self, name, values):
        """Integers of Python have any size."""
        for value in values:
            if not _INT64.min <= value <= _INT64.max:
                if not self._allow_narrowing:
                    raise DataError(f"{name}: {value} is beyond int64; {_NARROWING}")
                wrapped = [(one - _INT64.min) % (1 << 64) + _INT64.min for one in map(int, values)]
                return numpy.array(wrapped, numpy.int64)
        return numpy.array(values, numpy.int64)

    def _ints(self, name, values):
        if values.dtype == numpy.uint64 and not self._allow_narrowing and values.size:
            largest = values.max()
            if largest > _INT64.max:
                raise DataError(f"{name}: {largest} is beyond int64; {_NARROWING}")
        return values.astype(numpy.int64, copy=False)

    def _floats(self, name, values):
        with numpy.errstate(over="ignore"):
            narrow = values.astype(numpy.float32, copy=False)
        if values.dtype.itemsize > 4 and not self._allow_narrowing:
            lost = numpy.flatnonzero((narrow != values) & (values == values))
            if lost.size:
                raise DataError(f"{name}: {values[lost[0]]!s} of {values.dtype} would not be the "
                                f"same as float32; {_NARROWING}")
        return narrow


def _is_within(name, wanted):
    return name == wanted or name.startswith(wanted + "/")


def _flatten(example, prefix):
    for key, value in example.items():
        if not isinstance(key, str):
            raise DataError(f"{prefix}{key!r}: the name of a feature is a text")
        if isinstance(value, collections.abc.Mapping):
            yield from _flatten(value, f"{prefix}{key}/")
        else:
            yield prefix + key, value


def _text(name, value):
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, _TEXTS):
        raise DataError(f"{name}: a list of bytes or str also has {type(value).__name__}")
    return bytes(value)


def _array(name, value):
    """The array behind a value of numpy or a framework."""
    if hasattr(value, "detach"):  # PyTorch's
        value = value.detach().cpu()
        value = (value.float() if str(value.dtype) == "torch.bfloat16" else value).numpy()
    array = numpy.asarray(value)
    if array.dtype.kind == "O" and not all(isinstance(one, _TEXTS) for one in array.flat):
        what = type(value).__name__
        if isinstance(value, (list, tuple)):
            what = f"a {what} of {' and '.join(sorted({type(one).__name__ for one in value}))}"
        raise DataError(f"{name}: {what} cannot be a feature: {_WHAT}")
    return array


def _texts_of_array(name, array):
    texts = [_text(name, one) for one in array.flat]
    if array.ndim == 0:
        return "bytes", (), texts[0]
    if array.ndim > 1:
        raise DataError(f"{name}: texts in an array of {array.ndim} dimensions, expected one")
    return "bytes", (len(texts),), texts
