"""Certificates, tokens and users, with real processes."""

import contextlib
import json
import os
import re
import socket
import stat
import subprocess
import urllib.request

from harness import Skipped, binary, check, check_same, cluster, wait_for
from test_streams import DATA


def serve_with_tls(c, *extra):
    c.run("certs", c.folder / "tls")
    return c.serve("--tls", c.folder / "tls" / "serve", *extra)


def refused(c, words, *arguments):
    """A command of the tool is refused, and its error says `words`."""
    done = subprocess.run([binary("cli"), *map(str, arguments), "--address", c.address],
                          capture_output=True, text=True, check=False)
    check(done.returncode in (1, 2) and words in done.stderr,
          f"{arguments}: exit code {done.returncode}, expected an error with '{words}':\n{done.stderr}")


def test_a_fleet_with_certificates_serves_the_same_bytes():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        c.run("certs", tls)
        dispatcher = c.dispatcher(extra=("--tls", tls / "dispatcher"))
        worker = c.worker(extra=("--tls", tls / "worker"))
        trainer = c.consumer(2, extra=("--tls", tls / "trainer", "--no-shared-memory"))
        trainer.expect_success()
        check_same(c.delivered(trainer.log), c.reference(0, 2))
        for process in (dispatcher, worker):
            process.terminate()
            check(process.wait() == 0, process.text()[-2000:])


def test_a_stranger_gets_nothing_and_is_told_why():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        serve = serve_with_tls(c)
        other = c.folder / "other"
        c.run("certs", other)
        consume = ("consume", c.pipeline, "--job", "stolen", "--world-size", 1, "--epochs", 1,
                   "--connect-timeout", 5)
        refused(c, "wants TLS", *consume)
        refused(c, "wants TLS", "jobs", "end", "stolen")
        refused(c, "wants TLS", "top", "--once")
        refused(c, "both ends need valid certificates of one CA", "status", "--tls",
                other / "operator")
        refused(c, "may not call Attach: expected the role trainer", *consume, "--tls",
                tls / "viewer")
        refused(c, "may not call EndJob", "jobs", "end", "x", "--tls", tls / "viewer")
        refused(c, "may not call DrainWorker", "drain", "w", "--tls", tls / "trainer")
        (tls / "viewer" / "tls.key").write_text((tls / "worker" / "tls.key").read_text())
        refused(c, "is not the key of", "status", "--tls", tls / "viewer")
        wait_for(lambda: "call refused" in serve.text() and "method=EndJob" in serve.text(),
                 "the log does not name what was refused")


def test_jobs_belong_to_the_name_that_began_them():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        serve_with_tls(c)
        for name in ("alice", "eve"):
            c.run("certs", tls, "--name", name, "--role", "trainer")
        alice = c.consumer(1, epochs=1000, extra=("--tls", tls / "alice", "--delay", "0.05"))
        wait_for(lambda: c.delivered(alice.log), "nothing comes", alice.popen)
        refused(c, "job job belongs to alice", "consume", c.pipeline, "--job", "job",
                "--world-size", 1, "--tls", tls / "eve")
        refused(c, "only an operator may end it", "jobs", "end", "job", "--tls", tls / "eve")
        check("alice" not in c.run("jobs", "--address", c.address, "--tls", tls / "eve"),
              "another trainer sees the job")
        seen = {role: json.loads(c.run("status", "--address", c.address, "--format", "json", "--tls",
                                       tls / role))["jobs"][0] for role in ("viewer", "operator")}
        check(not seen["viewer"]["pipeline_yaml"], "a viewer sees the pipeline")
        check("closure" in seen["operator"]["pipeline_yaml"], "an operator does not see the pipeline")
        c.run("jobs", "end", "job", "--address", c.address, "--tls", tls / "alice")
        check(alice.wait() != 0, "the job goes on")


def test_tokens_and_datasets_are_given_and_taken_away():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        c.run("certs", tls)
        line = re.search(r"- \{name: bob, .*", c.run("certs", tls, "--token", "bob"))[0]
        access = c.folder / "access.yaml"
        access.write_text(f"tokens:\n  {line}\n")
        serve = c.serve("--tls", tls / "serve", "--access", access)
        consume = ("consume", c.pipeline, "--job", "b", "--world-size", 1, "--epochs", 1, "--address",
                   c.address, "--tls", tls / "bob")
        c.run(*consume)
        token = (tls / "bob" / "token").read_text().strip()
        access.write_text(f"tokens:\n  {line.replace('role', 'datasets: [other], role')}\n")
        wait_for(lambda: serve.text().count("access file read again") == 1, "it is not read again")
        refused(c, "may not read dataset 'data'", *consume[:-4], "--tls", tls / "bob")
        access.write_text("tokens: []\n")
        wait_for(lambda: serve.text().count("access file read again") == 2, "it is not read again")
        refused(c, "unknown token", *consume[:-4], "--tls", tls / "bob")
        check(token not in serve.text(), "the log has the token")


def test_running_trainers_wait_while_their_rights_are_taken_away():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        c.run("certs", tls)
        c.run("certs", tls, "--name", "alice", "--role", "trainer")
        line = re.search(r"- \{name: bob, .*", c.run("certs", tls, "--token", "bob"))[0]
        access = c.folder / "access.yaml"
        access.write_text(f"tokens:\n  {line}\n")
        c.serve("--tls", tls / "serve", "--access", access)
        trainers = {name: c.consumer(1, job=name, epochs=1000, extra=(
            "--tls", tls / name, "--delay", "0.05", "--no-shared-memory", "--prefetch-bytes", "10000"))
            for name in ("bob", "alice", "trainer")}

        def goes_on(name, more=20):
            count = len(c.delivered(trainers[name].log))
            wait_for(lambda: len(c.delivered(trainers[name].log)) >= count + more,
                     f"{name} gets no batches", trainers[name].popen)

        for name in trainers:
            goes_on(name, 1)
        access.write_text("names:\n  alice: {role: none}\n")
        for name, words in (("bob", "unknown token"), ("alice", "alice (none) may not call")):
            wait_for(lambda name=name, words=words: words in trainers[name].text(),
                     f"{name} is not told why", trainers[name].popen)
        counts = {name: len(c.delivered(trainers[name].log)) for name in ("bob", "alice")}
        goes_on("trainer", 40)
        for name, count in counts.items():
            check(len(c.delivered(trainers[name].log)) <= count + 1, f"{name} goes on")
        access.write_text(f"tokens:\n  {line}\n")
        for name in counts:
            goes_on(name)


def test_other_users_of_the_host_are_turned_away():
    if os.geteuid() != 0:
        raise Skipped("another user is needed: run as root")
    with cluster(DATA) as c:
        serve = c.serve()
        os.chmod(c.folder, 0o755)
        try:
            done = subprocess.run([binary("cli"), "status", "--address", c.address], user=65534,
                                  capture_output=True, text=True, check=False)
        except PermissionError:
            raise Skipped("another user cannot run the build's programs here") from None
        check(done.returncode == 2 and "this daemon serves root" in done.stderr,
              f"exit code {done.returncode}: {done.stderr}")
        check('"user"' in c.run("status", "--address", c.address, "--format", "json") and
              "why=user" in serve.text(), "it is not counted")


def test_what_a_daemon_writes_is_its_users_alone():
    with cluster(DATA) as c:
        c.serve()
        state = c.folder / "state"
        modes = {str(p): stat.S_IMODE(p.stat().st_mode) for p in [state, *state.iterdir()]}
        check(all(mode & 0o077 == 0 for mode in modes.values()), f"others can read: {modes}")
        check(modes[str(state)] == 0o700, f"{modes}")


def test_metrics_answer_beside_requests_that_never_end():
    with cluster(DATA) as c:
        serve = c.serve("--metrics-listen", "127.0.0.1:0")
        address = re.search(r"for=metrics address=(\S+)", serve.text())[1]
        host, port = address.rsplit(":", 1)
        halves = []
        for _ in range(8):
            half = socket.create_connection((host, int(port)))
            half.sendall(b"GET /metrics HTTP/1.1\r\nHost:")
            halves.append(half)
        check(urllib.request.urlopen(f"http://{address}/metrics").read(), "no metrics")
        # The daemon gives up the halves after some seconds, but the answer did not wait for that.
        with contextlib.suppress(BlockingIOError):
            check(halves[0].recv(4096, socket.MSG_DONTWAIT) is None, "a half was given up before")
        for half in halves:
            check(half.recv(4096) is not None, "it is not closed")
            half.close()
