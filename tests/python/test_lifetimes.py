"""Readers end once, before the interpreter ends, even while threads are inside them."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from conftest import pipeline

import millrace


@pytest.fixture(params=["connected", "reference"])
def session(request, connect, dataset):
    """A session with a daemon, or one in this process."""
    if request.param == "connected":
        return connect(packed=True)
    return millrace.reference(pipeline(), dataset)


def test_whatever_is_asked_of_a_closed_session_says_that_it_is_closed(session):
    steps = iter(session.next_epoch())
    next(steps)
    session.close()
    session.close()
    for ask in (lambda: next(steps), session.next_epoch, session.state_dict, session.cancel,
                lambda: session.batch_at(0, 1), lambda: session.vocabulary,
                lambda: session.context(0), lambda: session.cursor, lambda: session.epoch,
                lambda: session.at_end):
        with pytest.raises(millrace.Cancelled, match="closed"):
            ask()


def test_an_iterator_from_before_a_seek_says_that_the_session_has_gone_on(session):
    steps = iter(session.next_epoch())
    next(steps)
    session.seek(0, 7)
    with pytest.raises(millrace.Cancelled, match="gone on to epoch 0, step 7"):
        next(steps)
    assert next(iter(session.next_epoch()))[0] == 7


def test_any_step_can_be_had_from_another_thread(dataset):
    """Two threads use one reader. Each call builds its batch in memory of its own."""
    of = pipeline(64)
    session = millrace.reference(of, dataset)
    wanted = {step: batch.digest for step, batch in millrace.reference(of, dataset).next_epoch()}
    wrong = []
    done = threading.Event()

    def other():
        while not done.is_set():
            for step, digest in wanted.items():
                if session.batch_at(0, step).digest != digest:
                    wrong.append(step)

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for epoch in session.epochs(60):
            for step, batch in epoch:
                if epoch.number == 0:
                    assert batch.digest == wanted[step]
    finally:
        done.set()
        thread.join()
    assert wrong == []


# --- in processes of their own, because a fault would end the process ---


def in_a_process(code, *arguments, rc=0):
    head = ("import os, signal, sys, threading, time, millrace\n"
            f"of = {pipeline(64)!r}\n")
    done = subprocess.run([sys.executable, "-c", head + code, *map(str, arguments)],
                          capture_output=True, text=True, check=False)
    assert done.returncode == rc, (done.returncode, done.stdout[-1000:], done.stderr[-3000:])
    assert "Traceback" not in done.stderr and "leaked" not in done.stderr, done.stderr
    return done.stdout


CLOSES = """
for n in range(150):
    session = millrace.connect(sys.argv[1], pipeline=of, job=f"closes-{n}")
    def read():
        try:
            for epoch in session.epochs():
                for _ in epoch:
                    pass
        except millrace.Cancelled:
            pass
    thread = threading.Thread(target=read)
    thread.start()
    time.sleep(0.0005 * (n % 37))
    session.close()
    thread.join()
"""


def test_a_session_is_closed_while_another_thread_reads(server):
    in_a_process(CLOSES, server.address)


HANDLER = """
session = millrace.connect(sys.argv[1], pipeline=of, job="handler", world_size=1, rank=0)
def close(*_):
    session.close()
    print("closed", flush=True)
signal.signal(signal.SIGALRM, close)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    for epoch in session.epochs():
        for _ in epoch:
            pass
except millrace.Cancelled as error:
    print(error)
"""


def test_a_signal_handler_closes_the_session_that_it_interrupts(server):
    assert in_a_process(HANDLER, server.address).splitlines()[0] == "closed"


READS_ON = """
def open_session():
    if sys.argv[1] == "reference":
        return millrace.reference(of, sys.argv[2])
    return millrace.connect(sys.argv[2], pipeline=of, job="reads on", prefetch_bytes=1)
def read(session):
    for epoch in session.epochs():
        for _ in epoch:
            reading.set()
reading = threading.Event()
for _ in range(1 if sys.argv[1] == "connected" else 3):
    threading.Thread(target=read, args=(open_session(),), daemon=True).start()
reading.wait()
"""


@pytest.mark.parametrize("kind", ["connected", "reference"])
def test_the_interpreter_ends_while_a_daemon_thread_reads(kind, server, dataset):
    for _ in range(5):
        in_a_process(READS_ON, kind, server.address if kind == "connected" else dataset)


WAITS = """
session = millrace.connect(sys.argv[1], pipeline=of, job="waits", prefetch_bytes=1)
os.kill(int(sys.argv[2]), signal.SIGSTOP)
def read():
    for epoch in session.epochs():
        for _ in epoch:
            pass
threading.Thread(target=read, daemon=True).start()
time.sleep(0.5)
"""


def test_the_interpreter_ends_while_a_daemon_thread_waits(dataset):
    with millrace.LocalServer({"data": dataset}) as server:
        try:
            in_a_process(WAITS, server.address, server.pid)
        finally:
            os.kill(server.pid, signal.SIGCONT)


FORKS = """
session = millrace.reference(of, sys.argv[1])
done = threading.Event()
def read():
    for epoch in session.epochs():
        for _ in epoch:
            if done.is_set():
                return
thread = threading.Thread(target=read)
thread.start()
time.sleep(0.2)
codes = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        sys.exit(7)  # runs the functions that atexit has
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set()
thread.join()
print(codes)
"""


def test_a_forked_process_does_not_wait_for_its_parents_threads(dataset):
    assert in_a_process(FORKS, dataset) == "[7, 7, 7, 7, 7]\n"
