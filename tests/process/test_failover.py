"""Two dispatchers with one etcd: which one leads, and how running jobs survive a change."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request

from harness import Skipped, binary, check, check_same, cluster, wait_for
from test_streams import DATA


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Etcd:
    """One etcd process, as an operator starts it."""

    def __init__(self, c):
        program = shutil.which("etcd")
        if program is None:
            raise Skipped("no etcd here: deploy/install-deps installs it")
        self.address = f"127.0.0.1:{free_port()}"
        peers = f"http://127.0.0.1:{free_port()}"
        client = f"http://{self.address}"
        self.process = c.start("etcd", program, "--name=one", f"--data-dir={c.folder / 'etcd'}",
                               f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
                               f"--listen-peer-urls={peers}", f"--initial-advertise-peer-urls={peers}",
                               f"--initial-cluster=one={peers}", "--log-level=error")
        wait_for(lambda: self.get("term") is not None, "etcd does not start", self.process.popen)

    def get(self, key):
        """The value of one of the dispatchers' keys; empty if there is none, None without etcd."""
        body = json.dumps({"key": base64.b64encode(f"/millrace/{key}".encode()).decode()}).encode()
        try:
            with urllib.request.urlopen(f"http://{self.address}/v3/kv/range", body) as answer:
                found = json.load(answer).get("kvs", [])
        except OSError:
            return None
        return base64.b64decode(found[0]["value"]).decode(errors="replace") if found else ""


def two_dispatchers(c, etcd):
    """Starts two dispatchers one after the other, so that the first one leads. Returns processes
    and addresses."""
    started = []
    for name in ("first", "second"):
        port = c.folder / f"port-{name}"
        process = c.start(name, binary("daemon"), "dispatcher", "--dataset", f"data={DATA}",
                          "--listen", "127.0.0.1:0", "--store", f"etcd://{etcd.address}",
                          "--name", name, "--port-file", port)
        address = wait_for(lambda: port.exists() and port.read_text().strip(),
                           f"{name} does not listen", process.popen)
        if name == "first":
            wait_for(lambda: leads(address), "the first one does not lead", process.popen)
        started.append((process, address))
    c.address = ",".join(address for _, address in started)
    return started


def ask(address):
    return subprocess.run([binary("cli"), "status", "--address", address, "--format", "json"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def leads(address):
    """The term of the dispatcher at that address, if it leads."""
    done = ask(address)
    return int(json.loads(done.stdout)["term"]) if done.returncode == 0 else 0


def test_a_standby_takes_over_when_the_leader_is_killed_and_nobody_loses_a_batch():
    with cluster(DATA) as c:
        etcd = Etcd(c)
        (first, first_at), (second, second_at) = two_dispatchers(c, etcd)
        wait_for(lambda: f"not the leader: first at {first_at} leads" in ask(second_at).stderr,
                 "the standby does not say who leads", second.popen)
        c.worker()
        running = c.consumer(2, job="running",
                             extra=["--delay", "0.05", "--prefetch-bytes", "60000"])
        wait_for(lambda: len(c.delivered(running.log)) > 5, "no batches", running.popen)
        before = leads(first_at)
        first.kill()
        since = time.monotonic()
        after = wait_for(lambda: leads(second_at), "the standby does not take over", second.popen)
        took = time.monotonic() - since
        print(f"the standby led {took:.1f} s after the leader was killed")
        check(after > before, f"term {after} after {before}")
        # A job that begins now needs everything: the leader, its store, and a worker that found the
        # leader.
        fresh = c.consumer(1, job="fresh", log=c.folder / "fresh.jsonl")
        fresh.expect_success()
        running.expect_success()
        check_same(c.delivered(running.log), c.reference(0, 2))
        check_same(c.delivered(fresh.log), c.reference(0, 1))
        wait_for(lambda: {"running", "fresh"} <= {j["name"] for j in c.status()["jobs"]},
                 "status lacks a job")
        # A dispatcher that stops in order gives up its place at once: nobody waits for its lease to
        # end.
        again = c.start("again", binary("daemon"), "dispatcher", "--dataset", f"data={DATA}",
                        "--listen", first_at, "--store", f"etcd://{etcd.address}", "--name", "again")
        wait_for(lambda: "not the leader: second" in ask(first_at).stderr, "no standby", again.popen)
        second.terminate()
        check(second.wait() == 0, second.text())
        check(wait_for(lambda: leads(first_at), "no successor", again.popen) > after, "term")
        check(etcd.get("leader") == f"again at {first_at}", str(etcd.get("leader")))


def test_a_leader_that_stood_still_closes_its_streams_and_changes_nothing_when_it_wakes():
    with cluster(DATA) as c:
        etcd = Etcd(c)
        (first, first_at), (second, second_at) = two_dispatchers(c, etcd)
        c.worker()
        running = c.consumer(1, job="running", epochs=0,
                             extra=["--delay", "0.08", "--prefetch-bytes", "60000"])
        wait_for(lambda: len(c.delivered(running.log)) > 5, "no batches", running.popen)
        first.stop()
        term = wait_for(lambda: leads(second_at), "the standby does not take over", second.popen)
        # The job's session moves to the new leader. Then the old leader wakes, and still has a
        # stream that it takes for its own.
        wait_for(lambda: any(j["name"] == "running" and j["state"] == "live"
                             for j in json.loads(ask(second_at).stdout).get("jobs", [])),
                 "the session does not find the new leader", running.popen)
        first.resume()
        wait_for(lambda: "leads no more" in first.text(), "the old leader leads on", first.popen)
        wait_for(lambda: f"not the leader: second at {second_at} leads" in ask(first_at).stderr,
                 f"the old leader does not know the new one: {ask(first_at).stderr}", first.popen)
        c.end(running)
        check(etcd.get("term") == str(term), f"term {etcd.get('term')}, not {term}")
        check(etcd.get("leader") == f"second at {second_at}", str(etcd.get("leader")))
        check("began a new term" not in first.text(), first.text())


def test_jobs_survive_an_outage_of_etcd_and_one_that_begins_meanwhile_waits_for_it():
    with cluster(DATA) as c:
        etcd = Etcd(c)
        two_dispatchers(c, etcd)
        c.worker()
        running = c.consumer(1, job="running",
                             extra=["--delay", "0.02", "--prefetch-bytes", "60000"])
        wait_for(lambda: len(c.delivered(running.log)) > 5, "no batches", running.popen)
        etcd.process.stop()
        wait_for(lambda: "not the leader" in ask(c.address).stderr, "a leader without its lease")
        fresh = c.consumer(1, job="fresh", log=c.folder / "fresh.jsonl")
        wait_for(lambda: "not the leader" in fresh.text(), "the new job finds no standby", fresh.popen)
        check(not c.delivered(fresh.log), "a job began whose record is nowhere")
        etcd.process.resume()
        fresh.expect_success()
        running.expect_success()
        check_same(c.delivered(running.log), c.reference(0, 1))
        check_same(c.delivered(fresh.log), c.reference(0, 1))
