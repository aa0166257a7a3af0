"""The sessions of this process, by the rank of a job that they hold."""

import gc
import threading
import weakref

from .errors import ConfigError


class Holders:
    """Sessions that were opened. A second one that would take a rank away from the first, or
    wait for it without end, is refused."""

    def __init__(self):
        self._lock = threading.Lock()
        self._sessions = {}  # what is held → (plan, weak reference to the session)

    def add(self, held, plan, session):
        with self._lock:
            self._sessions = {key: entry for key, entry in self._sessions.items()
                              if entry[1]() is not None}
            self._sessions[held] = plan, weakref.ref(session)

    def refuse_second(self, held, plan, named, job):
        """Raises ConfigError if a session of this process holds `held`. A program that named the
        job itself (`named`) may open a session of the same plan again: it takes the rank over.
        `job` says which job it is."""
        with self._lock:
            entry = self._sessions.get(held)
        if entry is None or not _is_open(entry[1]) or (named and plan == entry[0]):
            return
        gc.collect()  # closes a session that is referred to by nothing but itself
        if _is_open(entry[1]):
            raise ConfigError(
                f"job {job}: this process has an open session of it"
                f"{'' if plan == entry[0] else ' with another pipeline'}; close that one, or give "
                "each session a job of its own, such as job=\"train\" and job=\"validation\"",
                "ALREADY_EXISTS")


def _is_open(session):
    found = session()
    return found is not None and found.reading.holds_rank
