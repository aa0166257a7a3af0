"""Probes: grpc.health.v1 on a port of its own."""

import re
import shutil
import socket
import struct

from harness import check, cluster, wait_for
from test_streams import DATA

PROBES = ("--health-listen", "127.0.0.1:0")
SERVING, NOT_SERVING = 1, 2


def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name, value):
    """A header as an HPACK literal that is not indexed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def health(process, service):
    """The ServingStatus that one Check returns; None if the service is not known."""
    address = wait_for(lambda: re.search(r"for=health address=(\S+)", process.text()), "no health",
                       process.popen)[1]
    host, port = address.rsplit(":", 1)
    headers = b"".join(header(*pair) for pair in [
        (":method", "POST"), (":scheme", "http"), (":path", "/grpc.health.v1.Health/Check"),
        (":authority", address), ("content-type", "application/grpc"), ("te", "trailers")])
    request = b"\x0a" + bytes([len(service)]) + service.encode() if service else b""
    message = b"\0" + struct.pack(">I", len(request)) + request
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") +
                           frame(1, 4, 1, headers) + frame(0, 1, 1, message))
        stream = connection.makefile("rb")
        while True:
            head = stream.read(9)
            check(len(head) == 9, "the connection ended before an answer")
            payload = stream.read(int.from_bytes(head[:3], "big"))
            kind, flags = head[3], head[4]
            if kind == 0 and len(payload) == 7:
                return payload[6]
            if kind == 1 and flags & 1:
                return None


def test_a_worker_is_alive_at_once_and_ready_while_a_dispatcher_knows_it():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher(extra=PROBES)
        check(health(dispatcher, "readiness") == SERVING, "a dispatcher that leads is ready")
        worker = c.worker(extra=PROBES)
        wait_for(lambda: health(worker, "readiness") == SERVING, "the worker is not ready")
        dispatcher.kill()
        wait_for(lambda: health(worker, "readiness") == NOT_SERVING, "ready without a dispatcher")
        for service in ("", "liveness"):
            check(health(worker, service) == SERVING, "the worker lives without a dispatcher")
        check(health(worker, "no such service") is None, "an unknown service has a status")


def test_a_dispatcher_whose_state_folder_is_gone_lives_and_leads():
    with cluster(DATA) as c:
        daemon = c.serve(*PROBES)
        wait_for(lambda: health(daemon, "readiness") == SERVING, "not ready")
        shutil.rmtree(c.folder / "state")
        consumer = c.consumer(1, job="unsaved")
        wait_for(lambda: c.status().get("store_error"), "the store still works", consumer.popen)
        check(health(daemon, "liveness") == SERVING, "liveness depends on the store")
        check(health(daemon, "readiness") == SERVING, "readiness depends on the store")


def test_a_daemon_that_drains_is_alive_and_not_ready():
    with cluster(DATA) as c:
        c.dispatcher()
        worker = c.worker(extra=PROBES)
        wait_for(lambda: health(worker, "readiness") == SERVING, "not ready")
        c.run("drain", worker_name(c), "--address", c.address)
        wait_for(lambda: health(worker, "readiness") == NOT_SERVING, "ready while it drains")
        check(health(worker, "liveness") == SERVING, "dead while it drains")


def worker_name(c):
    return c.status()["workers"][0]["name"]


def test_the_tool_says_whether_a_daemon_is_ready():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher(extra=PROBES)
        worker = c.worker(extra=PROBES)
        at = wait_for(lambda: re.search(r"for=health address=(\S+)", worker.text()), "no health")[1]
        wait_for(lambda: health(worker, "readiness") == SERVING, "the worker is not ready")
        check("readiness" in c.run("health", "--address", at), "it does not say what it asked")
        dispatcher.kill()
        wait_for(lambda: health(worker, "readiness") == NOT_SERVING, "ready without a dispatcher")
        # Docker knows 0 and 1 only.
        c.run("health", "--address", at, expect=1)
        c.run("health", "--address", at, "--service", "liveness")
        worker.kill()
        c.run("health", "--address", at, "--service", "liveness", expect=1)
        c.run("health", "--address", "nowhere", expect=2)
