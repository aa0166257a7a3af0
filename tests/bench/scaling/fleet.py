"""A fleet of real processes: a dispatcher, workers whose batches take time and no CPU, and consumers."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from processes import Failed, Process  # noqa: E402

SIZE = 8  # examples in a batch


def until(holds, seconds, what):
    """Waits until a function gives something true, and returns that."""
    end = time.monotonic() + seconds
    while True:
        if found := holds():
            return found
        if time.monotonic() > end:
            raise Failed(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.05)


class Consumer:
    """A trainer that takes batches as they come. A line in its log is a batch."""

    def __init__(self, process, log):
        self.process, self.log = process, log

    def batches(self):
        try:
            with open(self.log, "rb") as log:
                return sum(1 for _ in log)
        except FileNotFoundError:
            return 0

    def wait_for_first(self, seconds=120):
        until(lambda: self.batches() > 0 or not self.process.running(), seconds, "first batch")
        if not self.process.running():
            raise self.process.failure()

    def rate(self, seconds):
        """Batches a second from now on."""
        before, began = self.batches(), time.monotonic()
        time.sleep(seconds)
        return (self.batches() - before) / (time.monotonic() - began)


class Fleet:
    def __init__(self, options, folder, milliseconds=100, threads=1, size=1_000_000, rows=SIZE):
        """A batch takes `rows` x `milliseconds` of one thread."""
        self.cli = options.build / "client" / "cli" / "millrace"
        self.daemon = options.build / "server" / "millraced"
        self.folder = folder
        folder.mkdir()
        self.marks = folder / "marks"
        self.marks.mkdir()
        self.pipeline = folder / "pipeline.yaml"
        self.pipeline.write_text(
            "millrace: 1\n"
            f"source: {{python: 'paced:Paced', args: {{milliseconds: {milliseconds}, size: {size}, "
            f"marks: '{self.marks}'}}}}\n"
            f"shuffle: {{seed: 0}}\nbatch: {{size: {rows}, remainder: keep}}\n")
        self.config = folder / "worker.yaml"
        self.config.write_text(
            f"threads: {threads}\nplugins:\n  paced: {{path: '{HERE / 'plugin'}', "
            f"python: {options.python}, processes: {threads}}}\n")
        self.workers, self.consumers, self._all = {}, [], []
        self.listen = "127.0.0.1"
        self._dispatcher = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.workers.values():
            with contextlib.suppress(ProcessLookupError):
                worker.popen.send_signal(signal.SIGCONT)
        for process in reversed(self._all):
            process.close()

    def _start(self, name, command):
        process = Process(name, command, self.folder / f"{name}.log", lines=False)
        self._all.append(process)
        return process

    def start_dispatcher(self, port=0):
        port_file = self.folder / "port"
        port_file.unlink(missing_ok=True)
        insecure = [] if self.listen == "127.0.0.1" else ["--insecure", "true"]
        self._dispatcher = self._start(f"dispatcher-{len(self._all)}", [
            self.daemon, "dispatcher", "--listen", f"{self.listen}:{port}", "--state",
            self.folder / "state", "--port-file", port_file, *insecure])
        self.address = until(lambda: port_file.exists() and port_file.read_text().split(), 60,
                             "the dispatcher's port")[0]

    def kill_dispatcher(self):
        self._dispatcher.close()

    def add(self, count=1, listen=None, inside=()):
        """Starts workers; `inside`: the command that puts them into another host."""
        names = []
        for _ in range(count):
            name = f"w{len(self.workers)}"
            insecure = [] if self.listen == "127.0.0.1" else ["--insecure", "true"]
            self.workers[name] = self._start(name, [
                *inside, self.daemon, "worker", "--config", self.config, "--dispatcher", self.address,
                "--batch-listen", f"{listen or self.listen}:0", "--name", name, *insecure])
            names.append(name)
        return names

    def consume(self, job="job", *extra):
        log = self.folder / f"{job}.jsonl"
        process = self._start(f"consume-{job}", [
            self.cli, "consume", self.pipeline, "--address", self.address, "--job", job, "--epochs",
            "0", "--log", log, "--quiet", *extra])
        consumer = Consumer(process, log)
        self.consumers.append(consumer)
        return consumer

    def status(self):
        done = subprocess.run([self.cli, "status", "--address", self.address, "--format", "json"],
                              capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}

    def ready(self, count, seconds=120):
        until(lambda: sum(worker["state"] == "ready"
                          for worker in self.status().get("workers", [])) >= count,
              seconds, f"{count} workers")

    def builds(self):
        """Batches that each worker has built."""
        return {worker["name"]: max((int(stage["count"]) for stage in worker.get("build", [])),
                                    default=0) for worker in self.status().get("workers", [])}

    def slow_down(self, name):
        (self.marks / str(self.workers[name].pid)).touch()

    def command(self, *words):
        return subprocess.run([self.cli, *words, "--address", self.address], capture_output=True,
                              text=True, check=False)


@contextlib.contextmanager
def other_host():
    """Another host: a network namespace beside this process's. Needs root, and this process in a
    namespace of its own."""
    def run(*words):
        subprocess.run(words, check=True)
    hold = subprocess.Popen(["unshare", "-n", "sleep", "100000"])
    try:
        until(lambda: os.stat(f"/proc/{hold.pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino,
              10, "a network namespace")
        inside = ["nsenter", "-t", str(hold.pid), "-n"]
        run("ip", "link", "set", "lo", "up")
        run("ip", "link", "add", "va", "type", "veth", "peer", "name", "vb")
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "va")
        run("ip", "link", "set", "va", "up")
        run("ip", "link", "set", "vb", "netns", str(hold.pid))
        run(*inside, "ip", "link", "set", "lo", "up")
        run(*inside, "ip", "addr", "add", "10.77.0.2/24", "dev", "vb")
        run(*inside, "ip", "link", "set", "vb", "up")
        yield inside
    finally:
        hold.kill()
        hold.wait()
        subprocess.run(["ip", "link", "del", "va"], check=False, capture_output=True)
