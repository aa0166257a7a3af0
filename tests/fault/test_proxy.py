"""The proxy does to real connections what its settings say."""

import socket
import threading
import time
import unittest

from proxy import PREFACE, Proxy


class Echo:
    """A server that sends back the bytes that it gets."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "%s:%d" % self.socket.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    @staticmethod
    def serve(connection):
        try:
            while data := connection.recv(65536):
                connection.sendall(data)
        except OSError:
            pass
        connection.close()


def read(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            break
        data += more
    return data


def frame(text, kind=0, flags=0):
    return len(text).to_bytes(3, "big") + bytes([kind, flags, 0, 0, 0, 1]) + text


class ProxyTest(unittest.TestCase):
    def setUp(self):
        self.echo = Echo()

    def connect(self, proxy):
        proxy.target = self.echo.address
        self.addCleanup(proxy.close)
        host, port = proxy.address.split(":")
        connection = socket.create_connection((host, int(port)))
        self.addCleanup(connection.close)
        return connection

    def test_bytes_pass_as_they_are(self):
        connection = self.connect(Proxy())
        data = bytes(range(256)) * 4000
        threading.Thread(target=connection.sendall, args=(data,), daemon=True).start()
        self.assertEqual(read(connection, len(data)), data)

    def test_delay_counts_each_way(self):
        proxy = Proxy()
        proxy.up.delay = proxy.down.delay = 0.1
        connection = self.connect(proxy)
        begin = time.monotonic()
        connection.sendall(b"x")
        self.assertEqual(read(connection, 1), b"x")
        self.assertGreater(time.monotonic() - begin, 0.2)

    def test_a_rate_is_held(self):
        proxy = Proxy()
        proxy.down.rate = 100000
        connection = self.connect(proxy)
        begin = time.monotonic()
        connection.sendall(bytes(30000))
        read(connection, 30000)
        self.assertGreater(time.monotonic() - begin, 0.25)

    def test_what_is_swallowed_never_comes_and_the_connection_stays(self):
        proxy = Proxy()
        connection = self.connect(proxy)
        connection.sendall(b"a")
        self.assertEqual(read(connection, 1), b"a")
        proxy.down.swallow = True
        connection.sendall(b"b")
        connection.settimeout(0.3)
        self.assertRaises(TimeoutError, connection.recv, 1)
        proxy.down.swallow = False
        connection.settimeout(None)
        connection.sendall(b"c")
        self.assertEqual(read(connection, 1), b"c")

    def test_a_reset_ends_connections(self):
        proxy = Proxy()
        connection = self.connect(proxy)
        connection.sendall(b"a")
        read(connection, 1)
        proxy.reset_all()
        self.assertRaises(ConnectionResetError, connection.recv, 1)

    def test_refused_connections_are_reset(self):
        proxy = Proxy()
        proxy.refuse = True
        connection = self.connect(proxy)
        self.assertRaises(ConnectionResetError, connection.recv, 1)

    def test_one_bit_is_changed_and_the_same_one_by_the_same_seed(self):
        got = []
        for _ in range(2):
            proxy = Proxy(seed=5)
            proxy.up.corrupt = 1
            connection = self.connect(proxy)
            connection.sendall(bytes(100))
            got.append(read(connection, 100))
            self.assertEqual(sum(bin(byte).count("1") for byte in got[-1]), 1)
        self.assertEqual(got[0], got[1])

    def test_frames_are_dropped_and_repeated_whole(self):
        proxy = Proxy()
        proxy.up.frames = lambda index, data: [[data], [], [data, data]][index]
        connection = self.connect(proxy)
        sent = PREFACE + frame(b"one") + frame(b"ping", kind=6) + frame(b"two") + frame(b"three")
        expected = PREFACE + frame(b"one") + frame(b"ping", kind=6) + frame(b"three") * 2
        for byte in sent:  # in pieces of one byte
            connection.sendall(bytes([byte]))
        self.assertEqual(read(connection, len(expected)), expected)

    def test_what_a_client_sent_is_recorded(self):
        proxy = Proxy(record=True)
        connection = self.connect(proxy)
        connection.sendall(b"hello")
        read(connection, 5)
        self.assertEqual(bytes(proxy.recorded[0]), b"hello")


if __name__ == "__main__":
    unittest.main()
