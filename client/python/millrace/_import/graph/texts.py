"""Edges of text files: a line for each, in columns between tabs, spaces or commas."""

import functools
import gzip
import os
import zlib

import numpy

from ...errors import ConfigError, DataError
from .chunks import Chunk, Column, Labels, checked_labels, choose_ends
from .tokens import BadToken, Tokens

_LONGEST_LINE = 1 << 20


class TextEdges:
    """`total` bytes of all files, as they lie. `done` counts them."""

    def __init__(self, paths, wanted, size, renumber=None, header=False):
        """size: bytes of a chunk, about. header: the first line of each file names the columns.
        renumber: a Renumber, which makes numbers of the ends."""
        self._paths, self._size, self._header, self._renumber = paths, size, header, renumber
        self._sizes = [_size(path) for path in paths]
        self.total, self.done = sum(self._sizes) or None, 0
        self.labels = self.label_dtype = None
        self.columns = [Column(name, dtype or "float32") for name, _, dtype in wanted.features]
        self._first_line = _File(paths[0]).first_line()
        names = [name.decode(errors="replace") for name in
                 _split(self._first_line.lstrip(b"#% \t"))]
        source, target = wanted.source or "1", wanted.target or "2"
        if header:
            source, target = choose_ends(wanted, names, paths[0])
        self._names = names if header else None
        self._ends = self._find(source), self._find(target)
        self._features = [self._find(column) for _, column, _ in wanted.features]
        self._label = None if wanted.label is None else self._find(wanted.label)
        self._most = 1 + max([*self._ends, *self._features, self._label or 0])
        if self._label is not None:
            self._choose_label()

    def chunks(self, position):
        """Chunks from a position on. None: from the first line on."""
        begin = position["file"] if position else 0
        for number in range(begin, len(self._paths)):
            start = position if position and number == begin else {"offset": 0, "line": 0}
            file = _File(self._paths[number])
            try:
                file.go_to(start["offset"])
                yield from self._chunks_of(number, file, start["line"])
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{self._paths[number]}: cannot be read to its end: "
                                f"{error}") from error
            finally:
                file.close()
            self.done = sum(self._sizes[:number + 1])

    def _chunks_of(self, number, file, line):
        while text := file.lines(self._size):
            begin = line
            if begin == 0 and self._header:
                self._require_header(number, text)
                text = b"#" + text
            if b"\0" in text:
                at = line + text[:text.index(b"\0")].count(b"\n") + 1
                raise DataError(f"{self._paths[number]}: line {at}: has a zero byte, expected text")
            tokens = Tokens(text)
            line += tokens.lines_in_text
            self.done = sum(self._sizes[:number]) + file.consumed
            if len(tokens):
                position = {"file": number, "offset": file.offset, "line": line}
                yield self._chunk(tokens, self._paths[number], begin, position)

    def _chunk(self, tokens, path, begin, position):
        def place(at):
            return f"{path}: line {begin + int(tokens.lines[at]) + 1}"

        try:
            tokens.require_columns(self._most)
            if self._renumber:
                source, target = self._renumber.of_texts(*map(tokens.texts, self._ends), place)
            else:
                source, target = map(tokens.integers, self._ends)
            label = None if self._label is None else self._labels_of(tokens, place)
            features = {one.name: self._values(tokens, column, one, place)
                        for one, column in zip(self.columns, self._features, strict=True)}
        except BadToken as error:
            raise DataError(f"{place(error.row)}: {error}") from None
        return Chunk(source, target, label, features, place, position)

    def _values(self, tokens, column, feature, place):
        if feature.dtype.startswith("float"):
            with numpy.errstate(over="ignore"):
                return tokens.floats(column).astype(feature.dtype)
        values = tokens.integers(column)
        limits = numpy.iinfo(feature.dtype)
        wrong = numpy.flatnonzero((values < limits.min) | (values > limits.max))
        if len(wrong):
            raise DataError(f"{place(wrong[0])}: {values[wrong[0]]} is beyond {feature.dtype}: "
                            f"name a wider type, such as --edge-feature "
                            f"{feature.name}={column + 1}:int64")
        return values.astype(feature.dtype)

    def _labels_of(self, tokens, place):
        if self.label_dtype != "text":
            return checked_labels(tokens.integers(self._label), place)
        texts, first, inverse = numpy.unique(tokens.texts(self._label), return_index=True,
                                             return_inverse=True)
        numbers = numpy.empty(len(texts), numpy.uint16)
        for i, (text, at) in enumerate(zip(texts.tolist(), first, strict=True)):
            try:
                name = text.decode()
            except UnicodeDecodeError:
                raise DataError(f"{place(at)}: label {text!r} is no UTF-8") from None
            numbers[i] = self.labels.number(name, functools.partial(place, at))
        return numbers[inverse.reshape(-1)]

    def _choose_label(self):
        """Labels are whole numbers if that of the first edge is one."""
        for path in self._paths:
            file = _File(path)
            text = file.first_edge(self._header)
            file.close()
            if text:
                words = _split(text)
                whole = self._label < len(words) and words[self._label].lstrip(b"-").isdigit()
                self.label_dtype = "uint16" if whole else "text"
                break
        else:
            self.label_dtype = "uint16"
        if self.label_dtype == "text":
            self.labels = Labels()

    def _find(self, column):
        """The place of a column that is named by its number from 1 on, or as the header does."""
        if self._names is not None and column in self._names:
            return self._names.index(column)
        if column.isdecimal() and 1 <= int(column) <= 1000:
            return int(column) - 1
        there = (f"there are {', '.join(self._names)}" if self._names is not None
                 else "expected its number from 1 on; --header takes names from the first line")
        raise ConfigError(f"{self._paths[0]}: has no column {column}; {there}", "NOT_FOUND")

    def _require_header(self, number, text):
        line = text.partition(b"\n")[0]
        if _split(line) != _split(self._first_line):
            raise DataError(f"{self._paths[number]}: line 1: names other columns than those of "
                            f"{self._paths[0]}: {_shown(line)!r}, expected "
                            f"{_shown(self._first_line)!r}")


class _File:
    """The lines of a file that may be compressed with gzip."""

    def __init__(self, path):
        self._path = path
        try:
            self._raw = open(path, "rb")  # noqa: SIM115
            head = self._raw.peek(2)[:2]
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
        self._stream = gzip.GzipFile(fileobj=self._raw) if head == b"\x1f\x8b" else self._raw
        self._packed = self._stream is not self._raw
        self._rest = b""
        self.offset = 0  # behind the last line that was given, uncompressed

    @property
    def consumed(self):
        return self._raw.tell()

    def close(self):
        self._raw.close()

    def go_to(self, offset):
        self.offset = offset
        if not self._packed:
            self._raw.seek(offset)
        while self._packed and offset:
            skipped = len(self._stream.read(min(offset, 1 << 20)))
            if not skipped:
                raise EOFError("it has become shorter")
            offset -= skipped

    def lines(self, size):
        """About so many bytes of whole lines; nothing at the end of the file."""
        text = self._rest
        while True:
            more = self._stream.read(size)
            text += more
            if not more:
                self._rest = b""
                self.offset += len(text)
                return text + b"\n" if text and not text.endswith(b"\n") else text
            end = text.rfind(b"\n") + 1
            if end:
                self._rest = text[end:]
                self.offset += end
                return text[:end]
            if len(text) > _LONGEST_LINE:
                raise OSError(f"a line has more than {_LONGEST_LINE} bytes")

    def first_line(self):
        """Without its end, and closes the file."""
        try:
            return self._stream.readline(_LONGEST_LINE).rstrip(b"\r\n")
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self._path}: cannot be read: {error}") from error
        finally:
            self.close()

    def first_edge(self, header):
        """The first line with an edge."""
        try:
            for number, line in enumerate(self._stream):
                words = _split(line)
                if words and not words[0].startswith((b"#", b"%")) and not (header and not number):
                    return line
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self._path}: cannot be read: {error}") from error
        return b""


def _split(line):
    return line.replace(b",", b" ").split()


def _shown(line):
    return line[:80].decode(errors="replace")


def _size(path):
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
