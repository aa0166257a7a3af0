"""Edges as they come from a source, a chunk at once, and how they are checked. Needs numpy."""

import dataclasses
import typing

import numpy

from ...errors import ConfigError, DataError

MOST_NODES = (1 << 48) - 1
MOST_LABELS = 65_535


@dataclasses.dataclass(frozen=True)
class Column:
    """What each edge has: its label, or a feature. `shape` is that of one edge's value."""

    name: str
    dtype: str
    shape: tuple = ()

    @property
    def itemsize(self):
        return numpy.dtype(self.dtype).itemsize * int(numpy.prod(self.shape, dtype=numpy.int64))


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The columns of a source that a user named. None: a usual name."""

    source: str | None = None
    target: str | None = None
    label: str | None = None
    features: tuple = ()  # (name, column, dtype or None)


@dataclasses.dataclass
class Chunk:
    """Edges in the order of the input.

    source, target: numbers of any integer type. label: uint16, or None. features: arrays by name.
    place: gives the file and the row or line of the edge with that number in the chunk.
    position: where the source goes on behind the chunk, for JSON.
    """

    source: numpy.ndarray
    target: numpy.ndarray
    label: numpy.ndarray | None
    features: dict
    place: typing.Callable
    position: dict

    def __len__(self):
        return len(self.source)


class Labels:
    """Numbers for the texts that label edges, in the order in which they come. At the end they
    stand in the order of their bytes."""

    def __init__(self, names=()):
        self.names = list(names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    def number(self, name, place):
        """place: gives the place of an edge with this label."""
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.names)
            self.names.append(name)
            if number >= MOST_LABELS:
                raise DataError(f"{place()}: label {name!r} is text number {number + 1}, expected "
                                f"at most {MOST_LABELS} different labels: choose another column")
        return number

    def ranks(self):
        """The final number of each label."""
        order = sorted(range(len(self.names)), key=lambda number: self.names[number].encode())
        ranks = numpy.empty(len(order), numpy.uint16)
        ranks[order] = numpy.arange(len(order))
        return ranks


def check_nodes(chunk, nodes):
    """Raises at the first node number that no node of the graph has. Returns the largest one plus
    one. nodes: how many there are, None if that is not known."""
    bound = MOST_NODES if nodes is None else nodes
    largest = 0
    for end, numbers in (("source", chunk.source), ("target", chunk.target)):
        if not len(numbers):
            continue
        most, least = int(numbers.max()), int(numbers.min())
        if least < 0 or most >= bound:
            at = int(numpy.flatnonzero((numbers < 0) | (numbers >= bound))[0])
            raise DataError(f"{chunk.place(at)}: {end} is {numbers[at]}, expected a node number of "
                            f"0 to below {bound}")
        largest = max(largest, most + 1)
    return largest


def checked_labels(numbers, place):
    """Labels that are integers, as uint16."""
    if len(numbers) and (int(numbers.min()) < 0 or int(numbers.max()) >= MOST_LABELS):
        at = int(numpy.flatnonzero((numbers < 0) | (numbers >= MOST_LABELS))[0])
        raise DataError(f"{place(at)}: label {numbers[at]}, expected 0 to below {MOST_LABELS}")
    return numbers.astype(numpy.uint16)


def choose_ends(wanted, names, what):
    """The columns of sources and targets among those that there are."""
    pairs = (("source", "target"), ("src", "dst"), ("from", "to"))
    usual = next((pair for pair in pairs if pair[0] in names and pair[1] in names), (None, None))
    ends = wanted.source or usual[0], wanted.target or usual[1]
    for end, option in zip(ends, ("source", "target"), strict=True):
        if end is None:
            raise ConfigError(f"{what}: has columns {', '.join(names)}, expected source and "
                              f"target, src and dst, or from and to: name it with --{option}-column",
                              "NOT_FOUND")
    return ends
