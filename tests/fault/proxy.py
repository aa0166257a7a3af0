"""A TCP proxy that does to connections what networks do: delay, a slow rate, silence, resets, wrong
bits.

    proxy = Proxy(seed=3)
    proxy.target = "127.0.0.1:7701"      # may be set later, and changed: new connections go there
    proxy.down.swallow = True            # from the server to the client

Each proxy has one thread and one event loop. A setting counts for the next bytes of every
connection. The proxy knows HTTP/2 frames, so that single messages can be lost or repeated: set
`frames` of a direction before the connection is made. It is a function that gets the index of a
DATA frame in its connection, and the frame, and returns the frames to pass on.
"""

import asyncio
import random
import socket
import struct
import threading
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA = 0
END_STREAM = 1
CHUNK = 1 << 16


class Direction:
    """The settings for the bytes of one direction, and counters."""

    def __init__(self):
        self.delay = 0.0       # seconds
        self.rate = 0.0        # bytes a second, all connections together; 0: no limit
        self.swallow = False   # bytes are read but not passed on
        self.corrupt = 0.0     # the share of reads in which one bit is changed
        self.frames = None     # see above
        self.passed = 0        # bytes passed on
        self.corrupted = 0     # bits changed
        self._free_at = 0.0

    def due(self, size):
        """The time at which `size` bytes that came now have to leave."""
        now = time.monotonic()
        if self.rate:
            self._free_at = max(self._free_at, now) + size / self.rate
            now = self._free_at
        return now + self.delay


class Frames:
    """Cuts a direction's bytes into HTTP/2 frames."""

    def __init__(self, direction, from_client):
        self._direction = direction
        self._preface = from_client
        self._buffer = b""
        self._data_frames = 0

    def feed(self, data):
        self._buffer += data
        out = []
        if self._preface:
            if len(self._buffer) < len(PREFACE):
                return b""
            out.append(self._buffer[:len(PREFACE)])
            self._buffer = self._buffer[len(PREFACE):]
            self._preface = False
        while len(self._buffer) >= 9:
            size = 9 + int.from_bytes(self._buffer[:3], "big")
            if len(self._buffer) < size:
                break
            frame, self._buffer = self._buffer[:size], self._buffer[size:]
            # A DATA frame that only ends a stream is no message.
            if frame[3] == DATA and not frame[4] & END_STREAM and size > 9:
                out += self._direction.frames(self._data_frames, frame)
                self._data_frames += 1
            else:
                out.append(frame)
        return b"".join(out)


class Proxy:
    def __init__(self, seed=0, listen="127.0.0.1", record=False, buffer=0):
        self._made_with = {"listen": listen, "record": record, "buffer": buffer}
        self.target = None          # host:port
        self.up = Direction()       # from clients to the server
        self.down = Direction()
        self.refuse = False         # new connections are reset
        self.connections = 0        # connections since the start
        self.recorded = []          # if `record`: what each connection's client sent
        self._record = record
        self._buffer = buffer       # bytes that may wait in a connection's direction; 0: no limit
        self._random = random.Random(seed)
        self._open = set()
        self._loop = asyncio.new_event_loop()
        self._socket = socket.create_server((listen, 0), backlog=1024)
        if buffer:  # the kernel doubles the size
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer // 2)
        self.address = "%s:%d" % self._socket.getsockname()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def twin(self):
        """Another one that does to its connections what this one does now."""
        made = Proxy(self._random.randrange(1 << 32), **self._made_with)
        for mine, other in ((self.up, made.up), (self.down, made.down)):
            other.delay, other.rate, other.frames = mine.delay, mine.rate, mine.frames
        return made

    def reset_all(self):
        """Ends every connection with a reset, on both sides."""
        done = threading.Event()

        def reset():
            for writer in list(self._open):
                abort(writer)
            done.set()
        self._loop.call_soon_threadsafe(reset)
        done.wait(10)

    def close(self):
        def stop():
            for writer in list(self._open):
                abort(writer)
            for task in asyncio.all_tasks(self._loop):
                task.cancel()
            self._loop.call_later(0.05, self._loop.stop)
        self._loop.call_soon_threadsafe(stop)
        self._thread.join(10)
        self._socket.close()

    def _run(self):
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(asyncio.start_server(self._accept, sock=self._socket))
        self._loop.run_forever()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _accept(self, reader, writer):
        self.connections += 1
        self._open.add(writer)
        try:
            if self.refuse or self.target is None:
                abort(writer)
                return
            host, port = self.target.rsplit(":", 1)
            try:
                to_reader, to_writer = await asyncio.open_connection(host, int(port))
            except OSError:
                abort(writer)
                return
            self._open.add(to_writer)
            for w in (writer, to_writer):
                s = w.get_extra_info("socket")
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if self._buffer:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._buffer // 2)
            record = None
            if self._record:
                record = bytearray()
                self.recorded.append(record)
            await asyncio.gather(self._pass(self.up, reader, to_writer, True, record),
                                 self._pass(self.down, to_reader, writer, False, None))
            self._open.discard(to_writer)
        except asyncio.CancelledError:
            pass  # close() was called
        finally:
            self._open.discard(writer)

    async def _pass(self, direction, reader, writer, from_client, record):
        queue = asyncio.Queue(maxsize=4096)
        waiting = [0]  # bytes that wait
        sender = asyncio.ensure_future(self._send(queue, writer, waiting))
        frames = Frames(direction, from_client) if direction.frames else None
        try:
            while data := await reader.read(CHUNK):
                if record is not None:
                    record += data
                if direction.swallow:
                    continue
                if frames is not None:
                    data = frames.feed(data)
                if direction.corrupt and self._random.random() < direction.corrupt:
                    changed = bytearray(data)
                    changed[self._random.randrange(len(data))] ^= 1 << self._random.randrange(8)
                    data = bytes(changed)
                    direction.corrupted += 1
                while self._buffer and waiting[0] > self._buffer:
                    await asyncio.sleep(0.005)
                if data:
                    waiting[0] += len(data)
                    direction.passed += len(data)
                    await queue.put((direction.due(len(data)), data))
            if not direction.swallow:  # a silent network does not pass on an end either
                await queue.put((direction.due(0), b""))
                await sender
        except (ConnectionError, asyncio.IncompleteReadError):
            sender.cancel()
            if not direction.swallow:
                abort(writer)

    async def _send(self, queue, writer, waiting):
        try:
            while True:
                due, data = await queue.get()
                wait = due - time.monotonic()
                if wait > 0:
                    await asyncio.sleep(wait)
                if not data:
                    writer.write_eof()
                    return
                writer.write(data)
                await writer.drain()
                waiting[0] -= len(data)
        except (ConnectionError, OSError, RuntimeError):
            abort(writer)


def abort(writer):
    """Ends a connection with a reset."""
    sock = writer.get_extra_info("socket")
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    writer.transport.abort()
