"""Batches of texts from a file: a JSON object on each line, or Parquet. Its content says which."""

import dataclasses
import gzip
import io
import json
import os
import zlib

from ...errors import ConfigError, DataError
from ..parquet_file import guarded, open_parquet, require_pyarrow

_MOST_TEXTS, _MOST_CHARACTERS = 1024, 1 << 22  # a batch ends with the text that reaches one of them
_MOST_ROWS = 128  # that are decoded at once
_LONGEST_LINE = 1 << 28


@dataclasses.dataclass(frozen=True)
class Batch:
    """texts; numbers: their lines, from 1 on, or rows, from 0 on; unit: `line` or `row`."""

    path: str
    texts: list
    numbers: list
    unit: str

    def place(self, at):
        """Where the text with this number in the batch is."""
        return f"{self.path}: {self.unit} {self.numbers[at]}"

    @property
    def places(self):
        """Where all the texts are."""
        if len(self.texts) == 1:
            return self.place(0)
        return f"{self.path}: {self.unit}s {self.numbers[0]} to {self.numbers[-1]}"


def open_texts(path, column):
    """A JsonTexts or ParquetTexts. Use it as a context manager."""
    try:
        raw = open(path, "rb")  # noqa: SIM115
        head = raw.peek(4)[:4]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
    if head == b"PAR1":
        raw.close()
        return ParquetTexts(path, column)
    return JsonTexts(path, column, raw, head)


class _Texts:
    """`done`: the bytes of the file that were read, as they lie. Subclasses have
    `_numbered_texts`, a generator of the number of a line or row, and its text."""

    unit = ""

    def __init__(self, path, column):
        self.path, self.column = path, column
        self.done = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        pass

    def batches(self):
        """All texts of the file. Where a batch ends depends on the texts alone."""
        texts, numbers, characters = [], [], 0
        for number, text in self._numbered_texts():
            texts.append(text)
            numbers.append(number)
            characters += len(text)
            if len(texts) == _MOST_TEXTS or characters >= _MOST_CHARACTERS:
                yield Batch(self.path, texts, numbers, self.unit)
                texts, numbers, characters = [], [], 0
        if texts:
            yield Batch(self.path, texts, numbers, self.unit)

    def _wrong(self, number, what):
        return DataError(f"{self.path}: {self.unit} {number}: {what}")

    def _numbered_texts(self):
        raise NotImplementedError


class JsonTexts(_Texts):
    """Of lines, which gzip or zstd may compress. Lines of white space alone are passed over."""

    unit = "line"

    def __init__(self, path, column, raw, head):
        """raw: the open file. head: its first bytes."""
        super().__init__(path, column)
        self._raw = raw
        self._stream = _decompressed(raw, head)

    def __exit__(self, kind, value, traceback):
        self._raw.close()

    def _numbered_texts(self):
        number = 0
        while line := self._read_line(number + 1):
            number += 1
            self.done = self._raw.tell()
            if not line.isspace():
                yield number, self._text_of(number, line)

    def _read_line(self, number):
        try:
            line = self._stream.readline(_LONGEST_LINE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise self._wrong(number, f"cannot be read: {error}") from error
        if len(line) > _LONGEST_LINE:
            raise self._wrong(number, f"has more than {_LONGEST_LINE} bytes: cut its text")
        return line

    def _text_of(self, number, line):
        try:
            value = json.loads(line.rstrip())  # the place of a fault is in this line
        except UnicodeDecodeError:
            raise self._wrong(number, "is no UTF-8, expected a JSON object in UTF-8") from None
        except json.JSONDecodeError as error:
            raise self._wrong(number, f"is no JSON: {error.msg} at column {error.colno}; expected "
                                      "an object on each line") from None
        except (ValueError, RecursionError) as error:
            raise self._wrong(number, f"is no JSON that can be read: {error}") from None
        if not isinstance(value, dict):
            raise self._wrong(number, f"expected a JSON object, got {_kind(value)}")
        if self.column not in value:
            there = f"there are {', '.join(value)}" if value else "it is empty"
            raise self._wrong(number, f"has no column {self.column}; {there}: name it with "
                                      "--column")
        if not isinstance(value[self.column], str):
            raise self._wrong(number, f"column {self.column} is {_kind(value[self.column])}, "
                                      "expected a text")
        return value[self.column]


class ParquetTexts(_Texts):
    """Of a column of texts. A part of a row group is read at once."""

    unit = "row"

    def __init__(self, path, column):
        super().__init__(path, column)
        self._file = open_parquet(path)
        self._check_column(self._file.schema_arrow)

    def __exit__(self, kind, value, traceback):
        self._file.close()

    def _numbered_texts(self):
        number, rows, size = 0, self._file.metadata.num_rows, os.path.getsize(self.path)
        for batch in guarded(self.path, self._file.iter_batches(_MOST_ROWS, columns=[self.column])):
            self.done = size * number // rows
            for value in batch.column(0):
                yield number, self._text_of(number, value)
                number += 1

    def _text_of(self, number, value):
        try:
            text = value.as_py()
        except UnicodeDecodeError:
            raise self._wrong(number, f"column {self.column} is no UTF-8, expected a "
                                      "text") from None
        if text is None:
            raise self._wrong(number, f"column {self.column} is null, expected a text")
        return text

    def _check_column(self, schema):
        found = schema.names.count(self.column)
        if found != 1:
            has = f"has {found} columns" if found else "has no column"
            raise ConfigError(f"{self.path}: {has} {self.column}; there are "
                              f"{', '.join(schema.names)}: name it with --column", "NOT_FOUND")
        kind = schema.field(self.column).type
        if require_pyarrow("Parquet files").types.is_dictionary(kind):
            kind = kind.value_type
        if str(kind) not in ("string", "large_string", "string_view"):
            raise ConfigError(f"{self.path}: column {self.column} is {kind}, expected texts")


def _decompressed(raw, head):
    if head[:2] == b"\x1f\x8b":
        return gzip.GzipFile(fileobj=raw)
    if head == b"\x28\xb5\x2f\xfd":
        pyarrow = require_pyarrow("texts that zstd compressed")
        return io.BufferedReader(pyarrow.CompressedInputStream(pyarrow.PythonFile(raw), "zstd"))
    return raw


def _kind(value):
    """As JSON calls it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {str: "a text", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names[type(value)]
