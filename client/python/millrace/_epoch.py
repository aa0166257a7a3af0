"""One epoch of a session: its batches, whole or as micro-batches."""

from __future__ import annotations

import time
import typing
from collections.abc import Iterator

from ._core import Batch
from .errors import Error


class Epoch:
    """One epoch, or what is left of it. Iteration gives (step, batch). The length is the number of
    steps left. Once the session has gone on to another epoch or place, iteration raises Cancelled.
    """

    def __init__(self, session):
        self._session = session
        reading = session.reading
        self._reader = reading.reader
        self._turn = reading.turn
        self.number = self._reader.epoch()
        epoch, example = reading.place().position
        at_end = epoch != self.number
        self.first_step = session.spec.steps_per_epoch if at_end else reading.places.step(example)
        self._steps = 0 if at_end else reading.places.steps_left(example)

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[tuple[int, Batch | typing.Any]]:
        reading = self._session.reading
        turn = self._turn
        if reading.turn != turn:
            raise reading.gone_on(self.number)
        timer = reading.timer
        following = self._reader.next
        check = self._session.validator()
        # An earlier loop may have taken only some micro-batches of a batch. If the reader has yet
        # to give that batch, its first `skipped` ones are left out. Otherwise `rest` holds those to
        # come.
        skipped, rest = reading.resume(self._reader.position())
        if rest:
            given = [(rest[0].step, rest)]
            del rest
            yield given.pop()
        while True:
            if reading.turn != turn:
                raise reading.gone_on(self.number)
            began = time.perf_counter()
            try:
                batch = following()
            except Error:
                reading.failed(self._reader)
                raise
            ended = time.perf_counter()
            if batch is None:
                return
            if check is not None:
                check(batch)
            if skipped:
                batch, skipped = batch[skipped:], 0
            # No variable here keeps the batch while the loop works on it, so that its memory is
            # free as soon as the loop drops it.
            given = [(micro_batches_of(batch)[0].step, batch)]
            del batch
            if reading.repeated(self._reader):
                began = time.perf_counter()
                yield given.pop()
                timer.alone(1, time.perf_counter() - began)
            else:
                timer.taken(began, ended)
                yield given.pop()
                timer.done()


def micro_batches(session):
    """The micro-batches of all batches that are left of an epoch, one by one. The session's place
    counts them: if the loop ends between two of a batch, the next loop begins with the second."""
    reading = session.reading
    epoch = iter(session.next_epoch())
    while True:
        before = reading.place()
        given = before.given
        item = next(epoch, None)
        if item is None:
            return
        rest = list(micro_batches_of(item[1]))
        del item
        after = reading.reader.position()
        while rest:
            first = rest.pop(0)
            given += 1
            reading.give_micro_batch(before, after, given, tuple(rest))
            out = [first]
            del first
            yield out.pop()


def micro_batches_of(batch):
    """The micro-batches of a batch, as a tuple. A batch that comes whole is its only one."""
    return batch if type(batch) is tuple else (batch,)
