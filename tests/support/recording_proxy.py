"""A TCP proxy that records the bytes of clients. Tests use it for options whose effect can be seen
nowhere else."""

import contextlib
import socket
import threading


class RecordingProxy:
    """Passes bytes on in both directions until it is closed. `sent` has the bytes that went to `to`
    ("host:port") on all connections."""

    def __init__(self, to):
        host, port = to.rsplit(":", 1)
        self._to = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.sent = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes accept, which close would not do
        self._listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                for one, other, keeps in ((near, far, True), (far, near, False)):
                    threading.Thread(target=self._pass, args=(one, other, keeps), daemon=True).start()

    def _pass(self, one, other, keeps):
        with contextlib.suppress(OSError):
            while data := one.recv(1 << 16):
                if keeps:
                    self.sent += data
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_WR)


def varint_field(number, value):
    """Encodes a field of a protobuf message as it is on the wire."""
    text = bytearray()
    for n in (number << 3, value):
        while n > 127:
            text.append(n & 127 | 128)
            n >>= 7
        text.append(n)
    return bytes(text)


def hello_priority(value):
    """Returns the bytes that the field `priority` of a Hello has on the wire."""
    return varint_field(17, value)
