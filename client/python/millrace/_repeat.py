"""A first batch that comes again and again, to see how fast a training is if it never waits."""

import math
import operator

from . import _reader
from .errors import ConfigError


def times(repeat_first):
    """How often the first batch comes before the others: a number, or inf."""
    if repeat_first is True:
        return math.inf
    try:
        number = operator.index(repeat_first)
    except TypeError:
        number = -1
    if number < 0:
        raise ConfigError(f"repeat_first={repeat_first!r}: expected True, or how often the first "
                          "batch comes, from 0 on")
    return number


class Repeating(_reader.Wrapped):
    """A reader that gives its first batch `left` times before the others.

    If `left` is inf, the others never come. Places and epochs pass as if they came, so that loops
    end where they would otherwise.
    """

    def __init__(self, reader, left):
        super().__init__(reader)
        self._places = reader.places()
        self._batch = None
        self._epoch = reader.epoch()
        self._at = reader.position()  # the place that it pretends to be at if `left` is inf
        self.left = left
        self.repeated = False  # whether the batch given last was the repeated one

    def next(self):
        endless = self.left == math.inf
        if endless and self._at[0] != self._epoch:
            return None
        self.repeated = self.left > 0
        if not self.repeated:
            return self.reader.next()
        if self._batch is None:
            self._batch = self.reader.next()
            if self._batch is None:  # the end of the epoch
                return None
        self.left -= 1
        if endless:
            self._at = self._places.next(*self._at)
        batch = self._batch
        if self.left == 0:
            self._batch = None
        return batch

    def next_epoch(self):
        if self.left != math.inf:
            return self.reader.next_epoch()
        self._epoch = self._at[0]
        return True

    def epoch(self):
        return self._epoch if self.left == math.inf else self.reader.epoch()

    def position(self):
        return self._at if self.left == math.inf else self.reader.position()
