"""One epoch of a session: its batches, whole or part by part."""

from __future__ import annotations

import time
import typing
from collections.abc import Iterator

from . import _place, _repeat
from ._core import Batch
from .errors import DataError, Error


class Epoch:
    """One epoch, or what is left of it: gives (step, batch); its length is the steps left."""

    def __init__(self, session, reader):
        self._session = session
        self._reader = reader
        self.number = reader.epoch()
        epoch, example = session._position()
        spec = session.spec
        at_end = epoch != self.number
        self.first_step = spec.steps_per_epoch if at_end else example // spec.stride
        self._steps = 0 if at_end else _place.steps_from(spec, example)

    def __len__(self) -> int:
        return self._steps

    def __iter__(self) -> Iterator[tuple[int, Batch | typing.Any]]:
        session = self._session
        timer = session._timer
        following = self._reader.next
        repeat = self._reader if isinstance(self._reader, _repeat.Repeating) else None
        check = _validator(session) if session._validate else None
        skipped = 0
        # A batch that the loop, or the one that it goes on for, was given some parts of.
        begun = session._begun_if_at(self._reader.position())
        if begun is not None and begun.rest is None:
            skipped = begun.given
        else:
            session._begun = None
            if begun is not None:
                given = [(begun.rest[0].step, begun.rest)]
                del begun
                yield given.pop()
        while True:
            began = time.perf_counter()
            try:
                batch = following()
            except Error:
                session._broken = session._broken or self._reader is session._open
                raise
            ended = time.perf_counter()
            if batch is None:
                return
            if check is not None:
                check(batch)
            if skipped:
                batch, skipped = batch[skipped:], 0
            # No name keeps the batch while the loop works on it: its memory is free when the loop
            # lets go of it.
            given = [(parts_of(batch)[0].step, batch)]
            del batch
            if repeat is not None and repeat.repeated:
                began = time.perf_counter()
                yield given.pop()
                timer.alone(1, time.perf_counter() - began)
            else:
                timer.taken(began, ended)
                yield given.pop()
                timer.done()


def parts(session):
    """Parts of what is left of an epoch, one by one. The session's place is that of the part: where
    the loop ends between two of them, the next one begins with those that are left."""
    epoch = iter(session.next_epoch())
    while True:
        before, given = session._position(), session._parts_given()
        item = next(epoch, None)
        if item is None:
            return
        rest = list(parts_of(item[1]))
        del item
        after = session._reader.position()
        while rest:
            part = rest.pop(0)
            given += 1
            if rest and before != after:  # a batch that is repeated is no place
                session._begun = _place.Begun(before, after, given, tuple(rest))
            else:
                session._begun = None
            out = [part]
            del part
            yield out.pop()


def parts_of(batch):
    """A batch's parts, as a tuple; one that comes whole is its only part."""
    return batch if type(batch) is tuple else (batch,)


def _validator(session):
    from ._validate import check  # numpy

    def run(batch):
        for part in parts_of(batch):
            problem = check(part, session.spec)
            if problem is None:
                continue
            row, what = problem
            where = session.provenance(part, row) if row is not None else {}
            raise DataError(f"batch of epoch {part.epoch}, step {part.step}: {what}"
                            + (f"; graph {row}: {where}" if where else ""))
    return run
