"""Mistakes that a person can make with the daemon and the tool, and the messages for them."""

import contextlib
import fcntl
import json
import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import sqlite3
import subprocess

from harness import Failure, binary, check, check_same, cluster, wait_for
from test_streams import DATA


def refused(command, code, *words):
    """Checks that the command ends with `code` and one line that has all `words`."""
    done = subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    lines = [line for line in done.stderr.splitlines() if " info " not in line]
    check(done.returncode == code, f"{command}: exit code {done.returncode}, expected {code}\n"
                                   f"{done.stdout}{done.stderr}")
    check(len(lines) == 1, f"{command}: expected one line, got:\n{done.stderr}")
    for word in words:
        check(word in lines[0], f"{command}: '{word}' is not in: {lines[0]}")


def serve(c, *arguments):
    return [binary("daemon"), "serve", "--dataset", f"data={DATA}", "--state", c.folder / "other",
            "--listen", "127.0.0.1:0", "--batch-listen", "127.0.0.1:0", *arguments]


def test_a_busy_port_is_refused_in_one_line():
    with cluster(DATA) as c:
        c.dispatcher()
        refused(serve(c, "--listen", c.address), 2, c.address, "in use")


def test_a_state_folder_in_use_is_refused_in_one_line():
    with cluster(DATA) as c:
        process = c.dispatcher()
        refused(serve(c, "--state", c.folder / "state"), 2, str(c.folder / "state"),
                str(process.popen.pid))


def test_a_start_that_hangs_says_so_and_ends():
    with cluster(DATA) as c:
        # The daemon opens this pipe for writing and so waits for a reader.
        os.mkfifo(c.folder / "port.tmp")
        process = c.start("serve", *serve(c, "--port-file", c.folder / "port"))
        wait_for(lambda: "for=batches" in process.text(), "serve does not start", process.popen)
        process.popen.send_signal(signal.SIGALRM)  # as when the time for a start is over
        check(process.wait() == 1, f"exit code {process.popen.returncode}, expected 1")
        check("neither started nor ended within 30 s" in process.text(), process.text())


def test_port_0_of_an_advertised_address_is_that_of_the_batch_port():
    with cluster(DATA) as c:
        c.dispatcher()
        worker = c.worker(extra=["--advertise", "localhost:0"])
        listens = re.search(r"for=batches address=127.0.0.1:(\d+) advertised=(\S+)", worker.text())
        check(listens[2] == f"localhost:{listens[1]}" and listens[1] != "0", worker.text())
        c.consumer(1).expect_success()


def test_options_that_make_no_sense_are_refused_in_one_line():
    with cluster(DATA) as c:
        config = c.folder / "config.yaml"
        refused([binary("daemon"), "serve", "--dataset", "data=/no/such/folder"], 2, "data",
                "/no/such/folder")
        refused(serve(c, "--threads", "many"), 2, "threads", "many")
        refused(serve(c, "--memory-limit", "3 apples"), 2, "memory_limit", "3 apples")
        refused(serve(c, "--memory-limit", "900TiB"), 2, "memory_limit", "900TiB", "at most the")
        refused(serve(c, "--batch-listen", "0.0.0.0:0"), 2, "advertise")
        refused(serve(c, "--config", "/no/such/file"), 2, "/no/such/file")
        config.write_text("listen: 127.0.0.1:0\nlissen: 1\n")
        refused(serve(c, "--config", config), 2, "config.yaml:2:1", "'lissen' (did you mean listen?)",
                "batch_listen")
        config.write_text("grace: 5\nthreads: 2.7\n")
        refused(serve(c, "--config", config), 2, "config.yaml:2:10", "threads", "from 1 to 1024",
                "2.7")
        config.write_text("listen: 127.0.0.1:0\nlisten: 127.0.0.1:1\n")
        refused(serve(c, "--config", config), 2, "config.yaml:2:1", "listen")


def test_flags_win_over_the_file_and_print_config_says_what_is_in_force():
    with cluster(DATA) as c:
        config = c.folder / "config.yaml"
        config.write_text(f"threads: 3\ngrace: 7\ndatasets: {{data: {DATA}}}\n")
        done = subprocess.run([binary("daemon"), "serve", "--config", config, "--threads", "5",
                               "--print-config"], capture_output=True, text=True, check=True)
        check("threads: 5" in done.stdout, done.stdout)
        check("grace: 7" in done.stdout, done.stdout)
        # The printed configuration can itself be used as a configuration.
        config.write_text(done.stdout)
        again = subprocess.run([binary("daemon"), "serve", "--config", config, "--print-config"],
                               capture_output=True, text=True, check=True)
        check(again.stdout == done.stdout, again.stdout)


def test_sigterm_drains_and_ends_well_under_load():
    with cluster(DATA) as c:
        c.dispatcher()
        workers = [c.worker(), c.worker()]
        consumer = c.consumer(2, epochs=8, extra=["--delay", "0.005", "--prefetch-bytes", "60000"])
        wait_for(lambda: len(c.delivered(consumer.log)) > 20, "no batches", consumer.popen)
        leaving = c.builders(workers)[0]
        leaving.terminate()
        check(leaving.wait() == 0, f"the worker ends with 0:\n{leaving.text()}")
        consumer.expect_success()
        check_same(c.delivered(consumer.log), sum((c.reference(e, 2) for e in range(8)), []))


def test_logs_have_no_line_a_batch_and_can_be_json():
    with cluster(DATA) as c:
        daemon = c.start("serve", *serve(c, "--log-json", "true", "--port-file", c.folder / "port"))
        c.address = wait_for(lambda: (c.folder / "port").exists() and
                             (c.folder / "port").read_text().strip(), "no port", daemon.popen)
        c.consumer(1).expect_success()
        daemon.terminate()
        check(daemon.wait() == 0, daemon.text())
        lines = daemon.text().splitlines()
        for line in lines:
            check({"time", "level", "component", "event"} <= set(json.loads(line)), line)
        check(len(lines) < 30, f"{len(lines)} lines for an epoch of 188 batches")


def test_status_names_jobs_workers_and_consumers():
    with cluster(DATA) as c:
        c.dispatcher()
        c.worker()
        consumer = c.consumer(1, job="seen", epochs=0, extra=["--delay", "0.05"])
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        status = wait_for(lambda: (s := c.status()) and s.get("jobs") and s.get("consumers") and s,
                          "the job is not in status")
        text = json.dumps(status)
        check("seen" in text and status["workers"], text)
        build = wait_for(lambda: c.status()["workers"][0]["build"], "no build times in status")
        check([stage["stage"] for stage in build] == ["batch", "closure", "shuffle"], str(build))
        check(all(stage["seconds"] > 0 for stage in build), str(build))
        consumers = wait_for(lambda: (s := c.status()["consumers"])[0].get("grants") and s,
                             "the consumer's grants are not in status")
        check(consumers[0]["grants"]["window"] > 0, str(consumers))
        check(consumers[0]["list"] == 1, str(consumers))
        table = c.run("status", "--address", c.address)
        check("seen" in table and " CREDIT" not in table, table)
        check(all(word in table for word in ("LIST", "ASKED", "BUILT", "DUE", "SLOTS", "IDLE")), table)
        check("1/1" in table, table)
        table = c.run("status", "--details", "--address", c.address)
        check(" CREDIT" in table and "workers that consumers avoid" in table, table)
        check("seen" in c.run("jobs", "--address", c.address), "jobs lists it")
        c.run("jobs", "end", "seen", "--address", c.address)
        check(consumer.wait() != 0, "an ended job's session is turned out")
        check("ended" in consumer.text() or "seen" in consumer.text(), consumer.text())


def test_status_is_watched_through_a_restart_until_interrupted():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher()
        commands = (("status", "--watch", "--format", "json"), ("top",))
        watches = [c.start(words[0], binary("cli"), *words, "--address", c.address, "--period", "0.1")
                   for words in commands]

        def terms(watch):
            """The terms of the answers, in the order in which they came."""
            return re.findall(r'(?:"term": ?"?|term )(\d+)', watch.text())

        def failures(watch):
            return watch.text().count("dispatcher at " + c.address)

        for watch in watches:
            wait_for(lambda w=watch: len(terms(w)) >= 3, "no answers", watch.popen)
            check(len(set(terms(watch))) == 1, f"one dispatcher, one term: {terms(watch)}")
        first = terms(watches[0])[0]
        dispatcher = c.restart_dispatcher(dispatcher)
        failed = [failures(watch) for watch in watches]
        for watch, before in zip(watches, failed):
            wait_for(lambda w=watch: terms(w)[-1] != first, "no answer of the new dispatcher",
                     watch.popen)
            check(before >= 10, f"{before} failures while it was away:\n{watch.text()[-2000:]}")
            # A look takes 0.1 s. One may have been under way, and one may have failed meanwhile.
            check(failures(watch) <= before + 2,
                  f"{failures(watch) - before} looks failed after its return:\n{watch.text()[-2000:]}")
        check("connection refused" not in dispatcher.text(), dispatcher.text())
        for watch in watches:
            watch.popen.send_signal(signal.SIGINT)
            check(watch.wait() == 0, watch.text())


def test_a_watch_opens_one_connection_a_look():
    opened = 0
    with cluster(DATA) as c, socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        watch = c.start("watch", binary("cli"), "status", "--watch", "--address", address,
                        "--period", "0.1")

        def closes_ten():
            nonlocal opened
            ready, _, _ = select.select([listener], [], [], 0.02)
            if ready:
                listener.accept()[0].close()
                opened += 1
            return watch.text().count("dispatcher at " + address) >= 10

        wait_for(closes_ten, "ten looks are not told", watch.popen)
        watch.popen.send_signal(signal.SIGINT)
        check(watch.wait() == 0, watch.text())
        # The one under way is not told yet.
        looks = watch.text().count("dispatcher at " + address) + 1
        check(opened <= looks, f"{opened} connections for {looks} looks")


def test_a_dataset_with_bad_files_is_refused_with_all_of_them():
    with cluster(DATA) as c:
        broken = c.folder / "broken"
        subprocess.run(["cp", "-r", DATA, broken], check=True)
        (broken / ".millrace.index").unlink()
        files = sorted(broken.rglob("*.bin"))
        files[0].write_bytes(b"")
        files[1].write_bytes(files[1].read_bytes()[:1000])
        done = subprocess.run([binary("cli"), "index", broken], capture_output=True, text=True,
                              check=False)
        check(done.returncode == 3, f"exit code {done.returncode}\n{done.stderr}")
        for file in files[:2]:
            check(str(file.relative_to(broken)) in done.stderr, done.stderr)


def test_a_worker_with_another_dataset_gets_no_work_and_is_named():
    with cluster(DATA) as c:
        other = c.folder / "other-data"
        subprocess.run([binary("cli"), "generate", other, "--nodes", "3000", "--seed", "99"],
                       check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        c.dispatcher()
        good = c.dataset
        c.dataset = other
        c.worker()
        c.dataset = good
        consumer = c.consumer(1)
        wait_for(lambda: "on the worker" in c.run("status", "--address", c.address),
                 "status does not say that the dataset differs")
        check(not c.delivered(consumer.log), "nothing is delivered from a dataset that differs")
        c.worker()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))


def big_dataset(folder):
    """A dataset of many files that takes a while to index on one thread."""
    subprocess.run([binary("cli"), "generate", folder, "--force", "--nodes", "4000000", "--files",
                    "80", "--seed", "5"], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return folder


def index_lock(folder):
    """Holds the lock of a dataset's index, as a process that builds it does."""
    lock = open(folder / ".millrace.index.lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def interrupted_while_indexing(c, name, command, number):
    """Sends a signal while the index is being built, and tries again if the build was faster.
    Checks that the old index stays; returns the process."""
    data = big_dataset(c.folder / "big")
    index = data / ".millrace.index"
    before = (pathlib.Path(DATA) / ".millrace.index").read_bytes()
    for _ in range(10):
        index.write_bytes(before)
        process = c.start(name, *command(data))
        wait_for(lambda: "building the index" in process.text(), "no indexing", process.popen)
        process.popen.send_signal(number)
        process.wait()
        check(not (data / ".millrace.index.tmp").exists(), "no temporary file is left")
        if "index built" not in process.text():
            check(index.read_bytes() == before, "the old index is as it was")
            return process
    raise Failure("the index was always built before the signal came")


def test_sigterm_while_indexing_ends_at_once_and_leaves_the_old_index():
    with cluster(DATA) as c:
        daemon = interrupted_while_indexing(
            c, "serve", lambda data: serve(c, "--dataset", f"big={data}", "--threads", "1"),
            signal.SIGTERM)
        check(daemon.wait() == 0, daemon.text())
        check("stopped at once" not in daemon.text(), daemon.text())


def test_sigterm_while_waiting_for_another_process_to_index_ends_at_once():
    with cluster(DATA) as c:
        data = c.folder / "data"
        shutil.copytree(DATA, data)
        (data / ".millrace.index").unlink()
        with index_lock(data):
            for role in ("serve", "dispatcher", "worker"):
                command = [binary("daemon"), role, "--dataset", f"data={data}", "--grace", "60"]
                if role != "worker":
                    command += ["--listen", "127.0.0.1:0", "--state", c.folder / role]
                if role != "dispatcher":
                    command += ["--batch-listen", "127.0.0.1:0"]
                if role == "worker":
                    command += ["--dispatcher", "127.0.0.1:1"]
                daemon = c.start(role, *command)
                wait_for(lambda: "waiting for another process" in daemon.text(), "no waiting",
                         daemon.popen)
                daemon.terminate()
                check(daemon.wait() == 0, daemon.text())
                check("stopped at once" not in daemon.text(), daemon.text())


def test_a_second_signal_ends_a_daemon_that_drains():
    with cluster(DATA) as c:
        c.dispatcher()
        worker = c.start("worker", binary("daemon"), "worker", "--dataset", f"data={DATA}",
                         "--batch-listen", "127.0.0.1:0", "--dispatcher", c.address, "--grace",
                         "3600")
        consumer = c.consumer(1, epochs=0, extra=["--delay", "0.01", "--prefetch-bytes", "60000"])
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        consumer.stop()
        worker.terminate()
        wait_for(lambda: "stopping" in worker.text(), "the worker does not stop", worker.popen)
        worker.terminate()
        check(worker.wait() == 0, worker.text())


def test_ctrl_c_leaves_the_index_that_was_there_and_says_so_in_one_line():
    with cluster(DATA) as c:
        tool = interrupted_while_indexing(
            c, "index", lambda data: [binary("cli"), "index", data, "--threads", "1"],
            signal.SIGINT)
        check(tool.wait() == 1, tool.text())
        errors = [line for line in tool.text().splitlines() if line.startswith("millrace: ")]
        check(len(errors) == 1 and "big" in errors[0] and "stopped" in errors[0], tool.text())


def wait_for_status(c, accept, what):
    return wait_for(lambda: (s := c.status()) and accept(s) and s, what)


def test_one_dataset_that_is_being_opened_keeps_no_other_waiting():
    with cluster(DATA) as c:
        slow = c.folder / "slow"
        shutil.copytree(DATA, slow)
        (slow / ".millrace.index").unlink()
        # The name makes this dataset the first to be opened.
        datasets = ["--dataset", f"a-slow={slow}", "--dataset", f"data={DATA}"]
        slow_pipeline = c.folder / "slow.yaml"
        slow_pipeline.write_text(c.pipeline.read_text().replace("dataset: data", "dataset: a-slow"))
        with index_lock(slow):
            port = c.folder / "port"
            daemon = c.start("dispatcher", binary("daemon"), "dispatcher", *datasets, "--listen",
                             "127.0.0.1:0", "--state", c.folder / "state", "--port-file", port)
            c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port",
                                 daemon.popen)
            c.start("worker", binary("daemon"), "worker", *datasets, "--batch-listen",
                    "127.0.0.1:0", "--dispatcher", c.address)
            fast = c.pipeline
            c.pipeline = slow_pipeline
            # There are more of these jobs than threads that compile.
            waiting = [c.consumer(1, job=f"slow-{i}", extra=["--set", f"shuffle.seed={i}"])
                       for i in range(4)]
            wait_for_status(c, lambda s: sum("a-slow" in j.get("why", "") and
                                             "being opened" in j.get("why", "")
                                             for j in s.get("jobs", [])) == 4,
                            "status does not say what the jobs wait for")
            c.pipeline = fast
            consumer = c.consumer(1)
            consumer.expect_success()
            check_same(c.delivered(consumer.log), c.reference(0, 1))
        for consumer in waiting:
            consumer.expect_success()


def test_several_datasets_in_one_daemon_and_no_id_twice():
    with cluster(DATA) as c:
        other = c.folder / "other-data"
        subprocess.run([binary("cli"), "generate", other, "--nodes", "3000", "--seed", "9"],
                       check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        port = c.folder / "port"
        command = serve(c, "--dataset", f"second={other}", "--port-file", port)
        daemon = c.start("serve", *command)
        c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port",
                             daemon.popen)
        first = c.consumer(1, job="first")
        c.pipeline = c.folder / "second.yaml"
        c.pipeline.write_text((c.folder / "pipeline.yaml").read_text().replace("dataset: data",
                                                                               "dataset: second"))
        second = c.consumer(1, job="second")
        first.expect_success()
        second.expect_success()
        c.dataset = f"{DATA}"
        text = c.run("digest", c.pipeline, "--dataset", f"second={other}", "--epoch", 0,
                     "--world-size", 1)
        check_same(c.delivered(second.log), [json.loads(line) for line in text.splitlines()])
        c.pipeline = c.folder / "pipeline.yaml"
        check_same(c.delivered(first.log), c.reference(0, 1))
        refused(serve(c, "--dataset", f"data={other}"), 2, "dataset", "data", "given before",
                str(DATA))


def test_a_dispatcher_that_lost_its_state_begins_above_the_term_that_peers_have_seen():
    with cluster(DATA) as c:
        first = c.dispatcher()
        first.terminate()
        check(first.wait() == 0, first.text())
        # The term is as if it came from a clock that was 1,000 s ahead.
        with contextlib.closing(sqlite3.connect(c.folder / "state" / "state.db")) as db, db:
            db.execute("UPDATE leader SET term = term + 1000")
        second = c.dispatcher(c.address)
        ahead = c.status()["term"]
        c.worker()
        consumer = c.consumer(1, extra=["--delay", "0.02", "--prefetch-bytes", "60000"])
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        consumer.stop()
        second.kill()
        shutil.rmtree(c.folder / "state")
        third = c.dispatcher(c.address)
        wait_for(lambda: "began a new term" in third.text(), "no new term", third.popen)
        consumer.resume()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))
        # JSON has 64-bit numbers as text.
        check(int(c.status()["term"]) > int(ahead), f"{c.status()['term']} is not above {ahead}")
        check(third.text().count("began a new term") == 1, third.text())


def test_a_state_folder_that_was_deleted_is_noticed_and_said():
    with cluster(DATA) as c:
        c.serve()
        shutil.rmtree(c.folder / "state")
        consumer = c.consumer(1)
        wait_for_status(c, lambda s: "was deleted" in s.get("store_error", ""),
                        "status does not say that the state is gone")
        check(not c.delivered(consumer.log), "no job begins without its record")


def test_a_worker_without_a_dispatcher_says_so():
    with cluster(DATA) as c:
        worker = c.start("worker", binary("daemon"), "worker", "--dataset", f"data={DATA}",
                         "--batch-listen", "127.0.0.1:0", "--dispatcher", "127.0.0.1:1")
        wait_for(lambda: "no dispatcher" in worker.text() and "127.0.0.1:1" in worker.text(),
                 "the worker does not say that there is no dispatcher", worker.popen)


def test_status_has_the_port_that_was_chosen_also_with_ipv6():
    with cluster(DATA) as c:
        try:
            with socket.create_server(("::1", 0), family=socket.AF_INET6):
                host = "[::1]"
        except OSError:
            host = "127.0.0.1"
        port = c.folder / "port"
        daemon = c.start("serve", *serve(c, "--listen", f"{host}:0", "--batch-listen", f"{host}:0",
                                         "--port-file", port))
        c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port",
                             daemon.popen)
        check(c.address.startswith(host + ":") and not c.address.endswith(":0"), c.address)
        check(c.status()["address"] == c.address, f"{c.status()['address']}, not {c.address}")
        consumer = c.consumer(1)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))


def test_a_job_that_others_hold_is_given_up_after_the_timeout_naming_them():
    with cluster(DATA) as c:
        port = c.folder / "port"
        daemon = c.start("serve", *serve(c, "--attach-timeout", "0.5", "--port-file", port))
        c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port",
                             daemon.popen)
        holder = c.consumer(1, job="held", epochs=0,
                            extra=["--delay", "0.05", "--prefetch-bytes", "60000"])
        wait_for(lambda: c.delivered(holder.log), "no batches", holder.popen)
        late = c.consumer(2, job="held", log=c.folder / "late.jsonl")
        check(late.wait() == 2, late.text())
        for words in ("job held is held by", f":{holder.popen.pid} ", "world size 1, not 2",
                      "millrace jobs end held"):
            check(words in late.text(), f"'{words}' is not in: {late.text()}")
        c.end(holder)


def test_garbage_on_both_ports_changes_nothing():
    with cluster(DATA) as c:
        c.dispatcher()
        worker = c.worker()
        batches = wait_for(lambda: re.search(r"for=batches address=(\S+)", worker.text()),
                           "the worker does not say where it listens", worker.popen).group(1)
        consumer = c.consumer(1, extra=["--delay", "0.01", "--prefetch-bytes", "60000"])
        wait_for(lambda: c.delivered(consumer.log), "no batches", consumer.popen)
        generator = random.Random(1)
        preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
        for address in (c.address, batches):
            host, port = address.rsplit(":", 1)
            for begin in (b"", preface, b"GET / HTTP/1.1\r\n\r\n", preface + bytes(9)):
                for _ in range(5):
                    with socket.create_connection((host, int(port))) as connection:
                        with contextlib.suppress(OSError):
                            connection.sendall(begin + generator.randbytes(100_000))
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))
