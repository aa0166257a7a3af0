"""Floods: peers that say something and wait, and peers that speak HTTP/2 as they should and begin
messages that they never end."""

import contextlib
import socket
import ssl
import struct
import threading
import time

from proxy import PREFACE

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = 0x1
END_HEADERS = 0x4
INITIAL_WINDOW_SIZE = 4
MOST_IN_A_FRAME = 16384


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def headers(method):
    """Those of a gRPC call, without compression (RFC 7541, section 6.2.2)."""
    def literal(name, value):
        return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value
    return b"".join(literal(name, value) for name, value in (
        (b":method", b"POST"), (b":scheme", b"http"), (b":path", method), (b":authority", b"x"),
        (b"te", b"trailers"), (b"content-type", b"application/grpc")))


def begin_of_a_message(length):
    return b"\x00" + struct.pack(">I", length)


class HalfMessages:
    """One connection, with a call on each of its streams, and of each call's message all but the
    last byte: as much as the server gives window for."""

    def __init__(self, at, method, length, streams, tls):
        self._socket = socket.create_connection(at, timeout=2)
        if tls:
            context = ssl.create_default_context(cafile=tls / "ca.crt")
            context.check_hostname = False
            context.load_cert_chain(tls / "tls.crt", tls / "tls.key")
            context.set_alpn_protocols(["h2"])
            self._socket = context.wrap_socket(self._socket)
        self.open = True
        self._heard = bytearray()
        self._window = 65535  # of the connection
        self._initial_window = 65535
        self._left = {}  # by stream: how much of the message is left, and how the window changed
        begin = bytearray(PREFACE + frame(SETTINGS, 0, 0))
        for stream in range(1, 2 * streams, 2):
            message = begin_of_a_message(length)
            begin += frame(HEADERS, END_HEADERS, stream, headers(method)) + frame(DATA, 0, stream, message)
            self._window -= len(message)
            self._left[stream] = [length - 1, -len(message)]
        self._send(begin)

    def go_on(self):
        self._hear()
        for stream, (left, change) in list(self._left.items()):
            while self.open:
                size = min(MOST_IN_A_FRAME, left, self._initial_window + change, self._window)
                if size <= 0:
                    break
                self._send(frame(DATA, 0, stream, bytes(size)))
                left, change, self._window = left - size, change - size, self._window - size
            if stream in self._left:
                self._left[stream] = [left, change]

    def close(self):
        self._socket.close()

    def _send(self, data):
        try:
            self._socket.settimeout(1)
            self._socket.sendall(data)
        except OSError:
            self.open = False

    def _hear(self):
        try:
            self._socket.settimeout(0)
            while self.open:
                heard = self._socket.recv(65536)
                self.open = heard != b""
                self._heard += heard
        except (BlockingIOError, ssl.SSLWantReadError):
            pass
        except OSError:
            self.open = False
        while len(self._heard) >= 9:
            end = 9 + int.from_bytes(self._heard[:3], "big")
            if len(self._heard) < end:
                break
            self._understand(self._heard[3], self._heard[4],
                             int.from_bytes(self._heard[5:9], "big") & 0x7FFFFFFF, bytes(self._heard[9:end]))
            del self._heard[:end]

    def _understand(self, kind, flags, stream, payload):
        if kind == WINDOW_UPDATE and stream == 0:
            self._window += int.from_bytes(payload, "big")
        elif kind == WINDOW_UPDATE and stream in self._left:
            self._left[stream][1] += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == INITIAL_WINDOW_SIZE:
                    self._initial_window = value
            self._send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            self._send(frame(PING, ACK, 0, payload))
        elif kind == RST_STREAM:
            self._left.pop(stream, None)
        elif kind == GOAWAY:
            self.open = False


class Saying:
    """One connection that says something, and then waits."""

    def __init__(self, at, says):
        self._socket = socket.create_connection(at, timeout=2)
        self._socket.settimeout(0.3)
        self.open = True
        with contextlib.suppress(OSError):
            self._socket.sendall(says)

    def go_on(self):
        try:
            self.open = self._socket.recv(1 << 20, socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            pass
        except OSError:
            self.open = False

    def close(self):
        self._socket.close()


class Flood:
    """Connections to an address; those that end are opened again. `make` makes one, given (host,
    port)."""

    def __init__(self, address, connections, make):
        host, port = address.rsplit(":", 1)
        self._make = lambda: make((host, int(port)))
        self._connections = connections
        self._stop = False
        self.opened = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        held = []
        while not self._stop:
            for one in [one for one in held if not one.open]:
                one.close()
                held.remove(one)
            try:
                while len(held) < self._connections and not self._stop:
                    held.append(self._make())
                    self.opened += 1
            except OSError:
                pass
            for one in held:
                one.go_on()
            time.sleep(0.005)
        for one in held:
            one.close()

    def stop(self):
        self._stop = True
        self._thread.join()
