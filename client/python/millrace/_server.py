"""A daemon of this process, as sessions know it."""

import abc


class Server(abc.ABC):
    """What `connect` takes as an address besides a text."""

    address: str

    @abc.abstractmethod
    def watch(self, reader: object) -> object:
        """A reader whose calls fail once the daemon has ended, instead of waiting for another."""
