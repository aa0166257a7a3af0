"""Takes samples: runs a program, and rejects the run if something else used the machine
meanwhile."""

import dataclasses
import json
import os
import resource
import signal
import subprocess
import time


class Failed(Exception):
    """The program gave no figures; the message says why."""


class Noisy(Exception):
    """Too many samples were rejected."""


def busy_seconds(stat_text, ticks_a_second=100):
    """CPU seconds that the machine has been busy since it started, stolen time included. Time in
    interrupts is left out: it may serve any program, and mostly serves the measured one."""
    fields = [int(f) for f in stat_text.splitlines()[0].split()[1:]]
    user, nice, system, steal = fields[0], fields[1], fields[2], fields[7]
    return (user + nice + system + steal) / ticks_a_second


def own_seconds():
    """CPU seconds of this process and of all processes that it started and has waited for."""
    return sum(u.ru_utime + u.ru_stime
               for u in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


@dataclasses.dataclass
class Machine:
    """The sources of the clocks; tests replace them."""
    busy: callable = lambda: busy_seconds(open("/proc/stat").read(), os.sysconf("SC_CLK_TCK"))
    own: callable = own_seconds
    now: callable = time.monotonic
    sleep: callable = time.sleep
    cpus: int = os.cpu_count()


def run_program(command, timeout, env=None):
    """Runs a command and returns its figures (dicts), from the JSON lines that it prints."""
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, start_new_session=True, env=env)
    try:
        out, err = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise Failed(f"not within {timeout:.0f} s") from None
    finally:
        # Processes that it started and left behind are killed too.
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
    if child.returncode != 0:
        last = err.decode(errors="replace").strip().splitlines() or ["no message"]
        raise Failed(f"exit code {child.returncode}: {last[-1][:200]}")
    figures = [json.loads(line) for line in out.decode().splitlines() if line.startswith("{")]
    if not figures:
        raise Failed("it printed no figures")
    return figures


class Sampler:
    """Takes samples, and rejects those during which something else used more than `most_foreign` (0
    to 1) of all CPUs. With None, no sample is rejected."""

    def __init__(self, most_foreign, most_rejected, machine=None, program=run_program):
        self.most_foreign = most_foreign
        self.most_rejected = most_rejected
        self.rejected = 0
        self.taken = 0
        self.foreign = []  # for each sample taken, the share of the CPU that others used
        self._machine = machine or Machine()
        self._program = program

    def attempt(self, command, timeout, env=None):
        """Returns figures, or None if the sample was rejected."""
        machine = self._machine
        began, busy, own = machine.now(), machine.busy(), machine.own()
        figures = self._program(command, timeout, env)
        elapsed = max(machine.now() - began, 1e-3)
        others = machine.busy() - busy - (machine.own() - own)
        share = max(0.0, others / (elapsed * machine.cpus))
        if self.most_foreign is None or share <= self.most_foreign:
            self.taken += 1
            self.foreign.append(share)
            return figures
        self.rejected += 1
        if self.rejected > self.most_rejected:
            raise Noisy(f"{self.rejected} samples were rejected, {self.taken} taken: something else "
                        f"used {share:.0%} of the CPU in the last one, at most "
                        f"{self.most_foreign:.0%} is allowed; wait for a quiet machine, or allow "
                        "more with --most-foreign or --most-rejected")
        machine.sleep(2)
        return None

    def sample(self, command, timeout, env=None):
        while True:
            figures = self.attempt(command, timeout, env)
            if figures is not None:
                return figures

    def pair(self, first, second):
        """Two samples (command, timeout, env), one right after the other. Both count or neither."""
        while True:
            one = self.attempt(*first)
            two = self.attempt(*second) if one is not None else None
            if two is not None:
                return one, two
