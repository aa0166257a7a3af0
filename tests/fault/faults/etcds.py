"""Several dispatchers on one etcd: its nodes die, hang and are full; a leader hangs."""

import json
import subprocess
import time

from cluster import binary, check, wait_for
from etcd import Etcd, free_ports
from fault import NotBuilt, fault

FAILOVER = 5  # seconds that a failover may take


def need_etcd_store():
    done = subprocess.run([binary("daemon"), "dispatcher", "--help"], capture_output=True, text=True,
                          check=True)
    if "--store" not in done.stdout:
        raise NotBuilt("one dispatcher, with a store of its own, is all there is")


class Fleet:
    """Two dispatchers on one etcd, two workers, and a job; all know both dispatchers' addresses.
    `tls`: all of them speak TLS, with one certificate."""

    def __init__(self, c, extra=(), tls=False):
        need_etcd_store()
        self.c = c
        folder = c.certificates("--address", "127.0.0.1") if tls else None
        self.store = ["--etcd-tls", folder] if tls else []
        self.etcd = Etcd(c, extra, folder)
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
        self.dispatchers = [self.start(i) for i in range(2)]
        c.address = ",".join(self.addresses)
        wait_for(lambda: self.leading(), "no dispatcher leads")
        c.worker()
        c.worker()
        self.job = c.consume(2, epochs=100000, delay=0.01)
        self.job.wait_for_batches(50)

    def start(self, number):
        return self.c.start(f"dispatcher-{number}", binary("daemon"), "dispatcher", "--dataset",
                            f"data={self.c.dataset}", "--listen", self.addresses[number], "--store",
                            self.etcd.store, *self.store, "--grace", "5")

    def status(self, number):
        """The status of one dispatcher if it leads, otherwise None."""
        done = subprocess.run([binary("cli"), "status", "--address", self.addresses[number], "--format",
                               "json", "--timeout", "1"], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def leading(self):
        """(number, term) of the dispatcher that leads, or None."""
        for number, dispatcher in enumerate(self.dispatchers):
            if dispatcher.alive() and (status := self.status(number)) and int(status["term"]) > 0 \
                    and status.get("workers") is not None:
                return number, int(status["term"])
        return None

    def check_goes_on(self, run, since, promised=3):
        self.job.wait_for_more(100)
        run.within("longest stall", self.job.stall(since), promised)

    def finish(self):
        self.c.stop(self.job)
        self.c.expect_prefix(self.job, 2)


@fault("5", "SIGSTOP the dispatcher, standby takes over, SIGCONT", "E F", conditions=(
    "two dispatchers on an etcd of three nodes; failover within 5 s; the old dispatcher is "
    "continued 2 s later"))
def a_dispatcher_hangs_and_its_standby_takes_over(run):
    with run.cluster() as c:
        fleet = Fleet(c)
        old, term = fleet.leading()
        stopped = time.monotonic()
        fleet.dispatchers[old].stop()
        new = wait_for(lambda: (s := fleet.status(1 - old)) and int(s["term"]) > term and s,
                       "the standby does not take over")
        run.within("failover", time.monotonic() - stopped, FAILOVER)
        time.sleep(2)
        fleet.dispatchers[old].resume()
        fleet.check_goes_on(run, stopped, FAILOVER)
        after = fleet.status(1 - old)
        check(after and after["term"] == new["term"], "F: the old leader changed the term")
        again = fleet.status(old)
        check(again is None or int(again["term"]) != term, "F: the old leader still answers in its term")
        fleet.finish()


@fault("24", "etcd: kill -9 the leader of three", "E P", conditions=(
    "two dispatchers, all over TLS; meanwhile a new job begins, within 10 s"))
def the_leader_of_etcd_is_killed(run):
    with run.cluster() as c:
        fleet = Fleet(c, tls=True)
        killed = time.monotonic()
        fleet.etcd.nodes[fleet.etcd.leader()].kill()
        other = c.consume(1, job="other")
        other.wait_for_batches(1)
        run.within("first batch of a new job", time.monotonic() - killed, 10)
        other.expect_success()
        c.expect([other], 1)
        fleet.check_goes_on(run, killed)
        fleet.finish()


@fault("25", "etcd: majority gone for 60 s", "running jobs go on, then P", limit=400,
       conditions=(
    "all over TLS; two of three nodes are stopped, with seed 1 for 60 s, with others for 20 s; then a new job "
    "begins"))
def the_majority_of_etcd_is_gone(run):
    with run.cluster() as c:
        fleet = Fleet(c, tls=True)
        gone = time.monotonic()
        chosen = run.random.sample(fleet.etcd.nodes, 2)
        for node in chosen:
            node.stop()
        time.sleep(60 if run.seed == 1 else 20)
        check(fleet.job.last() > time.monotonic() - 5 * run.stretch(), "nothing goes on without a majority of etcd")
        run.within("longest stall", fleet.job.stall(gone), 3)
        for node in chosen:
            node.resume()
        back = time.monotonic()
        other = c.consume(1, job="other")
        other.wait_for_batches(1)
        run.within("first batch of a new job", time.monotonic() - back, 10)
        other.expect_success()
        fleet.check_goes_on(run, gone)
        fleet.finish()


@fault("26", "etcd stopped past the lease", "F E", conditions=(
    "all over TLS; all three nodes are stopped for 20 s: meanwhile nobody leads, and the next leader has a "
    "higher term"))
def etcd_is_stopped_past_the_lease(run):
    with run.cluster() as c:
        fleet = Fleet(c, tls=True)
        before = fleet.leading()
        gone = time.monotonic()
        for node in fleet.etcd.nodes:
            node.stop()
        time.sleep(20)
        check(fleet.leading() is None, "F: a dispatcher leads though its lease is over")
        for node in fleet.etcd.nodes:
            node.resume()
        after = wait_for(fleet.leading, "nobody leads again")
        check(after[1] > before[1], f"F: the new term is not higher: {before}, {after}")
        fleet.job.wait_for_more(100)
        run.note("longest stall", fleet.job.stall(gone))
        fleet.finish()


@fault("27", "etcd out of space", "L, running jobs go on", conditions=(
    "all over TLS; a quota of 16 MiB is filled; a new job waits, and is told why"))
def etcd_is_full(run):
    with run.cluster() as c:
        fleet = Fleet(c, extra=["--quota-backend-bytes", str(16 << 20)], tls=True)
        fleet.etcd.fill()
        full = time.monotonic()
        other = c.consume(1, job="other")
        wait_for(lambda: "space" in other.process.text(), "the new job is not told why it waits",
                 other.process.popen)
        check(other.batches() == 0, "a job began though its record could not be written")
        other.process.kill()
        fleet.check_goes_on(run, full)
        fleet.finish()
