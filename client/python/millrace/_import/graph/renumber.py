"""Numbers for nodes whose ids are texts or any integers, in the order in which they first come.

Every id stays in memory until the import ends: about 150 bytes for each node, besides --memory. Ids
also stand in a file, a line for each node, by which an interrupted import goes on. Not thread-safe.
"""

import os

import numpy

from ...errors import DataError

NAME = "node_names.txt"


class Renumber:
    """`count` nodes have numbers."""

    def __init__(self, folder, begin):
        """begin: the bytes of the file that count; what is behind is dropped."""
        path = folder / NAME
        self._file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115
        self._file.truncate(begin)
        self._numbers = {line[:-1]: number for number, line in enumerate(self._file)}
        self._file.seek(begin)

    @property
    def count(self):
        return len(self._numbers)

    def close(self):
        self._file.close()

    def sync(self):
        """What was numbered is on the disk. Returns what __init__ wants to go on from here."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def of_texts(self, source, target, place):
        """Numbers of the ends of edges, that of the source first. source, target: arrays of
        bytes."""
        ids = numpy.stack([source, target], axis=1).reshape(-1)
        found, first, inverse = numpy.unique(ids, return_index=True, return_inverse=True)
        numbers = numpy.empty(len(found), numpy.int64)
        for at in numpy.argsort(first).tolist():
            name = bytes(found[at])
            number = self._numbers.get(name)
            if number is None:
                number = self._add(name, lambda at=at: place(int(first[at]) // 2))
            numbers[at] = number
        numbers = numbers[inverse.reshape(-1)]
        return numbers[0::2], numbers[1::2]

    def of_columns(self, source, target, place):
        """The same for columns of pyarrow: of texts, or of integers, whose ids are their digits."""
        return self.of_texts(*(_bytes(column, place) for column in (source, target)), place)

    def _add(self, name, place):
        if not name or b"\n" in name:
            raise DataError(f"{place()}: the id of a node is {name!r}, expected a text of one line")
        number = self._numbers[name] = len(self._numbers)
        self._file.write(name + b"\n")
        return number


def _bytes(column, place):
    import pyarrow

    if hasattr(column, "dictionary"):
        column = column.dictionary_decode()
    try:
        texts = column.cast(pyarrow.large_string())
    except pyarrow.ArrowException as error:
        raise DataError(f"{place(0)}: ids are {column.type}, expected texts or integers") from error
    values = [text.encode() for text in texts.to_pylist()]
    array = numpy.array(values or [b""], object)[:len(values)]
    return array
