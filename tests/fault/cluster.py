"""Real processes under faults: the harness of tests/process, with consumers that are watched,
network namespaces for processes, measured memory, and checks of how processes end."""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "process"))

import harness  # noqa: E402
from harness import Failure, binary, check, wait_for  # noqa: E402

import checker  # noqa: E402

EXAMPLES = 1500  # of the dataset
# How `millrace generate` makes datasets with that many.
GENERATE = {
    "coq": ["--nodes", "60000", "--files", "8", "--proof-states", "1500"],
    "graph": ["--kind", "graph", "--nodes", "20000", "--roots", "1500", "--features", "8"],
    "records": ["--kind", "records", "--records", "1500", "--files", "8"],
}
GRAPH_PIPELINE = """millrace: 1
dataset: data
source: {{roots: train}}
shuffle: {{seed: 7}}
closure: {{max_subgraph_size: 64}}
features: [x]
targets: [y]
batch: {{{batch}, remainder: {remainder}}}
"""
RECORDS_PIPELINE = """millrace: 1
dataset: data
source: {{records: {{d: "bytes[194]", s: int64, x: "float32[*]"}}}}
shuffle: {{seed: 7}}
batch: {{{batch}, remainder: {remainder}}}
"""
# The kinds whose pipeline is not that of the harness.
PIPELINES = {"graph": GRAPH_PIPELINE, "records": RECORDS_PIPELINE}
MIB = 1 << 20
# Signals that kill a process because of its own error.
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE}


class Process(harness.Process):
    """A program. It knows whether a test ended it, and how much memory it had at most."""

    def __init__(self, folder, name, command, env=None):
        super().__init__(folder, name, command, env)
        self.killed = False
        self.ours = True      # one of Millrace's programs, which ends well after SIGTERM
        self.memory = 0       # bytes of its own: anonymous and shared, without mapped files
        self.most_memory = 0

    def kill(self):
        self.killed = True
        super().kill()

    def alive(self):
        return self.popen.poll() is None

    def measure(self):
        with contextlib.suppress(OSError, ProcessLookupError):
            text = pathlib.Path(f"/proc/{self.popen.pid}/status").read_text()
            self.memory = sum(int(line.split()[1]) << 10 for line in text.splitlines()
                              if line.startswith(("RssAnon:", "RssShmem:", "VmSwap:")))
            self.most_memory = max(self.most_memory, self.memory)

    def threads_and_files(self):
        """The numbers of its threads and of its open files."""
        return (len(os.listdir(f"/proc/{self.popen.pid}/task")),
                len(os.listdir(f"/proc/{self.popen.pid}/fd")))

    def error(self):
        """The reason that a tool or a daemon printed when it ended."""
        found = re.search(r"^(millraced?: .*)", self.text(), re.M | re.S)
        return found[1] if found else ""


class Consumer:
    """One `millrace consume`, with the time at which each batch of its log came."""

    def __init__(self, process, log, delay):
        self.process = process
        self.log = log
        self.delay = delay       # seconds that a training step takes
        self.arrivals = {}       # rank -> times of its batches
        self.started = time.monotonic()
        self._offset = 0
        self._rest = b""

    # --- for the watcher ---

    def look(self):
        with contextlib.suppress(FileNotFoundError), open(self.log, "rb") as log:
            log.seek(self._offset)
            data = log.read()
            self._offset += len(data)
            now = time.monotonic()
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                rank = int(line[line.index(b'"rank":') + 7:].split(b",", 1)[0])
                self.arrivals.setdefault(rank, []).append(now)

    def batches(self, rank=None):
        """The number of batches that have come."""
        if rank is not None:
            return len(self.arrivals.get(rank, []))
        return sum(len(times) for times in list(self.arrivals.values()))

    def stall(self, since):
        """The longest time that a rank's loop waited for a batch, from `since` until its last one."""
        longest = 0.0
        for times in list(self.arrivals.values()):
            before = since
            for at in times:
                if at > since:
                    longest = max(longest, at - before - self.delay)
                    before = at
        return longest

    def last(self):
        """The time at which the last batch came."""
        return max((times[-1] for times in list(self.arrivals.values())), default=0)

    def resumed(self, since):
        """The time from `since` to the first batch after it."""
        later = [at for times in list(self.arrivals.values()) for at in times if at > since]
        check(later, f"{self.process.name}: nothing came any more")
        return min(later) - since

    # --- as a process ---

    def wait_for_batches(self, count, rank=None):
        wait_for(lambda: self.batches(rank) >= count, f"{self.process.name}: fewer than {count} batches "
                 f"came", self.process.popen)

    def wait_for_more(self, count=1):
        """Waits for `count` more batches than there are now."""
        self.wait_for_batches(self.batches() + count)

    def expect_success(self):
        self.process.expect_success()
        self.look()

    def expect_error(self, *words):
        """Checks that it ends with an error that contains `words`; returns its exit code and its
        text."""
        code = self.process.wait()
        check(code > 0, f"{self.process.name}: exit code {code}, expected an error:\n"
                        f"{self.process.text()[-1000:]}")
        said = self.process.error()
        check(said, f"{self.process.name} names no error:\n{self.process.text()[-1000:]}")
        for word in words:
            check(str(word) in said, f"'{word}' is not in: {said}")
        return code, said

    def lines(self):
        """The lines of its log; those of each rank are in order."""
        text = pathlib.Path(self.log).read_text() if pathlib.Path(self.log).exists() else ""
        lines = checker.parse(text, self.process.name, torn=self.process.killed or
                              self.process.alive())
        checker.check_order(lines, self.process.name)
        return lines

    def cursor(self):
        """The cursor of its summary, if it ended well."""
        found = re.search(r"^cursor (\S+)$", self.process.text(), re.M)
        check(found, f"{self.process.name} gives no cursor:\n{self.process.text()[-1000:]}")
        return found[1]


class Namespace:
    """A host of its own on the cluster's bridge."""

    def __init__(self, number):
        self.address = f"10.77.0.{number}"
        self._process = subprocess.Popen(["unshare", "-n", "sleep", "infinity"])
        self.pid = self._process.pid
        own = os.readlink("/proc/self/ns/net")
        wait_for(lambda: os.readlink(f"/proc/{self.pid}/ns/net") != own, "no network namespace")
        ip("link", "add", f"to{number}", "type", "veth", "peer", "name", "eth0", "netns", str(self.pid))
        ip("link", "set", f"to{number}", "master", "bridge0", "up")
        self.ip("link", "set", "lo", "up")
        self.ip("addr", "add", f"{self.address}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")

    @property
    def prefix(self):
        return ["nsenter", "-t", str(self.pid), "-n"]

    def ip(self, *arguments):
        ip(*arguments, prefix=self.prefix)

    def send_nothing_to(self, other):
        """Drops packets to the other host; those that come from it still arrive."""
        self.ip("route", "add", "blackhole", f"{other.address}/32")

    def send_again_to(self, other):
        self.ip("route", "del", "blackhole", f"{other.address}/32")

    def close(self):
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def binaries(**paths):
    """Programs started meanwhile are these instead: daemon=PATH, cli=PATH."""
    names = {f"MILLRACE_{name.upper()}_BINARY": str(path) for name, path in paths.items()}
    before = {name: os.environ[name] for name in names}
    os.environ.update(names)
    yield
    os.environ.update(before)


def ip(*arguments, prefix=()):
    done = subprocess.run([*prefix, "ip", *arguments], capture_output=True, text=True, check=False)
    check(done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}")


class Cluster(harness.Cluster):
    """A dataset, a pipeline, and the processes of one fault."""

    def __init__(self, folder, dataset, kind="coq", fleet=0, **options):
        super().__init__(folder, dataset, **options,
                         **({"pipeline": PIPELINES[kind]} if kind in PIPELINES else {}))
        self.kind = kind
        self.fleet = fleet       # how many workers a fault has at least that works with any number
        self.consumers = []
        self.proxies = []
        self.namespaces = []
        self.env = {}            # for programs started from now on, in addition to the runner's own
        self.prefix = []
        self.listen = "127.0.0.1"
        self._references = {}
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def _watch(self):
        turn = 0
        while not self._stop.wait(0.01):
            for consumer in list(self.consumers):
                consumer.look()
            turn += 1
            if turn % 20 == 0:
                for process in list(self.processes):
                    if process.alive():
                        process.measure()

    # --- programs ---

    def start(self, name, *command):
        self._count += 1
        process = Process(self.folder, f"{self._count:02}-{name}",
                          [*self.prefix, *(str(c) for c in command)], {**os.environ, **self.env})
        self.processes.append(process)
        return process

    @contextlib.contextmanager
    def inside(self, namespace):
        """Programs started meanwhile run on that host."""
        before = self.prefix, self.listen
        self.prefix, self.listen = namespace.prefix, namespace.address
        yield
        self.prefix, self.listen = before

    @contextlib.contextmanager
    def limited(self, shell):
        """Programs started meanwhile run after these shell commands, such as `ulimit -n 64`."""
        before = self.prefix
        self.prefix = [*before, "bash", "-c", shell + '; exec "$@"', "bash"]
        yield
        self.prefix = before

    @contextlib.contextmanager
    def with_env(self, **env):
        before, self.env = self.env, {**self.env, **env}
        yield
        self.env = before

    def certificates(self, *more):
        """From now on all processes speak TLS, with one certificate. Returns its folder."""
        self.run("certs", self.folder / "tls", "--name", "all", "--role",
                 "dispatcher,worker,trainer,operator", *more)
        folder = self.folder / "tls" / "all"
        os.environ["MILLRACE_TLS"] = str(folder)
        return folder

    def host(self):
        """Makes a network namespace, on a bridge with the earlier ones."""
        if not self.namespaces:
            self.certificates()  # these processes listen beyond loopback
            ip("link", "add", "bridge0", "type", "bridge")
            ip("addr", "add", "10.77.0.1/24", "dev", "bridge0")
            ip("link", "set", "bridge0", "up")
        namespace = Namespace(10 + len(self.namespaces))
        self.namespaces.append(namespace)
        return namespace

    def dispatcher(self, listen=None, state="state", extra=()):
        """Starts a dispatcher. Programs started later use its address."""
        process, self.address = self._daemon("dispatcher", "--listen", listen or f"{self.listen}:0",
                                             "--state", self.folder / state, *extra)
        process.address = self.address
        return process

    def again(self, dispatcher):
        """Starts a dispatcher at the address of an earlier one."""
        return self.dispatcher(listen=dispatcher.address)

    def worker(self, threads=1, memory="256MiB", extra=(), proxy=None, dataset=None):
        """Starts a worker. If there is a proxy, consumers reach the worker through it."""
        extra = [*extra, *(["--advertise", proxy.address] if proxy else [])]
        before, self.dataset = self.dataset, dataset or self.dataset
        process, address = self._daemon("worker", "--batch-listen", f"{self.listen}:0", "--dispatcher",
                                        self.address, "--threads", threads, "--memory-limit", memory,
                                        *extra)
        self.dataset = before
        process.address = address
        if proxy:
            proxy.target = address
        return process

    def workers(self, count, beside=0, **options):
        """Starts `count` workers, or more, so that with `beside` others there are as many as the
        runner's --workers says."""
        return [self.worker(**options) for _ in range(max(count, self.fleet - beside))]

    def add(self, proxy):
        self.proxies.append(proxy)
        return proxy

    def consume(self, world_size=1, ranks="all", epochs=1, job="job", delay=0.005, ahead=60000,
                network=False, cursor=None, extra=()):
        """Starts a consumer whose loop takes `delay` seconds a step. It receives `ahead` bytes
        ahead."""
        log = self.folder / f"delivered-{self._count}.jsonl"
        arguments = ["--delay", f"{delay:.4f}", "--prefetch-bytes", ahead,
                     *(["--no-shared-memory"] if network else []),
                     *(["--cursor", cursor] if cursor else []), *extra]
        process = self.consumer(world_size, ranks=ranks, epochs=epochs, job=job, log=log,
                                extra=arguments)
        consumer = Consumer(process, log, delay)
        self.consumers.append(consumer)
        return consumer

    # --- the batches that had to be delivered ---

    def reference(self, epoch, world_size, start=0, dataset=None, extra=()):
        key = epoch, world_size, start, str(dataset), tuple(extra)
        if key not in self._references:
            text = self.run("digest", self.pipeline, "--dataset", f"data={dataset or self.dataset}",
                            "--epoch", epoch, "--world-size", world_size, "--from", start, *extra)
            self._references[key] = checker.parse(text, "digest")
        return self._references[key]

    def forget_references(self):
        self._references.clear()

    def expect(self, consumers, world_size, epochs=1, planned=EXAMPLES):
        """Checks E and B: these consumers had whole epochs from 0 on, each batch exactly once."""
        expected = [line for epoch in range(epochs) for line in self.reference(epoch, world_size)]
        delivered = [line for consumer in consumers for line in consumer.lines()]
        return checker.check(delivered, expected, world_size, planned)

    def expect_prefix(self, consumer, world_size):
        """Checks E and B for a consumer that ended early: each rank had its first batches, each
        once, with the right bytes. Returns the number of batches."""
        return self.check_prefix(consumer.lines(), world_size)

    def check_prefix(self, lines, world_size):
        """Like expect_prefix, for the lines of a consumer's log."""
        counts = [sum(line["rank"] == rank for line in lines) for rank in range(world_size)]
        epochs = 1 + max((line["epoch"] for line in lines), default=0)
        expected = []
        for line in (line for epoch in range(epochs) for line in self.reference(epoch, world_size)):
            if counts[line["rank"]] > 0:
                counts[line["rank"]] -= 1
                expected.append(line)
        checker.check(lines, expected, world_size)
        return len(lines)

    def stop(self, consumer):
        """Ends a job that would otherwise go on for ever."""
        consumer.process.terminate()
        consumer.expect_success()

    def fingerprint(self):
        """The fingerprint of the pipeline's order, as cursors contain it."""
        jobs = [job["fingerprint"] for job in self.status()["jobs"] if job["fingerprint"]]
        check(jobs, "status knows no fingerprint")
        return jobs[0]

    # --- the end ---

    def consumer_status(self, job="job", rank=0):
        """The status line of that rank, or None."""
        found = [c for c in self.status().get("consumers", [])
                 if c["job"] == job and c["rank"] == rank]
        return found[-1] if found else None

    def check_no_crash(self):
        for process in self.processes:
            code = process.popen.poll()
            check(process.killed or -(code or 0) not in CRASHES,
                  f"{process.name} died of signal {-(code or 0)}:\n{process.text()[-3000:]}")

    def finish(self):
        """Checks that every process that still runs ends well when it is asked to."""
        self.check_no_crash()
        running = [p for p in self.processes if p.alive()]
        for process in reversed(running):
            process.resume()
            process.terminate()
        for process in running:
            code = process.wait()
            check(code == 0 or not process.ours or "consumer" in process.name,
                  f"{process.name} ended with {code} after SIGTERM:\n{process.text()[-3000:]}")
        self.check_no_crash()

    def check_memory(self, limit_mib, *processes):
        """Checks M: no process had more memory than `limit`."""
        for process in processes:
            check(process.most_memory <= limit_mib * MIB,
                  f"{process.name} had {process.most_memory / MIB:.0f} MiB, allowed {limit_mib}")
        return max(process.most_memory for process in processes) / MIB

    def close(self):
        os.environ.pop("MILLRACE_TLS", None)
        self._stop.set()
        self._watcher.join()
        super().close()
        for proxy in self.proxies:
            proxy.close()
        for namespace in self.namespaces:
            namespace.close()


__all__ = ["Cluster", "Consumer", "Failure", "Process", "binaries", "binary", "check", "wait_for"]
