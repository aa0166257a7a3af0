"""Faults of a whole host: clocks, pauses, limits, strangers on its ports."""

import os
import resource
import selectors
import signal
import socket
import time

from cluster import check, wait_for
from fault import Impossible, fault
from proxy import PREFACE

FAKETIME = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"


@fault("23", "wall clock moved ±30 days; a pause of 10 s", "nothing changes", conditions=(
    "libfaketime runs under the dispatcher, the one process that reads the wall clock (the "
    "monotonic clock stays right): the clock is wrong by +30, -30 and 0 days, in an order that the "
    "seed sets, while the dispatcher runs; at each step it is also killed and restarted; then all "
    "processes are stopped for 10 s at once"))
def the_clock_moves(run):
    if not os.path.exists(FAKETIME):
        raise Impossible("libfaketime is not installed (Debian: faketime)")
    with run.cluster() as c:
        clock = c.folder / "clock"
        clock.write_text("+0d\n")
        # The other processes keep the real clock. gRPC's timers there would wait for times of the
        # moved clock, but they wait in the kernel, which does not know that clock.
        moved = {"LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(clock),
                 "FAKETIME_CACHE_DURATION": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1",
                 "NO_FAKE_STAT": "1"}
        with c.with_env(**moved):
            dispatcher = c.dispatcher()
        c.worker()
        c.worker()
        consumer = c.consume(2, epochs=10000, delay=0.01)
        consumer.wait_for_batches(20)
        began = time.monotonic()
        terms = [int(c.status()["term"])]
        moves = ["+30d", "-30d", "+0d"]
        run.random.shuffle(moves)
        for move in moves:
            clock.write_text(move + "\n")
            consumer.wait_for_more(300)
            dispatcher.kill()
            with c.with_env(**moved):
                dispatcher = c.again(dispatcher)
            consumer.wait_for_more(100)
            terms.append(int(c.status()["term"]))
        check(terms == sorted(set(terms)), f"F: terms grow, whatever the clock says: {terms}")
        check(max(terms) > time.time() + 20 * 86400, f"the clock was not moved: {terms}")
        run.within("longest stall", consumer.stall(began), 3)

        def sessions():
            return sorted(str(s["session"]) for s in c.status()["consumers"])

        wait_for(lambda: len(sessions()) == 2, "a trainer does not come back to the last dispatcher")
        before = sessions()
        paused = [process for process in c.processes if process.alive()]
        for process in paused:
            process.stop()
        time.sleep(10)
        for process in paused:
            process.resume()
        resumed = time.monotonic()
        consumer.wait_for_more(200)
        run.within("longest stall after the pause", consumer.stall(resumed), 3)
        wait_for(lambda: len(sessions()) == 2, "a trainer does not come back after the pause")
        check(sessions() == before, f"a session changed: {before}, now {sessions()}")
        c.stop(consumer)
        c.expect_prefix(consumer, 2)


def connect_many(addresses, count, random=None):
    """Opens connections that stay open: silent ones, or a mixture if `random` (a third silent, a
    third that begins as HTTP/2 and goes on at random, a third random from the start). Returns
    those that could be made."""
    made = []
    for number in range(count):
        host, port = addresses[number % len(addresses)].rsplit(":", 1)
        try:
            connection = socket.create_connection((host, int(port)), timeout=5)
            connection.setblocking(False)
            made.append(connection)
            if random and number % 3:
                start = PREFACE if number % 3 == 1 else b""
                connection.send(start + random.randbytes(random.randrange(1, 2000)))
        except OSError:
            pass
    return made


def read_all(connections):
    """Reads the bytes that came, so that no sender waits."""
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection, selectors.EVENT_READ)
        for key, _ in selector.select(0):
            try:
                key.fileobj.recv(65536)
            except OSError:
                pass


@fault("28", "random HTTP/2 bytes, 10,000 connects", "M L", conditions=(
    "5,000 connections to each port are open at once while a job runs: they are silent, random "
    "from the start, or random after HTTP/2's preface; each process may use at most 512 MiB; "
    "tests/fuzz tries broken requests"))
def ten_thousand_connect(run):
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 10500:
        raise Impossible(f"10,000 connections need more open files than {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with run.cluster() as c:
        dispatcher = c.dispatcher()
        worker = c.worker()
        consumer = c.consume(2, epochs=10000, delay=0.01, network=True)
        consumer.wait_for_batches(20)
        began = time.monotonic()
        connections = connect_many([dispatcher.address, worker.address], 10000, run.random)
        check(len(connections) >= 9900, f"{len(connections)} of 10,000 connections were accepted")
        consumer.wait_for_more(200)
        read_all(connections)
        newcomer = c.consume(1, job="newcomer", network=True)
        newcomer.expect_success()
        c.expect([newcomer], 1)
        run.note("memory of the dispatcher", c.check_memory(512, dispatcher), "MiB")
        run.note("memory of the worker", c.check_memory(512, worker), "MiB")
        for connection in connections:
            connection.close()
        consumer.wait_for_more(200)
        run.within("longest stall", consumer.stall(began), 3)
        for process in (dispatcher, worker):
            wait_for(lambda p=process: p.threads_and_files()[1] < 200, "closed connections are kept")
        c.stop(consumer)
        c.expect_prefix(consumer, 2)


@fault("31", "`ulimit -n 64`; memory limit", "L", conditions=(
    "a dispatcher and a worker with 64 open files get 200 silent connections: the job goes on, and "
    "another one begins meanwhile; `serve` gets "
    "24 to 60 files, or 150 to 700 MB of address space: it serves, or ends with an error that "
    "says why, or serves until it cannot map a file, and says that again and again (if glibc or gRPC get no memory, they abort with a line of their own); `serve` "
    "cannot have two of its first 25 threads: it ends in the same way, within 30 s; with seed 1 "
    "so does a start that hangs on a file that nobody reads"))
def limits_are_low(run):
    with run.cluster() as c:
        with c.limited("ulimit -n 64"):
            dispatcher = c.dispatcher()
            worker = c.worker()
        consumer = c.consume(1, epochs=10000, delay=0.01, network=True)
        consumer.wait_for_batches(20)
        strangers = connect_many([dispatcher.address, worker.address], 200)
        consumer.wait_for_more(100)
        newcomer = c.consume(1, job="newcomer", network=True)
        newcomer.expect_success()
        c.expect([newcomer], 1)
        for stranger in strangers:
            stranger.close()
        consumer.wait_for_more(100)
        c.stop(consumer)
        c.expect_prefix(consumer, 1)
    for limit in (f"ulimit -n {run.random.randrange(24, 60)}",
                  f"ulimit -v {run.random.randrange(150, 700) * 1000}"):
        serve_or_say_why(run, limit)
    threads_are_missing(run)
    if run.seed == 1:
        a_start_hangs(run)


def start_serve(c):
    """Starts `serve`; returns it and the file that will have its address."""
    port = c.folder / "port"
    return c.start("serve", os.environ["MILLRACE_DAEMON_BINARY"], "serve", "--dataset",
                   f"data={c.dataset}", "--listen", "127.0.0.1:0", "--batch-listen", "127.0.0.1:0",
                   "--state", c.folder / "state", "--port-file", port, "--memory-limit", "64MiB",
                   "--grace", "5"), port


def threads_are_missing(run):
    """If gRPC cannot start a thread, it goes on without it, and waits for it when it ends."""
    first, second = run.random.randrange(0, 13), run.random.randrange(13, 25)
    lacks = f"without threads {first} and {second}"
    with run.cluster() as c:
        with c.with_env(LD_PRELOAD=os.environ["MILLRACE_THREAD_FAULT_LIBRARY"],
                        MILLRACE_THREAD_FAULT=f"{first},{second}"):
            serve, port = start_serve(c)
        began = time.monotonic()
        wait_for(lambda: port.exists() or not serve.alive(),
                 f"{lacks}: neither listens nor ends")
        if serve.alive():
            serve.terminate()
            check(serve.wait() in (0, 1), f"{lacks}: it ended with {serve.popen.returncode} after "
                                          f"SIGTERM:\n{serve.text()}")
            return
        run.within("a start that misses threads ends", time.monotonic() - began, 30)
        check(serve.popen.returncode == 1 and serve.error(), f"{lacks}: it ended with "
              f"{serve.popen.returncode}, expected 1 and an error:\n{serve.text()}")


def a_start_hangs(run):
    """A start hangs as if gRPC waited for ever: it writes into a pipe that nobody reads."""
    with run.cluster() as c:
        os.mkfifo(c.folder / "port.tmp")
        serve, _ = start_serve(c)
        began = time.monotonic()
        check(serve.wait() == 1 and "neither started nor ended" in serve.error(),
              f"expected that it ends and says why:\n{serve.text()}")
        run.within("a start that hangs ends", time.monotonic() - began, 30)


def serve_or_say_why(run, limit):
    with run.cluster() as c:
        with c.limited(limit):
            serve, port = start_serve(c)
        wait_for(lambda: port.exists() or not serve.alive(), f"{limit}: neither listens nor ends")
        if serve.alive():
            c.address = port.read_text().strip()
            consumer = c.consume(1, extra=["--attach-timeout", "20"])

            def is_told():
                # Another worker could have the memory, so the trainer waits, and is told why.
                return consumer.process.text().count("(vm.max_map_count) is used up; raise it") > 20

            wait_for(lambda: not consumer.process.alive() or not serve.alive() or is_told(),
                     f"{limit}: the job goes on for ever")
            if serve.alive() and consumer.process.alive():
                consumer.process.terminate()
                consumer.process.wait()
                serve.terminate()
                serve.wait()
            elif serve.alive():
                if consumer.process.popen.returncode == 0:
                    c.expect([consumer], 1)
                    run.note("limits it served under", 1, "")
                else:
                    consumer.expect_error()
                serve.terminate()
                serve.wait()
            else:
                consumer.process.terminate()
                consumer.process.wait()
            if serve.popen.returncode == 0:
                return
        if limit.startswith("ulimit -v") and serve.popen.returncode == -signal.SIGABRT:
            # glibc and gRPC abort if they get no memory for a thread, but they do print a message.
            check(" info " not in serve.text().splitlines()[-1], f"{limit}: not a word:\n{serve.text()}")
            serve.killed = True
            run.note("aborts of glibc and gRPC", 1, "")
            return
        check(serve.popen.returncode in (1, 2) and serve.error(), f"{limit}: it ended with "
              f"{serve.popen.returncode}, expected 1 or 2 and an error:\n{serve.text()}")
