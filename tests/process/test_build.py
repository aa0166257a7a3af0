"""deploy/build prints how far a build is, and everything that goes wrong."""

import contextlib
import os
import pathlib
import pty
import subprocess
import tempfile

from harness import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 400
RULES = f"""
rule ok
  command = true
rule warns
  command = echo "a.cc:1: warning: odd"
rule breaks
  command = seq -f "b.cc:%g: error" 40; exit 1
build warned: warns
build all: phony warned {" ".join(f"o{i}" for i in range(STEPS))}
build broken: breaks | all
default all
""" + "".join(f"build o{i}: ok\n" for i in range(STEPS))


def build(folder, *targets, **options):
    (folder / "build.ninja").write_text(RULES)
    return subprocess.run([ROOT / "deploy" / "build", folder, *targets], check=False,
                          stdin=subprocess.DEVNULL, **options)


def test_a_build_says_in_a_log_how_far_it_is():
    with tempfile.TemporaryDirectory() as folder:
        done = build(pathlib.Path(folder), capture_output=True, text=True)
    check(done.returncode == 0, done.stdout + done.stderr)
    said = [line for line in done.stdout.splitlines() if " %: " in line]
    check(15 <= len(said) <= 21, done.stdout)
    check(said[-1].startswith("100 %: 401 of 401, ") and said[-1].endswith(" s"), said[-1])
    check("a.cc:1: warning: odd" in done.stdout.splitlines(), done.stdout)
    check(len(done.stdout.splitlines()) < 30, done.stdout)


def test_a_build_that_breaks_says_all_of_the_error():
    with tempfile.TemporaryDirectory() as folder:
        done = build(pathlib.Path(folder), "broken", stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                     text=True)
    check(done.returncode == 1, f"ended with {done.returncode}")
    lines = done.stdout.splitlines()
    for line in ["FAILED: broken ", *(f"b.cc:{i}: error" for i in range(1, 41))]:
        check(line in lines, f"no line '{line}' in\n{done.stdout}")


def test_a_build_says_on_a_terminal_how_far_it_is():
    ours, terminal = pty.openpty()
    with tempfile.TemporaryDirectory() as folder:
        done = build(pathlib.Path(folder), "o0", stdout=terminal, stderr=terminal,
                     env={**os.environ, "TERM": "xterm"})
    os.close(terminal)
    said = b""
    with contextlib.suppress(OSError):  # the end of a terminal: what was written can come in parts
        while part := os.read(ours, 1 << 16):
            said += part
    os.close(ours)
    text = said.decode()
    check(done.returncode == 0 and "[100% 1 of 1, " in text and "\r" in text, repr(text))
