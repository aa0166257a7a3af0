"""`millrace top` as a person sees it: in a terminal that changes its size, and as text."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios

from harness import PATIENCE, binary, check, cluster, wait_for
from test_streams import DATA

ESCAPE = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")
SLOW = ["--delay", "0.02"]


class Tty:
    """A program that runs in a terminal of its own."""

    def __init__(self, command, columns=150, lines=40, env=None):
        self.master, self.slave = pty.openpty()
        self.resize(columns, lines)
        self.modes = termios.tcgetattr(self.slave)
        self.output = b""

        def own_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.popen = subprocess.Popen([str(c) for c in command], stdin=self.slave, stdout=self.slave,
                                      stderr=self.slave, start_new_session=True,
                                      preexec_fn=own_terminal,
                                      env={**os.environ, "TERM": "xterm", **(env or {})})

    def resize(self, columns, lines):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys):
        os.write(self.master, keys)

    def read(self):
        while select.select([self.master], [], [], 0.02)[0]:
            self.output += os.read(self.master, 65536)

    def screen(self):
        """The lines of the newest frame; the program writes each frame at once."""
        self.read()
        frames = self.output.split(b"\x1b[H")
        if len(frames) < 2:
            return []
        return [ESCAPE.sub(b"", line).decode(errors="replace").strip("\r")
                for line in frames[-1].split(b"\n")]

    def fresh(self):
        """Waits for a frame that begins after this call; returns its lines."""
        self.output = b""
        return wait_for(self.screen, "no frame is drawn", self.popen)

    def shows(self, words, what):
        def there():
            screen = "\n".join(self.screen())
            return all(word in screen for word in words) and screen
        return wait_for(there, f"{what}: {words} not on the screen", self.popen)

    def expect_end(self, what):
        """Checks that the program ends well and restores the terminal."""
        code = wait_for(lambda: self.popen.poll() is not None, f"{what}: does not end") and \
            self.popen.returncode
        self.read()
        check(code == 0, f"{what}: ended with {code}: {self.output[-500:]}")
        check(self.output.rstrip().endswith(b"\x1b[?25h\x1b[?1049l"),
              f"{what}: the screen is not given back: {self.output[-80:]}")
        check(termios.tcgetattr(self.slave) == self.modes, f"{what}: the keyboard is not given back")

    def close(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        os.close(self.master)
        os.close(self.slave)


@contextlib.contextmanager
def top(c, *arguments, **options):
    tty = Tty([binary("cli"), "top", "--address", c.address, "--period", "0.2", *arguments],
              **options)
    try:
        yield tty
    finally:
        tty.close()


def rate_of(line):
    """The first number of the line that has a decimal point."""
    found = re.search(r"\b(\d+\.\d)\b", line)
    return float(found.group(1)) if found else 0


def test_top_draws_jobs_workers_and_consumers_on_a_terminal():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        c.worker()
        c.consumer(2, job="seen", epochs=100, extra=SLOW)
        with top(c) as tty:
            tty.shows(["JOB", "seen", "WORKER", "127.0.0.1", "CONSUMER", "live", "q quit"],
                      "the service")

            def both_rates():
                lines = [line for line in tty.screen() if line.startswith("seen ")]
                return len(lines) == 3 and all(rate_of(line) > 0 for line in lines[1:])

            wait_for(both_rates, "no rates of the two ranks", tty.popen)
            tty.type(b"s")
            tty.shows([", by rate"], "the s key")
            tty.type(b"p")
            tty.shows(["PAUSED"], "the p key")
            tty.type(b"p")
            for columns, lines in ((60, 12), (200, 50), (20, 5), (1, 1), (150, 40)):
                tty.resize(columns, lines)
                wait_for(lambda: (s := tty.fresh()) and len([x for x in s if x]) <= lines and
                         max(map(len, s)) <= columns, f"no frame of {columns} x {lines}", tty.popen)
            tty.shows(["seen", "q quit"], "after all sizes")
            check(b"\x1b[?1049h" not in tty.output, "the screen is taken once")
            tty.type(b"q")
            tty.expect_end("q")


def test_top_gives_the_terminal_back_when_it_is_interrupted():
    with cluster(DATA) as c:
        c.dispatcher()
        for end in ("ctrl-c", signal.SIGINT, signal.SIGTERM):
            with top(c) as tty:
                tty.shows(["JOB", "WORKER"], "the service")
                check(termios.tcgetattr(tty.slave) != tty.modes, "keys come at once")
                if end == "ctrl-c":
                    tty.type(b"\x03")
                else:
                    tty.popen.send_signal(end)
                tty.expect_end(str(end))


def test_top_says_that_the_dispatcher_is_away_and_goes_on_when_it_is_back():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher()
        with top(c) as tty:
            term = re.search(r"term (\d+)", tty.shows(["term"], "the service")).group(1)
            dispatcher.kill()
            tty.shows(["tried again", term], "the dispatcher is away")
            dispatcher = c.restart_dispatcher(dispatcher)

            def back():
                screen = "\n".join(tty.screen())
                return re.search(r"term \d+", screen) and term not in screen and \
                    "tried again" not in screen

            wait_for(back, "the new dispatcher is not shown", tty.popen)
            check("connection refused" not in dispatcher.text(), dispatcher.text())
            tty.type(b"q")
            tty.expect_end("q")


def test_top_has_no_colour_where_none_is_wanted():
    with cluster(DATA) as c:
        c.dispatcher()
        for env, colours in (({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False)):
            with top(c, env=env) as tty:
                tty.shows(["JOB", "WORKER"], "the service")
                styled = re.search(rb"\x1b\[[1-9]\d*m", tty.output) is not None
                check(styled == colours, f"{env}: {tty.output[-300:]}")
                tty.type(b"q")
                tty.expect_end("q")


def test_top_is_text_where_there_is_no_terminal():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        c.consumer(1, job="seen", epochs=100, extra=SLOW)
        wait_for(lambda: c.status()["consumers"], "no consumer")
        once = c.run("top", "--once", "--address", c.address)
        check("\x1b" not in once, once)
        check(once.count("millrace ") == 1 and "seen" in once, once)
        consumer = [line for line in once.splitlines() if line.startswith("seen ")][-1]
        check(rate_of(consumer) > 0, once)

        again = c.start("top", binary("cli"), "top", "--address", c.address, "--period", "0.2")
        wait_for(lambda: again.text().count("CONSUMER") >= 3, "no frames", again.popen)
        check("\x1b" not in again.text(), again.text())
        again.popen.send_signal(signal.SIGINT)
        check(again.wait() == 0, again.text())


def test_top_once_fails_where_nobody_answers():
    done = subprocess.run([binary("cli"), "top", "--once", "--address", "127.0.0.1:1"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    check(done.returncode == 1 and "127.0.0.1:1" in done.stderr and not done.stdout,
          f"{done.returncode} {done.stdout}{done.stderr}")
