"""Several sessions read side by side."""

from .errors import ConfigError


def zip(*, repeat=None, **sessions):  # noqa: A001
    """Reads several sessions together. A step gives {name: batch}, and one state has all places.

        pair = millrace.zip(proof=a, definition=b, repeat="definition")
        for epoch in pair.epochs(10):
            for step, batches in epoch:
                batches["proof"], batches["definition"]

    An epoch ends as soon as one session is at the end of its own epoch. Sessions named by `repeat`
    begin their next epoch instead.
    """
    repeat = {repeat} if isinstance(repeat, str) else set(repeat or ())
    if unknown := repeat - set(sessions):
        raise ConfigError(f"repeat={sorted(unknown)}: expected some of {sorted(sessions)}")
    if len(repeat) == len(sessions):
        raise ConfigError("repeat: one session at least has to end an epoch")
    return Pairing(sessions, repeat)


class Pairing:
    """Several sessions that are read together; made by zip."""

    def __init__(self, sessions, repeat):
        self.sessions = sessions
        self._repeat = repeat
        # By name: (step, batch, place before the batch). A signal or an error can break off a step
        # before the batches of all sessions have come. Those that came are kept here for the next
        # step.
        self._taken = {}

    def epochs(self, until=None):
        """Epochs of the sessions that are not repeated, up to number `until` (without it)."""
        name, leader = next(item for item in self.sessions.items() if item[0] not in self._repeat)
        while True:
            number = leader.epoch if name in self._taken else leader.next_epoch().number
            if until is not None and number >= until:
                return
            yield self._epoch()

    def _epoch(self):
        readers = {name: iter(session.next_epoch()) for name, session in self.sessions.items()
                   if name not in self._taken}
        # The end is looked for before any batch is taken, so that no batch is lost.
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
        """Goes on where `state` was taken. If one session's state is wrong, no session moves."""
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
