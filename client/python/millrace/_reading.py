"""The place of a session's loop, and the reader that its batches come from."""

import dataclasses
import typing

from . import _repeat, _report, _spec
from ._pickling import OfThisProcess
from .errors import Cancelled, ConfigError, Error

_STATE_VERSION = 1


class Place(typing.NamedTuple):
    """The place of a loop. A batch counts as taken when all its micro-batches have been given."""

    position: tuple  # (epoch, units before the next step)
    given: int = 0  # micro-batches of the batch at `position`


@dataclasses.dataclass(frozen=True)
class _Begun:
    """A batch of which a loop has got the first micro-batches, and is to get the others."""

    before: tuple  # position of the batch
    after: tuple  # position of the reader; this object counts only while the reader is there
    given: int  # number of micro-batches that the loop has got
    rest: tuple | None  # the micro-batches to come; None: the reader has yet to give the batch


class Reading(OfThisProcess):
    """The loop's place and the reader of one session. For the package's own modules.

    attach(cursor) gives an attached reader. cursor: a text, the state of a session, or None. about:
    the session's micro and world_size. A state that was taken between two micro-batches fits only
    a session with the same values. alone: whether no other process reads the same job.
    """

    def __init__(self, attach, cursor, about, repeat_first, alone):
        self.attach = attach
        self._alone = alone
        self.open = None  # the attached reader, if there is one
        self.spec = None  # of the last reader
        self.places = None  # cursors and steps of the last reader's order
        self.timer = _report.Timer()
        # Counts how often the loop has gone on to another epoch or elsewhere. Epochs of an earlier
        # turn are over.
        self.turn = 0
        self._about = {name: about[name] for name in ("micro", "world_size")}
        self._repeat_times = _repeat.times(repeat_first)
        self._repeating = None  # the open reader, if its first batch is repeated
        self._begun = None
        self._broken = False  # the reader was cancelled or failed, and gives no more batches
        self._lost = False  # it failed, and no longer holds its rank
        self._closed = False
        self._last_stats = {}  # of the last reader that was closed
        state = cursor if isinstance(cursor, dict) else None
        # The cursor for the next reader, while none is open.
        self._go_on_at = cursor if state is None else self._cursor_of(state)
        self._attach_reader()
        if state is None:
            return
        try:
            self.go_on(self.read_state(state))
        except BaseException:
            self.close()
            raise

    # --- the reader ---

    @property
    def reader(self):
        """The open reader. It is attached again if going on elsewhere has failed."""
        self.refuse_closed()
        if self.open is None:
            self._attach_reader()
        return self.open

    def refuse_closed(self):
        """Raises Cancelled once the session is closed."""
        if self._closed:
            raise Cancelled("the session is closed")

    def next_epoch(self):
        """Lets the reader go on to the next epoch if nothing is left of the current one."""
        if not self.at_end():
            return
        try:
            self.reader.next_epoch()
        except Error:
            self.failed(self.open)
            raise
        self.turn += 1

    def at_end(self):
        """Whether all batches of the current epoch have been given."""
        return self.reader.epoch() != self.place().position[0]

    def gone_on(self, number):
        """The error of a loop over epoch `number`, which is of an earlier turn."""
        self.refuse_closed()
        epoch, example = self.place().position
        return Cancelled(f"epoch {number} is no longer being read: the session has gone on to "
                         f"epoch {epoch}, step {self.places.step(example)}; take the Epoch that "
                         "next_epoch() gives now")

    def untouched(self, turn, place):
        """Whether the loop, which was at `place` in that turn, has left all as it was."""
        return not self._broken and self.turn == turn and self.place() == place

    def failed(self, reader):
        """Notes that `reader` gave an error instead of a batch."""
        if reader is self.open:
            self._lost = self._lost or not self._broken
            self._broken = True

    @property
    def holds_rank(self):
        """Whether the dispatcher takes this session for the one that reads its rank."""
        return self.open is not None and not self._lost

    def repeated(self, reader):
        """Whether the batch that `reader` gave last was one that repeat_first repeats."""
        return reader is self._repeating and reader.repeated

    def stats(self):
        """The counts of the open reader, or of the last one if none is open."""
        return self.open.stats() if self.open is not None else self._last_stats

    def held(self):
        """Batches of the reader that the program holds."""
        return self.open.held() if self.open is not None else []

    def cancel(self):
        """Ends a blocked read of another thread."""
        self.refuse_closed()
        self._broken = True
        if self.open is not None:
            self.open.cancel()

    def close(self):
        """Closes the reader for good."""
        self._closed = True
        self._detach()

    # --- the place ---

    def place(self):
        """The loop's place."""
        at = self._reader_position()
        begun = self._begun_if_at(at)
        return Place(begun.before, begun.given) if begun is not None else Place(at)

    def resume(self, position):
        """The micro-batches with which the loop begins on a reader at `position`: (number of those
        of the reader's next batch to skip, those of the last batch that are still to be given)."""
        begun = self._begun_if_at(position)
        if begun is not None and begun.rest is None:
            return begun.given, ()
        self._begun = None
        return 0, begun.rest if begun is not None else ()

    def give_micro_batch(self, before, after, given, rest):
        """Notes that the loop has got the first `given` micro-batches of the batch at place
        `before`. The reader is behind that batch, at position `after`. Those in `rest` are to
        come."""
        if rest and before.position != after:  # a repeated batch has no place
            self._begun = _Begun(before.position, after, given, rest)
        else:
            self._begun = None

    def cursor(self, place=None):
        """The cursor of a place, by default that of the loop."""
        return self.places.cursor(*(place or self.place()).position)

    def state_at(self, place):
        """The state of a loop that is at `place`."""
        epoch, example = place.position
        state = {"version": _STATE_VERSION, "cursor": self.cursor(place), "epoch": epoch,
                 "step": self.places.step(example)}
        if place.given:
            state.update(parts_given=place.given, **self._about)
        return state

    def read_state(self, state):
        """The place of a state. Raises an Error if the state is wrong. Moves nothing."""
        given = self._given_in(state)
        return Place(self.places.position(state["cursor"]), given)

    def _cursor_of(self, state):
        """A state's cursor, for a reader that is not yet there to say whether it is one."""
        self._given_in(state)
        if not isinstance(state["cursor"], str):
            raise ConfigError(f"state_dict: expected a cursor as text, got {state['cursor']!r}")
        return state["cursor"]

    def _given_in(self, state):
        """How many micro-batches of a batch were given in a state. Raises an Error if the state is
        none, or does not fit the session."""
        if not isinstance(state, dict):
            raise ConfigError(f"state_dict: expected what state_dict() gave, got {state!r}")
        if state.get("version") != _STATE_VERSION or "cursor" not in state:
            raise ConfigError(f"state_dict: expected version {_STATE_VERSION} with a cursor, got "
                              f"{sorted(state)} of version {state.get('version')}")
        given = state.get("parts_given", 0)
        if given:
            taken = {name: state.get(name) for name in self._about}
            if taken != self._about:
                raise ConfigError(f"state_dict: taken after {given} parts of a batch with {taken}, "
                                  f"and this session has {self._about}: open it as the other one "
                                  "was, or take the state between two batches")
        return given

    def go_on(self, place):
        """Goes on at a place. If that fails, the session stays where it is."""
        self.refuse_closed()
        begun = self._begun
        if self.open is not None:
            here = self.place()
            if place == here and not self._broken:
                return
            self._go_on_at = self.cursor(here)
            begun = _not_yet_given(here)
        self._begun = None
        self._detach()
        before, self._go_on_at = self._go_on_at, self.cursor(place)
        try:
            self._attach_reader()
        except BaseException:
            # Nothing is open now. The next read attaches at the old place.
            self._go_on_at, self._begun = before, begun
            raise
        self._begun = _not_yet_given(Place(self.open.position(), place.given))

    def skip(self, steps):
        """Goes on so many steps later. If other processes read the same job, the batches are read
        and dropped: a rank that moves by itself can lock out those that have yet to attach."""
        to = self.place().position
        for _ in range(steps):
            to = self.places.next(*to)
        if self._alone:
            return self.go_on(Place(to))
        self._begun = None
        while self.reader.position() != to:
            self.next_epoch()
            try:
                self.reader.next()
            except Error:
                self.failed(self.open)
                raise

    # --- for this class only ---

    def _attach_reader(self):
        reader = self.attach(self._go_on_at)
        self.spec = _spec.from_dict(reader.spec())
        self.places = reader.places()
        self._repeating = None
        if self._repeat_times:
            reader = self._repeating = _repeat.Repeating(reader, self._repeat_times)
        self.open = reader
        self.turn += 1
        self._broken = self._lost = False

    def _detach(self):
        reader, self.open = self.open, None
        if reader is None:
            return
        try:
            self._last_stats = reader.stats()
        except Error:
            pass  # a forked process cannot read them
        if self._repeating is not None:
            self._repeat_times = self._repeating.left
        reader.close()

    def _reader_position(self):
        """The position of the open reader, or the one at which the next reader attaches."""
        self.refuse_closed()
        reader = self.open
        return reader.position() if reader is not None else self.places.position(self._go_on_at)

    def _begun_if_at(self, position):
        """The batch that was given in part, or None if the reader has moved on since."""
        begun = self._begun
        return begun if begun is not None and begun.after == position else None


def _not_yet_given(place):
    """The batch at a place, which the reader has yet to give without its first micro-batches. None
    if none is left out."""
    if not place.given:
        return None
    return _Begun(place.position, place.position, place.given, None)
