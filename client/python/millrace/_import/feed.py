"""Fills shards: with examples from a source of dicts, or with the records of TFRecord files.

A feed has `total` and `done` for the progress, `start(folder, progress)` that goes to where the
folder's shards end, and `fill(file)` that writes one shard and says whether the source has ended.
`position` is what the journal keeps of a feed, and `shapes` what all examples have in common.
"""

import dataclasses
import os
import zlib

from .._core import FeatureShapes, begins_with_a_record, encode_example, masked_crc32c
from ..errors import ConfigError, DataError, Error
from .shapes import Shapes
from .values import Converter

_CHUNK = 1 << 20


@dataclasses.dataclass(frozen=True)
class Limits:
    """A shard ends with the record that reaches one of them."""

    records: int
    bytes: int

    def are_reached(self, file):
        return file.records >= self.records or file.bytes >= self.bytes


class SourceFailed(Exception):
    """The user's code, or a framework, raised: __cause__ is what."""


class ExampleFeed:
    """From a source with `total` (None if it is not known) and `examples(begin)`, an iterator of
    dicts from the example of that number on."""

    def __init__(self, source, limits, allow_narrowing=False, wanted=None):
        self.total = source.total
        self.done = 0
        self._source = source
        self._limits = limits
        self._options = (allow_narrowing, wanted)
        self._last = None  # the checksum of the last example

    def start(self, folder, progress):
        self.shapes = Shapes(folder.shapes)
        self._converter = Converter(self.shapes, *self._options)
        self._progress = progress
        self._before = folder.bytes
        self.done = folder.examples
        begin = max(0, self.done - 1)
        if begin:
            progress.note = f"going to example {self.done:,}"
            progress.set(self.done, self._before, self.done)
        self._examples = self._iterate(begin)
        if self.done:
            self._check_last(folder.shards[-1]["position"])
        progress.begin(self.done, self._before, self.done)

    @property
    def position(self):
        return {"last": self._last}

    def fill(self, file):
        record, ended = None, True
        for example in self._examples:
            record = encode_example(self._converter.convert(example, self.done))
            file.append(record)
            self.done += 1
            self._progress.set(self.done, self._before + file.bytes, self.done)
            if self._limits.are_reached(file):
                ended = False
                break
        if record is not None:
            self._last = masked_crc32c(record)
        self._before += file.bytes
        return ended

    def _check_last(self, position):
        """A source that gives other examples than before would make a mixture of both."""
        number = self.done - 1
        example = next(self._examples, None)
        if example is None:
            raise DataError(f"the source has ended before example {number}, which it gave when "
                            "this import began: remove the folder and import again")
        record = encode_example(self._converter.convert(example, number, note=False))
        self._last = masked_crc32c(record)
        if position["last"] != self._last:
            raise DataError(f"example {number} is another one than when this import began: the "
                            "source has changed; remove the folder and import again")

    def _iterate(self, begin):
        """What the source gives. Its errors are told from ours."""
        number = begin
        try:
            for example in self._source.examples(begin):
                yield example
                number += 1
        except Error:
            raise
        except Exception as error:
            raise SourceFailed(f"the source raised {type(error).__name__} at example "
                               f"{number}") from error


class RecordFeed:
    """From TFRecord files, compressed as a whole or not. Records are copied as they are."""

    def __init__(self, paths, limits):
        self._paths = paths
        self._sizes = [_size(path) for path in paths]
        self.total = sum(self._sizes) or None
        self.done = 0
        self._limits = limits

    def start(self, folder, progress):
        self.shapes = Shapes(folder.shapes)
        self._progress = progress
        self._examples, self._before = folder.examples, folder.bytes
        self._number, self._stream = 0, None
        if folder.shards:
            position = folder.shards[-1]["position"]
            self._number = position["file"]
            if self._number < len(self._paths):
                self._open()
                progress.note = "going to where the last shard ended"
                self._skip(position["offset"])
        self.done = sum(self._sizes[:self._number]) + self._read_of_file()
        progress.begin(self._examples, self._before, self.done)

    @property
    def position(self):
        """The next record: its file, and its offset in that, uncompressed."""
        return {"file": self._number, "offset": self._offset if self._stream else 0}

    def fill(self, file):
        found = FeatureShapes()
        while self._number < len(self._paths) and not self._limits.are_reached(file):
            if self._stream is None:
                self._open()
            if not self._copy(file, found):
                self._stream.close()
                self._stream = None
                self._number += 1
            self.done = sum(self._sizes[:self._number]) + self._read_of_file()
            self._progress.set(self._examples + file.records, self._before + file.bytes, self.done)
        self._examples += file.records
        self._before += file.bytes
        self.shapes.add_records(file.records, found.features())
        return self._number == len(self._paths)

    def _open(self):
        self._stream = _Decompressed(self._paths[self._number])
        self._data, self._at, self._offset, self._records = b"", 0, 0, 0

    def _copy(self, file, found):
        """Copies records of the open file. False if it has ended."""
        before = file.records
        at, fault = file.copy(self._data, self._at, found, self._limits.records,
                              self._limits.bytes)
        self._offset += at - self._at
        self._at = at
        if self._records is not None:
            self._records += file.records - before
        if fault not in ("", "cut off"):
            raise self._damage(fault)
        if self._limits.are_reached(file):
            return True
        # As much again as is there, so that a long record is not looked at too often.
        rest = self._data[at:]
        more = self._read(max(_CHUNK, len(rest)))
        if not more and rest:
            raise self._damage("record cut off")
        self._data, self._at = rest + more, 0
        return bool(more)

    def _read(self, size):
        try:
            return self._stream.read(size)
        except (OSError, EOFError, zlib.error) as error:
            raise self._damage(str(error)) from error

    def _skip(self, offset):
        if offset:
            self._records = None  # how many lie before it is not known
        while self._offset < offset:
            more = self._read(min(_CHUNK, offset - self._offset))
            if not more:
                raise self._damage("the file has become shorter")
            self._offset += len(more)

    def _read_of_file(self):
        return self._stream.consumed if self._stream else 0

    def _damage(self, what):
        """An error that names file, record and offset."""
        record = "" if self._records is None else f"record {self._records}, "
        of = " of the uncompressed file" if self._stream.compressed else ""
        return DataError(f"{self._paths[self._number]}: {record}offset {self._offset}{of}: {what}")


class _Decompressed:
    """The bytes of a TFRecord file that may be compressed."""

    def __init__(self, path):
        try:
            self._file = open(path, "rb")  # noqa: SIM115
            head = self._file.peek(12)[:12]
        except OSError as error:
            raise _cannot_be_read(path, error) from error
        plain = not head or begins_with_a_record(head)
        self.compressed = not plain and _looks_compressed(head)
        self._inflate = _inflate() if self.compressed else None
        self._waiting = b""  # compressed bytes

    @property
    def consumed(self):
        return self._file.tell()

    def close(self):
        self._file.close()

    def read(self, size):
        """Some bytes; at least one unless the file has ended."""
        if self._inflate is None:
            return self._file.read(size)
        data = b""
        while not data:
            if self._inflate.eof and not self._begin_next():
                break
            self._waiting = self._waiting or self._file.read(_CHUNK)
            if not self._waiting:
                raise EOFError("the compressed file is cut off")
            data = self._inflate.decompress(self._waiting, size)
            self._waiting = self._inflate.unconsumed_tail or self._inflate.unused_data
        return data

    def _begin_next(self):
        """Compressed files may follow each other in one, and zeros may fill up its end. False if
        nothing else comes."""
        while True:
            self._waiting = self._waiting or self._file.read(_CHUNK)
            if not self._waiting:
                return False
            self._waiting = self._waiting.lstrip(b"\0")
            if self._waiting:
                self._inflate = _inflate()
                return True


def _inflate():
    return zlib.decompressobj(47)  # zlib or gzip, as the header says


def _looks_compressed(head):
    gzip = head[:2] == b"\x1f\x8b"
    return gzip or (len(head) >= 2 and head[0] & 15 == 8 and int.from_bytes(head[:2], "big") % 31 == 0)


def _size(path):
    try:
        with open(path, "rb") as file:
            return os.fstat(file.fileno()).st_size
    except OSError as error:
        raise _cannot_be_read(path, error) from error


def _cannot_be_read(path, error):
    return ConfigError(f"{path}: {error.strerror}", "NOT_FOUND")
