"""Real processes for tests: datasets, daemons, consumers, and the reference that they are compared
with.

Everything of one test lives in one temporary folder and ends with it. Tests wait for events (a
file, a line, an exit), never for a length of time. A wait ends after a limit only to say that the
test has failed; `patience` says how limits count. If a test looks at something passing, that thing
waits for it: a job without an end, a process that is stopped, a lock that the test holds.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from patience import PATIENCE, tries  # noqa: E402

PIPELINE = """millrace: 1
dataset: data
source: proof_states
shuffle: {{seed: 7}}
closure: {{max_subgraph_size: 64}}
batch: {{{batch}, remainder: {remainder}}}
"""


def binary(name):
    return os.environ["MILLRACE_" + name.upper() + "_BINARY"]


class Failure(AssertionError):
    """A check of the test failed."""


class Skipped(Exception):
    """The test needs something that is missing here; the message says what."""


def deploy(seconds):
    """Gives a test the label `deploy`: `tests/run --deploy` runs it, and CI does not. It may take
    `seconds` of patience.now()."""
    def mark(function):
        function.deploy_seconds = seconds
        return function
    return mark


def check(condition, message):
    if not condition:
        raise Failure(message)


def numpy_python():
    """A python with numpy, which plugins need."""
    for python in (os.environ.get("MILLRACE_NUMPY_PYTHON"), "/usr/bin/python3", sys.executable):
        if python and subprocess.run([python, "-c", "import numpy"], capture_output=True,
                                     check=False).returncode == 0:
            return python
    raise Skipped("no python has numpy")


def wait_for(condition, what, process=None):
    """Polls until condition() is true; fails with `what` after PATIENCE seconds, or when the process
    has ended."""
    for _ in tries():
        ended = process is not None and process.poll() is not None
        if result := condition():
            return result
        if ended:
            raise Failure(f"{what}: the process ended with {process.returncode}")
    raise Failure(f"{what}: not within {PATIENCE:.0f} s")


class Process:
    """One running program, with its output in a file."""

    def __init__(self, folder, name, command, env=None):
        self.name = name
        self.command = command
        self.output = folder / f"{name}.log"
        self._file = open(self.output, "wb")
        self.popen = subprocess.Popen(command, stdout=self._file, stderr=subprocess.STDOUT,
                                      stdin=subprocess.DEVNULL, env=env)

    def text(self):
        return self.output.read_text(errors="replace")

    def cpu_seconds(self):
        """The CPU time that the process has used."""
        fields = pathlib.Path(f"/proc/{self.popen.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self):
        """The memory of the process, without the page cache."""
        status = pathlib.Path(f"/proc/{self.popen.pid}/status").read_text()
        kinds = re.findall(r"^(?:RssAnon|RssShmem|VmSwap):\s+(\d+) kB", status, re.M)
        return sum(map(int, kinds)) << 10

    def kill(self):
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def terminate(self):
        self.popen.send_signal(signal.SIGTERM)

    def stop(self):
        self.popen.send_signal(signal.SIGSTOP)

    def resume(self):
        self.popen.send_signal(signal.SIGCONT)

    def wait(self):
        for _ in tries():
            if self.popen.poll() is not None:
                return self.popen.returncode
        raise Failure(f"{self.name} does not end; its output:\n{self.text()[-3000:]}")

    def expect_success(self):
        code = self.wait()
        check(code == 0, f"{self.name} ended with {code}:\n{self.text()[-3000:]}")

    def close(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.kill()
        self.popen.wait()
        self._file.close()


class Cluster:
    """A dataset, a pipeline, and the processes of one test."""

    def __init__(self, folder, dataset, batch="size: 8", remainder="keep", pipeline=PIPELINE):
        self.folder = folder
        self.dataset = dataset
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(pipeline.format(batch=batch, remainder=remainder))
        self.processes = []
        self.address = None
        self._count = 0

    # --- programs ---

    def run(self, *arguments, expect=0):
        """Runs the command-line tool to its end; returns its standard output."""
        done = subprocess.run([binary("cli"), *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        check(done.returncode == expect,
              f"millrace {' '.join(map(str, arguments))}: exit code {done.returncode}, expected "
              f"{expect}\n{done.stdout.decode()[-1000:]}{done.stderr.decode()[-2000:]}")
        return done.stdout.decode()

    def start(self, name, *command):
        self._count += 1
        process = Process(self.folder, f"{self._count:02}-{name}", [str(c) for c in command])
        self.processes.append(process)
        return process

    def _daemon(self, role, *arguments):
        port_file = self.folder / f"port-{self._count}"
        process = self.start(role, binary("daemon"), role, "--dataset", f"data={self.dataset}",
                             "--port-file", port_file, "--grace", "5", *arguments)
        wait_for(lambda: port_file.exists() and port_file.read_text().strip(),
                 f"{role} does not listen; output: {process.text()}", process.popen)
        process.address = port_file.read_text().strip()
        return process, process.address

    def dispatcher(self, listen="127.0.0.1:0", extra=()):
        process, self.address = self._daemon("dispatcher", "--listen", listen, "--state",
                                             self.folder / "state", *extra)
        return process

    def restart_dispatcher(self, dispatcher, away_seconds=6.5):
        """Kills the dispatcher, and starts it again after `away_seconds`. That is longer than a
        connection may take, and than gRPC's own pauses."""
        dispatcher.kill()
        back = time.monotonic() + away_seconds
        wait_for(lambda: time.monotonic() >= back, "time stands still")
        return self.dispatcher(self.address)

    def worker(self, threads=1, memory="256MiB", extra=()):
        return self._daemon("worker", "--batch-listen", "127.0.0.1:0", "--dispatcher", self.address,
                            "--threads", threads, "--memory-limit", memory, *extra)[0]

    def serve(self, *arguments, state="state"):
        process, self.address = self._daemon("serve", "--listen", "127.0.0.1:0", "--batch-listen",
                                             "127.0.0.1:0", "--state",
                                             self.folder / state, *arguments)
        return process

    def proxy(self, delay_ms):
        """Starts a proxy that passes bytes on `delay_ms` later, each way. Returns its address, and
        the file that must contain the target's address before the first connection."""
        to = self.folder / f"proxy-to-{self._count}"
        port_file = self.folder / f"proxy-port-{self._count}"
        process = self.start("proxy", binary("proxy"), "--to-file", to, "--delay-ms", delay_ms,
                             "--port-file", port_file)
        wait_for(port_file.exists, f"the proxy does not listen: {process.text()}", process.popen)
        return port_file.read_text().strip(), to

    def serve_far(self, delay_ms):
        """Like serve(), but consumers reach both of its ports with a delay of `delay_ms`."""
        batches, to_batches = self.proxy(delay_ms)
        control, to_control = self.proxy(delay_ms)
        process = self.serve("--advertise", batches, state="far-state")
        to_control.write_text(self.address)
        # The daemon prints this line before it writes the port file.
        to_batches.write_text(re.search(r"for=batches address=(\S+)", process.text())[1])
        self.address = control
        return process

    def consumer(self, world_size, ranks="all", epochs=1, job="job", log=None, extra=(), prefix=()):
        log = log or self.folder / f"delivered-{self._count}.jsonl"
        process = self.start("consumer", *prefix, binary("cli"), "consume", self.pipeline, "--address",
                             self.address, "--job", job, "--world-size", world_size, "--ranks", ranks,
                             "--epochs", epochs, "--log", log, *extra)
        process.log = log
        return process

    # --- delivered and expected batches ---

    def status(self):
        return json.loads(self.run("status", "--address", self.address, "--format", "json"))

    def builders(self, workers):
        """Those of these workers that have sent batches, the one that has sent most first; waits until
        one has. A slow loop needs one worker, and then the others do nothing."""
        def found():
            sent = {w["address"]: int(w["sent_batches"]) for w in self.status()["workers"]}
            numbers = {worker: sent.get(worker.address, 0) for worker in workers}
            return sorted(filter(numbers.get, workers), key=numbers.get, reverse=True)
        return wait_for(found, "no worker has sent a batch")

    def reference(self, epoch, world_size, start=0):
        """The log lines of an epoch, built in one process without a server."""
        text = self.run("digest", self.pipeline, "--dataset", f"data={self.dataset}", "--epoch",
                        epoch, "--world-size", world_size, "--from", start)
        return [json.loads(line) for line in text.splitlines()]

    def check_so_far(self, consumer, world_size):
        """Checks that each rank of a job, which need not have an end, has had its first batches, each
        once and with the same bytes. Returns the number of batches."""
        lines = self.delivered(consumer.log)
        left = [sum(line["rank"] == rank for line in lines) for rank in range(world_size)]
        expected = []
        for epoch in range(1 + max((line["epoch"] for line in lines), default=-1)):
            for line in self.reference(epoch, world_size):
                left[line["rank"]] -= 1
                expected += [line] if left[line["rank"]] >= 0 else []
        check_same(lines, expected)
        return len(lines)

    def end(self, consumer, world_size=1):
        """Ends a job without an end, and checks the batches that it had."""
        consumer.terminate()
        consumer.expect_success()
        check(self.check_so_far(consumer, world_size) > 0, "no batch came")

    @staticmethod
    def delivered(log):
        """The complete lines of a delivery log."""
        if not pathlib.Path(log).exists():
            return []
        text = pathlib.Path(log).read_text()
        return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]

    def close(self):
        for process in self.processes:
            process.close()


def key(line):
    return (line["epoch"], line["ordinal"])


def check_same(delivered, expected, what=""):
    """Checks that each expected batch came exactly once, with the same bytes, and each rank's in
    order."""
    counts = {}
    for line in delivered:
        counts[key(line)] = counts.get(key(line), 0) + 1
    twice = [k for k, n in counts.items() if n > 1]
    check(not twice, f"{what}: delivered more than once: {twice[:5]}")
    want = {key(line): line for line in expected}
    missing = sorted(set(want) - set(counts))
    check(not missing, f"{what}: {len(missing)} of {len(want)} batches missing: {missing[:5]}")
    extra = sorted(set(counts) - set(want))
    check(not extra, f"{what}: {len(extra)} batches that nobody asked for: {extra[:5]}")
    last = {}
    for line in delivered:
        check(line == want[key(line)], f"{what}: {line} differs from {want[key(line)]}")
        check(last.get(line["rank"], (-1, -1)) < key(line), f"{what}: out of order: {line}")
        last[line["rank"]] = key(line)


def check_examples_once(lines, what=""):
    """Checks that every example of an epoch came at most once. Returns the ids, dropped ones
    included."""
    seen = set()
    for line in lines:
        for example in [*line["examples"], *(d[0] for d in line["dropped"])]:
            check(example not in seen, f"{what}: example {example} came twice")
            seen.add(example)
    return seen


@contextlib.contextmanager
def cluster(dataset, **options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-test-"))
    made = Cluster(folder, dataset, **options)
    try:
        yield made
    except Exception:
        for process in made.processes:
            print(f"--- {process.name}\n{process.text()[-2000:]}")
        raise
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)
