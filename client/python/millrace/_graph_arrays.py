"""Arrays of graphs as people give them: in memory, or in files. Needs numpy."""

from __future__ import annotations

import dataclasses
import operator
import os
import sys
import typing
from collections.abc import Sequence

from ._core import find_array
from .errors import ConfigError, Error

if typing.TYPE_CHECKING:
    import numpy

_DTYPES = {"bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64",
           "float16", "float32", "float64"}


@dataclasses.dataclass(frozen=True)
class ArrayFile:
    """An array that lies in a file. The file is linked or named, not copied.

    path: a .npy file, which needs nothing else; a safetensors file, with the name of a `tensor`; or
        a raw file, with `dtype`, `shape` and the `offset` of the first value in bytes.
    dtype: may also say that the uint16 of a .npy file is bfloat16.
    """

    path: str | os.PathLike
    dtype: str | None = None
    shape: Sequence[int] | None = None
    offset: int = 0
    tensor: str = ""


Array = typing.Any  # a numpy array, a torch tensor, a list of numbers, a path or an ArrayFile


@dataclasses.dataclass
class Values:
    """An array in memory. bfloat16 lies in it as uint16."""

    array: numpy.ndarray
    dtype: str

    @property
    def shape(self):
        return self.array.shape


@dataclasses.dataclass
class File:
    """An array in a file."""

    path: str
    dtype: str
    shape: tuple
    offset: int
    tensor: str
    raw: bool

    @property
    def array(self):
        import numpy

        dtype = "uint16" if self.dtype == "bfloat16" else self.dtype
        if 0 in self.shape:
            return numpy.zeros(self.shape, dtype)
        return numpy.memmap(self.path, dtype, "r", self.offset, self.shape)


def whole_number(what, number, expected="a number of nodes", most=1 << 62):
    """A number of any type of integers."""
    try:
        whole = -1 if isinstance(number, bool) else operator.index(number)
    except TypeError:
        whole = -1
    if not 0 <= whole <= most:
        raise ConfigError(f"{what}: expected {expected}, got {number!r}")
    return whole


def read_array(what, value):
    """The array behind what a user gave. None stays None."""
    if value is None or isinstance(value, Values):
        return value
    if isinstance(value, (str, os.PathLike)):
        value = ArrayFile(value)
    if isinstance(value, ArrayFile):
        return _read_file(what, value)
    import numpy

    dtype = None
    if hasattr(value, "detach"):
        value = value.detach().cpu().contiguous()
        if str(value.dtype) == "torch.bfloat16":
            value, dtype = value.view(sys.modules["torch"].int16).numpy().view("uint16"), "bfloat16"
        else:
            value = value.numpy()
    try:
        array = numpy.asarray(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{what}: is no array: {error}") from error
    if isinstance(value, (list, tuple)) and array.size == 0:
        array = array.astype("int64")  # numpy takes an empty list for floats
    if array.dtype.name == "bfloat16":
        array, dtype = array.view("uint16"), "bfloat16"
    dtype = dtype or array.dtype.name
    if dtype not in _DTYPES and dtype != "bfloat16":
        raise ConfigError(f"{what}: expected bool, integers or floats, got {array.dtype}")
    if array.ndim == 0:
        raise ConfigError(f"{what}: expected an array, got a single number")
    return Values(numpy.ascontiguousarray(array, array.dtype.newbyteorder("<")), dtype)


def _read_file(what, file):
    try:
        path = os.path.realpath(file.path)
        os.fsencode(path).decode()  # as graph.json has to hold it
    except ValueError as error:
        raise ConfigError(f"{what}: {os.fspath(file.path)!r}: is no path in UTF-8: {error}") from error
    raw = not file.tensor and not path.endswith((".npy", ".npz"))
    shape = None if file.shape is None else [
        whole_number(f"{what}: shape", extent, "extents") for extent in file.shape]
    offset = whole_number(f"{what}: offset", file.offset, "a number of bytes")
    if raw and not os.path.isfile(path):
        raise ConfigError(f"{what}: {path}: there is no regular file")
    if raw and (file.dtype is None or shape is None):
        raise ConfigError(f"{what}: {path}: a raw file needs dtype and shape")
    try:
        if not raw and file.dtype is not None and shape is None:
            _, shape, _ = find_array((path, None, None, 0, file.tensor))
        dtype, shape, offset = find_array((path, file.dtype, shape, offset, file.tensor))
    except Error as error:
        raise type(error)(f"{what}: {error}", error.code) from None
    return File(path, dtype, tuple(shape), offset, file.tensor, raw)


def narrowed(numbers, nodes):
    """Numbers of so many nodes, in the type that they are written with."""
    dtype = "int32" if nodes <= 1 << 31 else "int64"
    return Values(numbers.astype(dtype), dtype)
