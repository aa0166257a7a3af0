"""A first batch that comes again and again, to see what a training does by itself."""

import math
import operator

from . import _place
from .errors import ConfigError


def times(repeat_first):
    """How often the first batch comes besides the others: a number, or inf."""
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


class Repeating:
    """A reader that gives its first batch `left` times before the others.

    Without end (inf) there are no others: places and epochs pass as if there were, so that loops
    end where they would.
    """

    def __init__(self, reader, left, spec):
        self._reader = reader
        self._spec = spec
        self._batch = None
        self._epoch = reader.epoch()
        self._at = reader.position()  # without end: the place that is pretended
        self.left = left
        self.repeated = False  # whether the batch given last comes of here

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def next(self):
        endless = self.left == math.inf
        if endless and self._at[0] != self._epoch:
            return None
        self.repeated = self.left > 0
        if not self.repeated:
            return self._reader.next()
        if self._batch is None:
            self._batch = self._reader.next()
            if self._batch is None:  # the end of the epoch
                return None
        self.left -= 1
        if endless:
            epoch, example = self._at
            more = _place.steps_from(self._spec, example) > 1
            self._at = (epoch, example + self._spec.stride) if more else (epoch + 1, 0)
        batch = self._batch
        if self.left == 0:
            self._batch = None
        return batch

    def next_epoch(self):
        if self.left != math.inf:
            return self._reader.next_epoch()
        self._epoch = self._at[0]
        return True

    def epoch(self):
        return self._epoch if self.left == math.inf else self._reader.epoch()

    def position(self):
        return self._at if self.left == math.inf else self._reader.position()
