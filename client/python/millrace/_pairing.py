"""Several sessions read side by side."""

from .errors import ConfigError


def zip(*, repeat=None, **sessions):  # noqa: A001
    """Reads several sessions together. A step gives {name: batch}, and one state has all places.

        pair = millrace.zip(proof=a, definition=b, repeat="definition")
        for epoch in pair.epochs(10):
            for step, batches in epoch:
                batches["proof"], batches["definition"]

    An epoch is one of the session with the most steps, whose steps and epochs are counted. The
    others begin their next epoch where they end theirs. Sessions named by `repeat` do not count as
    the longest. An epoch of which the loop takes nothing is passed over, in all sessions.
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
        counted = [name for name in sessions if name not in repeat]
        self._longest = max(counted, key=lambda name: len(sessions[name]))
        # By name: (step, batch, place before the batch). A signal or an error can break off a step
        # before the batches of all sessions have come. Those that came are kept here for the next
        # step.
        self._taken = {}

    def epochs(self, until=None):
        """Epochs of the longest session, up to number `until` (without it)."""
        longest = self.sessions[self._longest]
        while True:
            if self._longest not in self._taken:
                longest.next_epoch()
            if until is not None and longest.epoch >= until:
                return
            before = {name: (session.reading.turn, session.reading.place())
                      for name, session in self.sessions.items()}
            yield self._epoch(longest.epoch, longest.reading.turn)
            if all(self.sessions[name].reading.untouched(*then) for name, then in before.items()):
                self._pass_over()

    def _epoch(self, number, turn):
        longest = self.sessions[self._longest]
        readers = {}
        while True:
            if longest.reading.turn != turn:
                raise longest.reading.gone_on(number)
            # The end is looked for before any batch is taken, so that no batch is lost.
            if self._longest not in self._taken and longest.at_end:
                return
            for name, session in self.sessions.items():
                if name in self._taken:
                    continue
                if name not in readers or session.at_end:
                    readers[name] = iter(session.next_epoch())
                before = session.reading.place()
                self._taken[name] = (*next(readers[name]), before)
            step = self._taken[self._longest][0]
            together = [(step, {name: self._taken[name][1] for name in self.sessions})]
            self._taken.clear()
            yield together.pop()

    def _pass_over(self):
        """Moves all sessions by the steps that are left of the longest one's epoch."""
        places = self.sessions[self._longest].reading.places
        left = places.steps_left(self._place(self._longest).position[1])
        for name, session in self.sessions.items():
            session.reading.skip(left - (name in self._taken))
        self._taken.clear()

    def _place(self, name):
        """The place of a session's next batch in the pair."""
        return self._taken[name][2] if name in self._taken else self.sessions[name].reading.place()

    def state_dict(self):
        """One state with an entry for each session."""
        return {name: session.reading.state_at(self._place(name))
                for name, session in self.sessions.items()}

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
