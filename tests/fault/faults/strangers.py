"""Strangers: peers without a right to what they ask for, and peers that only want to do harm."""

import struct
import subprocess
import time

from cluster import MIB, binary, check, wait_for
from fault import fault
from floods import (DATA, END_HEADERS, HEADERS, MOST_IN_A_FRAME, SETTINGS, Flood, HalfMessages, Saying,
                    begin_of_a_message, frame, headers)
from harness import PIPELINE
from proxy import PREFACE


def start_fleet(c, *extra):
    """A dispatcher and a worker with certificates; returns the folder of all certificates."""
    tls = c.folder / "tls"
    c.run("certs", tls)
    dispatcher = c.dispatcher(extra=("--tls", tls / "dispatcher", *extra))
    worker = c.worker(extra=("--tls", tls / "worker", *extra))
    return tls, dispatcher, worker


def copy(source, target, *files):
    target.mkdir()
    for name in files:
        (target / name).write_bytes((source / name).read_bytes())
    return target


# Each calls one method more than the one before: status, watch, trace, drain, its undoing, end of a job, attach.
REQUESTS = {
    "GetStatus": ("status",),
    "WatchStatus": ("top", "--once"),
    "Trace": ("trace", "--seconds", "1"),
    "DrainWorker": ("drain", "nobody"),
    "UndrainWorker": ("undrain", "nobody"),
    "EndJob": ("jobs", "end", "victim"),
    "Attach": ("consume", "PIPELINE", "--job", "victim", "--world-size", "1",
               "--connect-timeout", "3", "--epochs", "1"),
}
ALLOWED = {
    "trainer": {"GetStatus", "WatchStatus", "EndJob", "Attach"},
    "operator": {"GetStatus", "WatchStatus", "Trace", "DrainWorker", "UndrainWorker", "EndJob"},
    "viewer": {"GetStatus", "WatchStatus"},
    "worker": set(),
    "dispatcher": set(),
}


@fault("29", "wrong certificate, no token, wrong role × every RPC", "denied (with TLS)", once=True,
       conditions=(
    "a fleet with certificates and an access file; tools without TLS, with a certificate of "
    "another CA, without one, with a token that nobody gave, and with each role, send what tools "
    "can send while another name's job runs; tls_test.cc does the same with every method of the "
    "protocol over bare gRPC, also with certificates that have expired or begin later"))
def strangers_are_denied(run):
    with run.cluster() as c:
        access = c.folder / "access.yaml"
        access.write_text("tokens: []\n")
        tls, dispatcher, _ = start_fleet(c, "--access", access)
        c.run("certs", tls, "--name", "victim", "--role", "trainer")
        victim = c.consume(1, epochs=10000, job="victim", delay=0.01, extra=["--tls", tls / "victim"])
        victim.wait_for_batches(20)

        def ask(method, folder):
            words = [str(c.pipeline) if w == "PIPELINE" else w for w in REQUESTS[method]]
            done = subprocess.run(
                [binary("cli"), *words, "--address", c.address,
                 *(["--tls", str(folder)] if folder else [])],
                capture_output=True, text=True, timeout=60, check=False)
            return done.returncode, done.stderr

        other = c.folder / "other"
        c.run("certs", other)
        c.run("certs", tls, "--token", "student")
        strangers = {
            "without TLS": (None, "wants TLS"),
            "of another CA": (other / "operator", "certificates of one CA"),
            "of another CA, that knows this one": (
                copy(other / "operator", c.folder / "mixed", "tls.crt", "tls.key"),
                "was not signed by"),
            "with a token that nobody gave": (tls / "student", "unknown token"),
        }
        (c.folder / "mixed" / "ca.crt").write_bytes((tls / "ca.crt").read_bytes())
        bare = copy(tls / "operator", c.folder / "bare", "ca.crt")
        strangers["without certificate and token"] = (bare, "expected ca.crt, and either")
        for name, (folder, words) in strangers.items():
            for method in REQUESTS:
                code, error = ask(method, folder)
                check(code in (1, 2) and words in error,
                      f"{name}, {method}: exit code {code}, expected an error with '{words}':\n{error}")
        for role, allowed in ALLOWED.items():
            for method in REQUESTS:
                code, error = ask(method, tls / role)
                denied = f"may not call {method}" in error
                check(denied == (method not in allowed), f"{role}, {method}: exit code {code}:\n{error}")
                if method in ("Attach", "EndJob") and role == "trainer":
                    check(code != 0 and "victim" in error, f"another's job, {method}: {code}:\n{error}")
                if method == "EndJob" and role == "operator":
                    check(code == 0, f"an operator cannot end a job: {error}")
        check(victim.process.wait() != 0, "the job that an operator ended goes on")
        check("call refused" in dispatcher.text(), "the log does not say what was refused")


def silence():
    return b""


def half_a_hello():
    return b"\x16\x03\x01\x02\x00\x01"


def a_hello(random):
    """A whole record with something like a client's hello, after which nothing comes."""
    body = b"\x01\x00\x00\xfc\x03\x03" + random.randbytes(250)
    return b"\x16\x03\x01" + struct.pack(">H", len(body)) + body


END_JOB = b"/millrace.v1.Dispatcher/EndJob"
GET_STATIC = b"/millrace.v1.Worker/GetStatic"
LENGTH = 60 * MIB  # of a message that does not end


def half_a_message(method):
    """More of a message than the server has given window for."""
    data = begin_of_a_message(LENGTH) + bytes(LENGTH - 1)
    return (PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, headers(method)) +
            b"".join(frame(DATA, 0, 1, data[at:at + MOST_IN_A_FRAME])
                     for at in range(0, len(data), MOST_IN_A_FRAME)))


def floods(random, method, tls):
    """By name: what begins one at an address, and how many connections it opens at least. `tls`: a
    folder of a peer that may call the method, if there is TLS."""
    def saying(says, most=300):
        return lambda address: Flood(address, most, lambda at: Saying(at, says))

    def half(streams):
        return lambda address: Flood(
            address, 27, lambda at: HalfMessages(at, method, LENGTH, streams, tls))
    return {
        "silence": (saying(silence()), 150),
        "half a hello": (saying(half_a_hello()), 150),
        "a hello": (saying(a_hello(random)), 150),
        "random bytes": (saying(PREFACE + random.randbytes(500)), 150),
        "half messages": (half(1), 27),
        "half messages on all streams": (half(8), 27),
        "half messages beyond all windows": (saying(half_a_message(method), 27), 14),
    }


@fault("28b", "floods of connections and half messages", "M P L", once=True, ci=True, conditions=(
    "a dispatcher and a worker with 256 open files, with TLS and without, while a job runs; at each of "
    "them for 3 s each: 300 connections at a time that are silent, say half of a hello, a whole one, "
    "or random bytes, and 27 of a peer that may call EndJob or GetStatic, each with half a message of "
    "60 MB, or eight of them, within HTTP/2's windows or beyond; a tool is answered within 1 s, a "
    "trainer waits for less, memory grows by at most 64 MiB, and afterwards all is as before"))
def floods_do_no_harm(run):
    for with_tls in (True, False):
        with run.cluster() as c:
            tls = c.folder / "tls"
            c.run("certs", tls)
            as_server = ("--tls", tls / "serve") if with_tls else ()
            with c.limited("ulimit -n 256"):
                dispatcher = c.dispatcher(extra=as_server)
                worker = c.worker(extra=(*as_server, "--shared-memory", "false"))
            consumer = c.consume(1, epochs=10000, delay=0.01,
                                 extra=["--tls", tls / "trainer"] if with_tls else [])
            consumer.wait_for_batches(20)
            for daemon, method in ((dispatcher, END_JOB), (worker, GET_STATIC)):
                daemon.measure()
                files = daemon.threads_and_files()[1]
                kinds = floods(run.random, method, tls / "trainer" if with_tls else None)
                for name, (begin, least) in kinds.items():
                    what = f"{name} at {daemon.name}, {'with' if with_tls else 'without'} TLS"
                    flood_one(run, c, what, daemon, begin, least, consumer,
                              ("--tls", tls / "operator") if with_tls else ())
                wait_for(lambda daemon=daemon, files=files: daemon.threads_and_files()[1] <= files + 8,
                         "connections of the flood are kept")
            consumer.wait_for_more(100)
            c.stop(consumer)
            c.expect_prefix(consumer, 1)


def flood_one(run, c, what, daemon, begin, least, consumer, as_tool):
    before = daemon.memory
    daemon.most_memory = 0
    began = time.monotonic()
    flood = begin(daemon.address)
    while time.monotonic() < began + 3:
        asked = time.monotonic()
        c.run("status", "--address", c.address, *as_tool)
        run.within("slowest answer", time.monotonic() - asked, 1)
        time.sleep(0.2)
    flood.stop()
    run.within("longest stall", consumer.stall(began), 1)
    check(flood.opened >= least, f"{what}: {flood.opened} connections are no flood")
    grown = (daemon.most_memory - before) / MIB
    allowed = 64 * min(run.slack, 2)  # what comes before anybody looks depends on the machine
    check(grown <= allowed, f"{what}: memory grew by {grown:.0f} MiB, allowed {allowed:.0f}")
    run.note("growth of memory", max(grown, 0), "MiB")


@fault("28c", "1,000 trainers connect at once, over TLS", "P", once=True, conditions=(
    "a job of one trainer runs; one of 1,000 trainers begins, is killed -9 when each of them has a "
    "batch, and begins again, over the network; the first one waits for less than 1 s"))
def many_trainers_connect(run):
    with run.cluster() as c:
        tls, _, _ = start_fleet(c)
        as_trainer = ["--tls", tls / "trainer"]
        consumer = c.consume(1, epochs=100000, delay=0.01, network=True, extra=as_trainer)
        consumer.wait_for_batches(100)
        c.pipeline = c.folder / "single.yaml"
        c.pipeline.write_text(PIPELINE.format(batch="size: 1", remainder="keep"))
        for time_ in ("first", "second"):
            began = time.monotonic()
            many = c.consume(1000, job="many", epochs=100000, delay=1, network=True, ahead=1000,
                             extra=[*as_trainer, "--quiet", "--connect-timeout", "120"])
            wait_for(lambda many=many: len({rank for rank, times in list(many.arrivals.items())
                                            if times}) == 1000, "not all of them got a batch",
                     many.process.popen)
            run.note(f"until all had a batch, the {time_} time", time.monotonic() - began)
            run.within("longest stall", consumer.stall(began), 1)
            many.process.kill()
        consumer.wait_for_more(100)
        c.stop(consumer)
