"""A daemon of this process, as sessions know it."""

import abc


class Server(abc.ABC):
    """A daemon that `connect` takes as its address, instead of a text."""

    address: str

    @abc.abstractmethod
    def watch(self, reader: object) -> object:
        """A reader whose calls fail once the daemon has ended; they do not wait for another one."""
