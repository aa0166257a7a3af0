"""Compressed streams: the same batches in fewer bytes, whatever happens to workers, and only over a
network."""

import pathlib
import re
import subprocess
import sys

from harness import binary, check, check_same, cluster, wait_for
from test_metrics import PROBES, Scrape
from test_streams import DATA, LITTLE_AHEAD

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "fault"))
from proxy import Proxy  # noqa: E402

NETWORK = ["--no-shared-memory"]
# How many times fewer bytes cross the network at least. Batches of real datasets shrink more.
LEAST_RATIO = {"zstd": 2.0, "lz4": 1.5}


def through_proxy(c, proxy, *arguments):
    """Starts a daemon whose batches go through the proxy."""
    daemon = c.serve("--advertise", proxy.address, *arguments)
    proxy.target = re.search(r"for=batches address=(\S+)", daemon.text())[1]
    return daemon


def test_compressed_batches_are_the_same_in_fewer_bytes_on_the_wire():
    passed = {}
    proxy = Proxy()
    try:
        with cluster(DATA, batch="size: 256") as c:
            daemon = through_proxy(c, proxy, *PROBES)
            expected = c.reference(0, 1)
            for codec in ("off", "lz4", "zstd"):
                before = proxy.down.passed
                consumer = c.consumer(1, job=codec, extra=[*NETWORK, "--compression", codec])
                consumer.expect_success()
                passed[codec] = proxy.down.passed - before
                check_same(c.delivered(consumer.log), expected, codec)
                check(("over the network" in consumer.text()) == (codec != "off"), consumer.text())
            for codec, least in LEAST_RATIO.items():
                ratio = passed["off"] / passed[codec]
                check(ratio >= least, f"{codec}: {ratio:.2f} times fewer bytes, expected {least}")
            scrape = Scrape(daemon)
            for codec, on_the_wire in passed.items():
                raw = scrape.value("millrace_batch_bytes_total", f'job="{codec}"')
                wire = scrape.value("millrace_batch_wire_bytes_total", f'job="{codec}"')
                check(wire == raw if codec == "off" else wire < raw, f"{codec}: {wire} of {raw}")
                check(0.7 * on_the_wire < wire <= on_the_wire,
                      f"{codec}: the consumer counted {wire} bytes, the proxy {on_the_wire}")
            check(scrape.value("millrace_compress_seconds_total") > 0, "time of compression")
    finally:
        proxy.close()


def test_batches_in_shared_memory_are_not_compressed():
    with cluster(DATA, batch="size: 64") as c:
        daemon = c.serve(*PROBES)
        consumer = c.consumer(1, job="near", extra=["--compression", "zstd"])
        consumer.expect_success()
        lines = c.delivered(consumer.log)
        check_same(lines, c.reference(0, 1))
        check(f"through shared memory: {len(lines)} batches" in consumer.text(), consumer.text())
        scrape = Scrape(daemon)
        check(scrape.value("millrace_batch_wire_bytes_total", 'job="near"') == 0, "bytes on a wire")
        check(scrape.value("millrace_compress_seconds_total") == 0, "nothing was compressed")


def test_a_crash_of_a_worker_changes_no_compressed_batch():
    with cluster(DATA) as c:
        c.dispatcher()
        workers = [c.worker() for _ in range(3)]
        expected = sum((c.reference(e, 2) for e in range(8)), [])
        consumers = {codec: c.consumer(2, job=codec, epochs=8,
                                       extra=[*NETWORK, *LITTLE_AHEAD, "--compression", codec])
                     for codec in ("off", "lz4", "zstd")}
        for consumer in consumers.values():
            wait_for(lambda log=consumer.log: len(c.delivered(log)) > 40, "no batches",
                     consumer.popen)
        c.builders(workers)[0].kill()
        for codec, consumer in consumers.items():
            consumer.expect_success()
            check_same(c.delivered(consumer.log), expected, codec)


def test_compression_and_certificates_go_together():
    with cluster(DATA) as c:
        tls = c.folder / "tls"
        c.run("certs", tls)
        c.serve("--tls", tls / "serve")
        trainer = c.consumer(1, extra=["--tls", tls / "trainer", *NETWORK, "--compression", "zstd"])
        trainer.expect_success()
        check_same(c.delivered(trainer.log), c.reference(0, 1))
        check("over the network" in trainer.text(), trainer.text())


def test_a_compression_that_does_not_exist_is_refused_with_the_list():
    with cluster(DATA) as c:
        done = subprocess.run([binary("cli"), "consume", c.pipeline, "--job", "x", "--world-size",
                               "1", "--compression", "gzip"], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 2, f"exit code {done.returncode}")
        words = "compression: expected one of zstd, lz4, off, got 'gzip'"
        check(words in done.stderr, done.stderr)
