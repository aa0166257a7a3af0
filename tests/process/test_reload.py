"""SIGHUP makes a daemon read its configuration again; everything else goes on."""

import signal

from harness import binary, check, check_same, cluster, wait_for
from test_files import goes_on, own_dataset
from test_streams import DATA

SLOW = ["--delay", "0.01", "--prefetch-bytes", "30000"]


def config_of(c, level="info", more="", **datasets):
    c.config = c.folder / "config.yaml"
    c.config.write_text(f"log_level: {level}\n{more}datasets:\n" +
                        "".join(f"  {name}: {path}\n" for name, path in datasets.items()))


def serve(c):
    """A daemon that knows its datasets only from the configuration."""
    port = c.folder / "port"
    daemon = c.start("serve", binary("daemon"), "serve", "--config", c.config, "--listen",
                     "127.0.0.1:0", "--batch-listen", "127.0.0.1:0", "--state", c.folder / "state",
                     "--port-file", port)
    c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port", daemon.popen)
    return daemon


def reload(daemon, said, times):
    daemon.popen.send_signal(signal.SIGHUP)
    wait_for(lambda: daemon.text().count(said) >= times, f"'{said}' is not said", daemon.popen)


def consume(c, dataset, job, extra=(), epochs=1):
    return c.consumer(1, job=job, epochs=epochs, extra=["--set", f"dataset={dataset}", *extra])


def test_a_reload_adds_and_removes_datasets_and_changes_the_log_level_under_a_running_job():
    with cluster(DATA) as c:
        other, _ = own_dataset(c, "other")
        config_of(c, first=DATA)
        daemon = serve(c)
        running = consume(c, "first", "running", SLOW, epochs=0)
        wait_for(lambda: c.delivered(running.log), "no batches", running.popen)
        early = consume(c, "second", "early")
        check(early.wait() == 2 and "second" in early.text(), early.text())
        check(" debug " not in daemon.text(), "debug lines before the reload")

        config_of(c, level="debug", second=other)
        reload(daemon, "configuration reloaded", 1)
        consume(c, "second", "new").expect_success()
        wait_for(lambda: " debug " in daemon.text(), "the log level stays")
        # The running job goes on with the removed dataset; nobody else gets that dataset.
        late = consume(c, "first", "late", ["--set", "batch.size=7"])
        check(late.wait() == 2 and "expected one of second" in late.text(), late.text())
        goes_on(c, running, 200)
        c.end(running)


def test_a_reload_with_an_error_keeps_what_is_in_force_and_says_so():
    with cluster(DATA) as c:
        config_of(c, first=DATA)
        daemon = serve(c)
        config_of(c, level="debug", first="/no/such/folder")
        reload(daemon, "configuration not reloaded", 1)
        check("/no/such/folder" in daemon.text(), daemon.text())
        c.config.write_text("log_level: debug\nlisten 5\n")
        reload(daemon, "configuration not reloaded", 2)
        check("config.yaml:" in daemon.text().splitlines()[-1], daemon.text())
        consume(c, "first", "still").expect_success()
        check(" debug " not in daemon.text(), "the level of a bad configuration is in force")


def test_a_reload_names_what_it_cannot_change():
    with cluster(DATA) as c:
        config_of(c, first=DATA)
        daemon = serve(c)
        config_of(c, more="threads: 7\n", first=DATA)
        reload(daemon, "configuration reloaded", 1)
        check("next start only option=threads" in daemon.text(), daemon.text())


def test_the_same_pipeline_reads_a_dataset_that_moved_in_its_new_folder():
    with cluster(DATA) as c:
        moved = c.folder / "moved"
        c.run("generate", moved, "--nodes", "3000", "--seed", "99")
        config_of(c, data=DATA)
        daemon = serve(c)
        before = c.consumer(1, job="before")
        before.expect_success()
        check_same(c.delivered(before.log), c.reference(0, 1))
        config_of(c, data=moved)
        digest = c.status()["datasets"]["data"]["digest"]
        reload(daemon, "configuration reloaded", 1)
        wait_for(lambda: c.status()["datasets"]["data"]["digest"] not in ("", digest),
                 "the new folder is not opened", daemon.popen)
        c.dataset = moved
        after = c.consumer(1, job="after")
        after.expect_success()
        check_same(c.delivered(after.log), c.reference(0, 1))
