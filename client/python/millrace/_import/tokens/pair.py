"""Writes a pair X.bin and X.idx, as Megatron-LM has them (docs/formats/tokens.md).

This module does not need numpy before a pair is written, so that help needs none.
"""

import os

# The codes by which an .idx names the type of tokens.
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "uint16": 8}
MAGIC, VERSION = b"MMIDIDX\0\0", 1
_MOST_TOKEN = 2**31 - 1  # that a dataset of tokens may have, whatever its type
_AT_ONCE = 1 << 16  # numbers of the .idx


def width_of(dtype):
    """The bytes of a token."""
    return int(dtype.lstrip("uint")) // 8


def most_of(dtype):
    """The largest token that a folder with this type may have."""
    bits = 8 * width_of(dtype) - (not dtype.startswith("u"))
    return min(2**bits - 1, _MOST_TOKEN)


class PairWriter:
    """Tokens go to the .bin at once. The .idx is written when the pair is closed, so that lengths
    are in memory: 4 bytes for each document. Not thread-safe. Use it as a context manager."""

    def __init__(self, bin_path, idx_path, dtype):
        self.documents = self.tokens = 0
        self._dtype = dtype
        self._idx_path = idx_path
        self._lengths = []  # arrays of int32
        self._bin = open(bin_path, "wb")  # noqa: SIM115

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        self._bin.close()

    @property
    def bytes(self):
        """Of the .bin."""
        return self.tokens * width_of(self._dtype)

    def append(self, lengths, tokens):
        """Documents of these lengths, whose tokens follow each other. They fit the type."""
        import numpy

        self._bin.write(numpy.ascontiguousarray(tokens, f"<{_letter(self._dtype)}"))
        self._lengths.append(numpy.asarray(lengths, "<i4"))
        self.documents += len(lengths)
        self.tokens += len(tokens)

    def finish(self):
        """Both files are whole, and on the disk."""
        _sync(self._bin)
        self._bin.close()
        with open(self._idx_path, "wb") as idx:
            counts = (self.documents, self.documents + 1)
            idx.write(MAGIC + VERSION.to_bytes(8, "little") + bytes([CODES[self._dtype]]))
            idx.write(b"".join(count.to_bytes(8, "little") for count in counts))
            for lengths in self._lengths:
                idx.write(lengths)
            self._write_offsets(idx)
            self._write_documents(idx)
            _sync(idx)

    def _write_offsets(self, idx):
        """Where each document begins in the .bin."""
        import numpy

        begin, width = 0, width_of(self._dtype)
        for lengths in self._lengths:
            ends = begin + numpy.cumsum(lengths, dtype="<i8") * width
            idx.write(ends - lengths.astype("<i8") * width)
            begin = int(ends[-1]) if len(ends) else begin

    def _write_documents(self, idx):
        """Every sequence is a document of its own; the last number is where they end."""
        import numpy

        for begin in range(0, self.documents + 1, _AT_ONCE):
            idx.write(numpy.arange(begin, min(begin + _AT_ONCE, self.documents + 1), dtype="<i8"))


class PairBegin:
    """The first documents of a whole pair."""

    def __init__(self, bin_path, idx_path, dtype):
        self._bin_path, self._idx_path, self._dtype = bin_path, idx_path, dtype

    def read(self, documents):
        """Lengths, and tokens."""
        import numpy

        lengths = numpy.fromfile(self._idx_path, "<i4", documents, offset=len(MAGIC) + 8 + 1 + 16)
        tokens = numpy.fromfile(self._bin_path, f"<{_letter(self._dtype)}",
                                int(lengths.sum(dtype=numpy.int64)))
        return lengths, tokens


def _letter(dtype):
    """As numpy names a type between its byte order and its width."""
    return f"{dtype[0]}{width_of(dtype)}"


def _sync(file):
    file.flush()
    os.fsync(file.fileno())
