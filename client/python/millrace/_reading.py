"""Where a session's loop is, and the reader that its batches come from."""

import dataclasses
import typing

from . import _repeat, _report, _spec
from .errors import Cancelled, ConfigError, Error

_STATE_VERSION = 1


class Place(typing.NamedTuple):
    """Where a loop is: a batch counts when all of its parts have been given."""

    position: tuple  # (epoch, examples before the next step)
    parts_given: int = 0  # of the batch there


@dataclasses.dataclass(frozen=True)
class _Begun:
    """A batch of which a loop was given some parts, and shall get the others."""

    before: tuple  # position of the batch
    after: tuple  # where the reader is while this holds
    given: int  # parts
    rest: tuple | None  # the others; None: the reader has yet to give the batch


class Reading:
    """The loop's place and the reader of one session. For the package's own modules.

    attach(cursor) gives an attached reader. about: micro and world_size, which a state between two
    parts of a batch is good for.
    """

    def __init__(self, attach, cursor, about, repeat_first):
        self.attach = attach
        self.open = None  # the reader, while there is one
        self.spec = None  # of the last reader
        self.places = None  # cursors and steps of its order
        self.timer = _report.Timer()
        self._about = {name: about[name] for name in ("micro", "world_size")}
        self._repeat_times = _repeat.times(repeat_first)
        self._repeating = None  # the open reader, where its first batch is repeated
        self._begun = None
        self._broken = False  # what was cancelled or failed gives no more batches
        self._closed = False
        self._last_stats = {}  # of a reader that is closed
        self._go_on_at = cursor  # where the reader attaches, while there is none
        self._attach_reader()

    # --- the reader ---

    @property
    def reader(self):
        """What batches come from. Attached again where going on elsewhere has failed."""
        self.refuse_closed()
        if self.open is None:
            self._attach_reader()
        return self.open

    def refuse_closed(self):
        """Raises Cancelled once the session is closed."""
        if self._closed:
            raise Cancelled("the session is closed")

    def next_epoch(self):
        """Lets the reader go on to the next epoch where nothing is left of the one at hand."""
        if not self.at_end():
            return
        try:
            self.reader.next_epoch()
        except Error:
            self._broken = True
            raise

    def at_end(self):
        """Whether all batches of the epoch at hand have been given."""
        return self.reader.epoch() != self.place().position[0]

    def failed(self, reader):
        """Notes that `reader` gave an error instead of a batch."""
        self._broken = self._broken or reader is self.open

    def repeated(self, reader):
        """Whether the batch that `reader` gave last came again by repeat_first."""
        return reader is self._repeating and reader.repeated

    def stats(self):
        """What the reader counted, or the last one where there is none."""
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
        """Where the loop is."""
        at = self._reader_position()
        begun = self._begun_if_at(at)
        return Place(begun.before, begun.given) if begun is not None else Place(at)

    def resume(self, position):
        """What is to be given first by a reader at `position`: (parts of its next batch that the loop
        has, parts of the last batch that it lacks)."""
        begun = self._begun_if_at(position)
        if begun is not None and begun.rest is None:
            return begun.given, ()
        self._begun = None
        return 0, begun.rest if begun is not None else ()

    def give_part(self, before, after, given, rest):
        """Notes that the loop has `given` parts of the batch at place `before`, behind which the
        reader is at position `after`; `rest` is to come."""
        if rest and before.position != after:  # a batch that is repeated is no place
            self._begun = _Begun(before.position, after, given, rest)
        else:
            self._begun = None

    def cursor(self, place=None):
        """The cursor of a place, by default of the loop's."""
        return self.places.cursor(*(place or self.place()).position)

    def state_at(self, place):
        """The state of a loop that is at `place`."""
        epoch, example = place.position
        state = {"version": _STATE_VERSION, "cursor": self.cursor(place), "epoch": epoch,
                 "step": self.places.step(example)}
        if place.parts_given:
            state.update(parts_given=place.parts_given, **self._about)
        return state

    def read_state(self, state):
        """The place of a state; raises what is wrong with it, before anything is left for it."""
        if not isinstance(state, dict):
            raise ConfigError(f"state_dict: expected what state_dict() gave, got {state!r}")
        if state.get("version") != _STATE_VERSION or "cursor" not in state:
            raise ConfigError(f"state_dict: expected version {_STATE_VERSION} with a cursor, got "
                              f"{sorted(state)} of version {state.get('version')}")
        parts = state.get("parts_given", 0)
        if parts:
            taken = {name: state.get(name) for name in self._about}
            if taken != self._about:
                raise ConfigError(f"state_dict: taken after {parts} parts of a batch with {taken}, "
                                  f"and this session has {self._about}: open it as the other one "
                                  "was, or take the state between two batches")
        return Place(self.places.position(state["cursor"]), parts)

    def go_on(self, place):
        """Goes on at a place. Where that fails, the session stays where it is."""
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
            # It attaches there when it is asked for more.
            self._go_on_at, self._begun = before, begun
            raise
        self._begun = _not_yet_given(Place(self.open.position(), place.parts_given))

    # --- its own ---

    def _attach_reader(self):
        reader = self.attach(self._go_on_at)
        self.spec = _spec.from_dict(reader.spec())
        self.places = reader.places()
        self._repeating = None
        if self._repeat_times:
            reader = self._repeating = _repeat.Repeating(reader, self._repeat_times)
        self.open = reader
        self._broken = False

    def _detach(self):
        reader, self.open = self.open, None
        if reader is None:
            return
        try:
            self._last_stats = reader.stats()
        except Error:
            pass  # in a forked process
        if self._repeating is not None:
            self._repeat_times = self._repeating.left
        reader.close()

    def _reader_position(self):
        """Where the reader is, or where it will attach."""
        self.refuse_closed()
        reader = self.open
        return reader.position() if reader is not None else self.places.position(self._go_on_at)

    def _begun_if_at(self, position):
        """The batch that was given in part, unless the loop has gone past it."""
        begun = self._begun
        return begun if begun is not None and begun.after == position else None


def _not_yet_given(place):
    """A batch that the reader has yet to give, and whose first parts shall be left out."""
    if not place.parts_given:
        return None
    return _Begun(place.position, place.position, place.parts_given, None)
