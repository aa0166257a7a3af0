"""A daemon of this process, as sessions know it."""

import abc


class Server(abc.ABC):
    """A daemon that `connect` takes as its address, instead of a text."""

    address: str

    @abc.abstractmethod
    def watch(self, reader: object) -> object:
        """Wraps `reader`: once this daemon has ended, its calls fail. They do not wait for a
        new daemon."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends the daemon."""
