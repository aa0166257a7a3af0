"""Networks that cut connections, and lose, delay, repeat or change bytes."""

import os
import socket
import threading
import time

from cluster import check, wait_for
from fault import Impossible, fault
from proxy import Proxy


def need_namespaces():
    if not os.environ.get("MILLRACE_FAULT_ISOLATED"):
        raise Impossible("network namespaces need root")


def two_hosts(c, hosts, **options):
    """Starts a worker on one host and the others on another. Returns the host of each."""
    workers = {}
    for host, count in zip(hosts, (1, max(1, c.fleet - 1))):
        with c.inside(host):
            workers |= {c.worker(**options): host for _ in range(count)}
    return workers


@fault("8", "worker cut off from the dispatcher (network namespaces)",
       "E P, the worker still serves its consumers", ci=True, conditions=(
    "dispatcher, two workers and trainer have a host each; for 8 s nothing passes between one "
    "worker and the dispatcher; then the connection is restored"))
def a_worker_is_cut_off_from_the_dispatcher(run):
    need_namespaces()
    with run.cluster() as c:
        hosts = [c.host() for _ in range(4)]
        with c.inside(hosts[0]):
            c.dispatcher()
        workers = two_hosts(c, hosts[1:3])
        with c.inside(hosts[3]):
            consumer = c.consume(2, epochs=1000, delay=0.01)
            consumer.wait_for_batches(run.random.randrange(50, 150))
            there = workers[c.builders(list(workers))[0]]
        cut = time.monotonic()
        hosts[0].send_nothing_to(there)
        there.send_nothing_to(hosts[0])
        time.sleep(8)
        with c.inside(hosts[3]):
            states = sorted(worker["state"] for worker in c.status()["workers"])
            check(states == sorted("silent" if host == there else "ready" for host in workers.values()),
                  f"status does not see who is cut off: {states}")
            hosts[0].send_again_to(there)
            there.send_again_to(hosts[0])
            wait_for(lambda: all(w["state"] == "ready" for w in c.status()["workers"]),
                     "the worker does not come back")
            check(len(c.status()["workers"]) == len(workers), "a worker was forgotten")
        consumer.wait_for_more(100)
        run.within("longest stall", consumer.stall(cut), 3)
        c.stop(consumer)
        c.expect_prefix(consumer, 2)


@fault("9", "one-way drop from worker to one consumer", "E P M, others go on", conditions=(
    "dispatcher, two workers and two trainers have a host each; for 12 s all bytes from one "
    "worker to one trainer are lost; the workers have 16 MiB"))
def a_worker_cannot_reach_one_consumer(run):
    need_namespaces()
    with run.cluster() as c:
        hosts = [c.host() for _ in range(5)]
        with c.inside(hosts[0]):
            c.dispatcher()
        workers = two_hosts(c, hosts[1:3], memory="16MiB")
        with c.inside(hosts[3]):
            cut_off = c.consume(2, epochs=1000, job="cut-off", delay=0.01)
        with c.inside(hosts[4]):
            other = c.consume(1, epochs=1000, job="other", delay=0.01)
        cut_off.wait_for_batches(run.random.randrange(50, 150))
        other.wait_for_batches(50)
        with c.inside(hosts[3]):
            there = workers[c.builders(list(workers))[0]]
        cut = time.monotonic()
        there.send_nothing_to(hosts[3])
        time.sleep(12)
        there.send_again_to(hosts[3])
        cut_off.wait_for_more(200)
        other.wait_for_more(200)
        run.within("longest stall", cut_off.stall(cut), 3)
        run.within("longest stall of the other trainer", other.stall(cut), 0)
        run.note("memory of the worker", c.check_memory(48, *workers), "MiB")
        for consumer, world in ((cut_off, 2), (other, 1)):
            c.stop(consumer)
            c.expect_prefix(consumer, world)


@fault("10", "half-open TCP (a proxy swallows)", "P within 3 s + build", ci=True, conditions=(
    "connections to one of two workers stay open, but pass nothing on for 8 s, either from the "
    "worker or both ways"))
def a_connection_is_half_open(run):
    half_open(run, up=run.seed % 2 == 0, down=True)


@fault("10b", "the same, from the trainer to the worker only", "P within 3 s + build",
       conditions=(
    "for 8 s the worker can say that it lives, but does not hear what comes next"))
def a_connection_is_half_open_upwards(run):
    half_open(run, up=True, down=False)


def half_open(run, up, down):
    with run.cluster() as c:
        c.dispatcher()
        proxies = [c.add(Proxy(run.seed * 100 + i)) for i in range(max(2, c.fleet))]
        workers = [c.worker(proxy=proxy) for proxy in proxies]
        consumer = c.consume(run.random.choice([1, 2, 3]), epochs=1000, delay=0.01, network=True)
        consumer.wait_for_batches(run.random.randrange(50, 150))
        proxy = max(proxies, key=lambda p: p.down.passed)
        wait_for(lambda: proxy.down.passed > 20000, "nothing comes through the proxy")
        cut = time.monotonic()
        proxy.up.swallow, proxy.down.swallow = up, down
        time.sleep(8)
        proxy.up.swallow = proxy.down.swallow = False
        consumer.wait_for_more(200)
        run.within("longest stall", consumer.stall(cut), 3)
        passed = proxy.down.passed
        # The others may be enough for the job, so they stop. A worker that failed is tried again after
        # at most 5 s.
        others = [w for w, of in zip(workers, proxies) if of != proxy]
        for worker in others:
            worker.stop()
        wait_for(lambda: proxy.down.passed > passed + 20000, "the worker is never used again")
        for worker in others:
            worker.resume()
        c.stop(consumer)
        c.expect_prefix(consumer, len(consumer.arrivals))


def proxied(c, run, **options):
    """A dispatcher and a worker behind three proxies: for the trainer, for the worker's own
    connection to the dispatcher, and for batches."""
    attach, work, batches = (c.add(Proxy(run.seed * 3 + i, **options)) for i in range(3))
    return attach, work, batches


def start_proxied(c, attach, work, batches):
    dispatcher = c.dispatcher()
    attach.target = work.target = dispatcher.address
    c.address = work.address
    worker = c.worker(proxy=batches)
    for _ in range(1, c.fleet):  # in larger fleets each has a way of its own that is alike
        other = c.add(batches.twin())
        c.worker(proxy=other)
    c.address = attach.address
    return dispatcher, worker


def lose(chosen, lost):
    def frames(index, frame):
        if index == chosen and not lost:
            lost.append(index)
            return []
        return [frame]
    return frames


@fault("11", "any single message lost", "E P", conditions=(
    "TCP loses no message, so the proxy leaves one HTTP/2 DATA frame out: the n-th, n = 0 to 11, "
    "of the first connection of a kind (Attach, Work, StreamBatches; up or down: two of the six a "
    "seed); one worker; promised: 15 s, since a process waits 10 s for a first message. tests/sim "
    "runs thousands of histories with lost messages"))
def single_messages_are_lost(run):
    kinds = [(proxy, way) for proxy in range(3) for way in ("up", "down")]
    for kind, way in (kinds[run.seed % 6], kinds[(run.seed + 3) % 6]):
        with run.cluster() as c:
            proxies = proxied(c, run)
            lost = []
            chosen = run.random.randrange(0, 12) if kind != 1 else run.random.randrange(0, 3)
            getattr(proxies[kind], way).frames = lose(chosen, lost)
            began = time.monotonic()
            start_proxied(c, *proxies)
            consumer = c.consume(1, epochs=3, delay=0.01, network=True)
            consumer.expect_success()
            check(lost, f"no message was lost: {('Attach', 'Work', 'StreamBatches')[kind]} {way} had no "
                        f"{chosen}-th")
            run.within("longest stall", consumer.stall(began), 15)
            c.expect([consumer], 1, 3)


def repeat(random, times):
    def frames(_, frame):
        if len(frame) < 8000 and random.random() < 0.3:
            times.append(len(frame))
            return [frame, frame]
        return [frame]
    return frames


def replay(address, data, answers):
    """Sends a recorded connection again; keeps the answers until the other side ends the
    connection."""
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(data)
        connection.settimeout(3)
        try:
            while more := connection.recv(65536):
                answers.append(more)
        except (TimeoutError, ConnectionError):
            pass


@fault("12", "messages repeated, connections replayed", "E F", ci=True, conditions=(
    "three in ten messages of Attach, Work and want lists come twice; then all bytes that the "
    "trainer and the worker have sent are sent again on new connections, three times"))
def messages_are_repeated(run):
    with run.cluster() as c:
        attach, work, batches = proxied(c, run, record=True)
        times = []
        for direction in (attach.up, attach.down, work.up, work.down, batches.up):
            direction.frames = repeat(run.random, times)
        dispatcher, _ = start_proxied(c, attach, work, batches)
        consumer = c.consume(2, epochs=1000, delay=0.01, network=True)
        consumer.wait_for_batches(200)
        c.address = dispatcher.address
        before = c.status()
        recorded = [bytes(data) for proxy in (attach, work) for data in proxy.recorded]
        check(recorded and times, "nothing was repeated")
        answers = []
        threads = [threading.Thread(target=replay, args=(dispatcher.address, data, answers))
                   for data in recorded for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        check(answers, "the dispatcher answers no replayed connection")
        consumer.wait_for_more(300)
        after = c.status()
        check(after["term"] == before["term"], "F: a replay changed the term")
        sessions = [{(s["session"]["n"], s["rank"]) for s in status["consumers"]
                     if s["state"] == "live"} for status in (before, after)]
        check(sessions[1] == sessions[0], f"F: a replay changed the sessions: {sessions}")
        c.stop(consumer)
        c.expect_prefix(consumer, 2)
        run.note("messages repeated", len(times), "")


@fault("13", "200 ms delay, 1 Mbit/s", "E M", conditions=(
    "each direction and each kind of connection (Attach, Work, batches) has a proxy of its own, "
    "in which at most 64 kB wait; two epochs of 0.7 MB; 1 to 4 ranks, 60 kB or 1 MB received "
    "ahead of each"))
def a_long_and_narrow_network(run):
    with run.cluster() as c:
        proxies = proxied(c, run, buffer=65536)
        for proxy in proxies:
            for direction in (proxy.up, proxy.down):
                direction.delay, direction.rate = 0.2, 1e6 / 8
        dispatcher, worker = start_proxied(c, *proxies)
        began = time.monotonic()
        consumer = c.consume(run.random.choice([1, 2, 4]), epochs=2, delay=0.001, network=True,
                             ahead=run.random.choice([60000, 1 << 20]))
        consumer.expect_success()
        run.note("longest stall", consumer.stall(began))
        run.note("memory of the worker", c.check_memory(256, worker), "MiB")
        run.note("memory of the dispatcher", c.check_memory(64, dispatcher), "MiB")
        c.expect([consumer], len(consumer.arrivals), 2)


@fault("13b", "connections reset, and bits changed on the way", "E B P", ci=True, conditions=(
    "all connections of trainer, worker and batches are reset at random, 20 times; then for 5 s "
    "one bit is changed in some of the reads from one of two workers"))
def connections_are_reset(run):
    with run.cluster() as c:
        proxies = proxied(c, run)
        dispatcher, _ = start_proxied(c, *proxies)
        consumer = c.consume(2, epochs=1000, delay=0.01, network=True)
        consumer.wait_for_batches(20)
        began = time.monotonic()
        for _ in range(20):
            run.random.choice(proxies).reset_all()
            time.sleep(0.3 * run.random.random())
        consumer.wait_for_more(20)
        run.note("longest stall with resets", consumer.stall(began))
        c.address, address = dispatcher.address, c.address
        second = c.add(proxies[2].twin())
        c.worker(proxy=second)
        c.address = address
        # The job may need only one of them.
        before = {proxy: proxy.down.passed for proxy in (proxies[2], second)}
        consumer.wait_for_more(200)
        down = max(before, key=lambda proxy: proxy.down.passed - before[proxy]).down
        began = time.monotonic()
        down.corrupt = 0.2
        # Little may come from this worker once the consumer knows that its data are damaged.
        wait_for(lambda: down.corrupted >= 5 or down.corrupted and time.monotonic() > began + 5,
                 "no bit was changed")
        time.sleep(2)
        down.corrupt = 0
        consumer.wait_for_more(100)
        run.note("bits changed", down.corrupted, "")
        run.within("longest stall with changed bits", consumer.stall(began), 3)
        c.stop(consumer)
        c.expect_prefix(consumer, 2)
