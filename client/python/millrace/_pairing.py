"""Several sessions read side by side."""

from .errors import ConfigError


def zip(*, repeat=None, **sessions):  # noqa: A001
    """Steps of several sessions together: {name: batch}, with one cursor for all.

        pair = millrace.zip(proof=a, definition=b, repeat="definition")
        for epoch in pair.epochs(10):
            for step, batches in epoch:
                batches["proof"], batches["definition"]

    An epoch ends with the first session that ends its own; those named by `repeat` begin their next
    epoch instead.
    """
    repeat = {repeat} if isinstance(repeat, str) else set(repeat or ())
    if unknown := repeat - set(sessions):
        raise ConfigError(f"repeat={sorted(unknown)}: expected some of {sorted(sessions)}")
    if len(repeat) == len(sessions):
        raise ConfigError("repeat: one session at least has to end an epoch")
    return Pairing(sessions, repeat)


class Pairing:
    """Made by zip."""

    def __init__(self, sessions, repeat):
        self.sessions = sessions
        self._repeat = repeat
        # (step, batch, place before it) of a step that was broken off, by a signal or an error,
        # before the batches of all sessions had come: they belong to the next one.
        self._taken = {}

    def epochs(self, until=None):
        """Epochs of the sessions that are not repeated, as far as number `until`."""
        name, leader = next(item for item in self.sessions.items() if item[0] not in self._repeat)
        while True:
            number = leader.epoch if name in self._taken else leader.next_epoch().number
            if until is not None and number >= until:
                return
            yield self._epoch()

    def _epoch(self):
        readers = {name: iter(session.next_epoch()) for name, session in self.sessions.items()
                   if name not in self._taken}
        # Asked before any batch is taken, so that none is lost.
        while not any(session.at_end for name, session in self.sessions.items()
                      if name not in self._repeat and name not in self._taken):
            for name, session in self.sessions.items():
                if name in self._taken:
                    continue
                if name not in readers or session.at_end:
                    readers[name] = iter(session.next_epoch())
                before = session.reading.place()
                self._taken[name] = (*next(readers[name]), before)
            step = [self._taken[name][0] for name in self.sessions if name not in self._repeat][-1]
            together = [(step, {name: self._taken[name][1] for name in self.sessions})]
            self._taken.clear()
            yield together.pop()

    def state_dict(self):
        """One state with an entry for each session."""
        return {name: session.reading.state_at(self._taken[name][2]) if name in self._taken
                else session.state_dict() for name, session in self.sessions.items()}

    def load_state_dict(self, state):
        """Goes on where `state` was taken: all sessions, or none where one of them cannot."""
        if not isinstance(state, dict) or set(state) != set(self.sessions):
            raise ConfigError(f"state_dict: expected a dict with {sorted(self.sessions)}, got "
                              f"{sorted(state) if isinstance(state, dict) else state!r}")
        for name, session in self.sessions.items():
            session.reading.read_state(state[name])
        for name, session in self.sessions.items():
            session.load_state_dict(state[name])
            self._taken.pop(name, None)

    def close(self):
        self._taken.clear()
        for session in self.sessions.values():
            session.close()
