"""Finds the tensors in a file of torch.save, without torch: what it holds, with an ArrayFile in
place of each tensor. No code of the file is run; objects of any class are shown as their state."""

from __future__ import annotations

import math
import os
import pickle
import struct
import typing
import zipfile

from ._graph_arrays import ArrayFile
from .errors import ConfigError, DataError

_DTYPES = {"DoubleStorage": "float64", "FloatStorage": "float32", "HalfStorage": "float16",
           "BFloat16Storage": "bfloat16", "LongStorage": "int64", "IntStorage": "int32",
           "ShortStorage": "int16", "CharStorage": "int8", "ByteStorage": "uint8",
           "BoolStorage": "bool"}


def read_torch_file(path: str | os.PathLike) -> typing.Any:
    """What the file holds. Each tensor is an ArrayFile that names its bytes in the file."""
    try:
        with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
            entry = next((name for name in archive.namelist() if name.endswith("/data.pkl")), None)
            if entry is None:
                raise DataError(f"{path}: is no file of torch.save: it has no data.pkl")
            with archive.open(entry) as stream:
                return _Unpickler(stream, path, archive, file, entry[:-len("data.pkl")]).load()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
    except zipfile.BadZipFile as error:
        raise DataError(f"{path}: is no file of torch.save, or of a version before 1.6: "
                        f"{error}") from error
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, IndexError,
            AttributeError) as error:
        if isinstance(error, ConfigError):
            raise
        raise DataError(f"{path}: cannot be understood: {type(error).__name__}: {error}") from error


class Shown:
    """An object of any class: its `arguments` and its `state`."""

    arguments, state = (), None

    def __init__(self, *arguments):
        self.arguments = arguments

    def __setstate__(self, state):
        self.state = state

    def __setitem__(self, key, value):
        self.state = {**(self.state or {}), key: value}

    def append(self, value):
        self.arguments = (*self.arguments, value)


class _Unpickler(pickle.Unpickler):
    def __init__(self, stream, path, archive, file, prefix):
        super().__init__(stream)
        self._path, self._archive, self._file, self._prefix = path, archive, file, prefix

    def find_class(self, module, name):
        if module.startswith("torch") and name in ("_rebuild_tensor_v2", "_rebuild_tensor"):
            return self._tensor
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) == ("collections", "OrderedDict"):
            return dict
        return type(name, (Shown,), {"__module__": module})

    def persistent_load(self, pid):
        kind, dtype, key, _, count = pid[:5]
        if kind != "storage" or not isinstance(dtype, str):
            raise DataError(f"{self._path}: has a {dtype} of torch, which no array can hold")
        entry = self._archive.getinfo(f"{self._prefix}data/{key}")
        if entry.compress_type != zipfile.ZIP_STORED:
            raise DataError(f"{self._path}: is compressed, expected a file of torch.save")
        self._file.seek(entry.header_offset)
        head = self._file.read(30)
        name, extra = struct.unpack("<HH", head[26:30])
        return dtype, entry.header_offset + 30 + name + extra, count

    def _tensor(self, storage, offset, shape, stride, *_):
        dtype, begin, _ = storage
        rows = [math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        if any(extent > 1 and step != row
               for extent, step, row in zip(shape, stride, rows, strict=True)):
            raise DataError(f"{self._path}: has a tensor of shape {list(shape)} whose rows are not "
                            "one after another")
        width = 1 if dtype in ("bool", "uint8", "int8") else 2 if dtype.endswith("16") else int(
            dtype[-2:]) // 8
        return ArrayFile(self._path, dtype, tuple(shape), begin + offset * width)
