"""Dataset files that change while they are served."""

import os
import pathlib
import shutil

from harness import check, check_same, cluster, wait_for
from test_streams import DATA

SLOW = ["--delay", "0.02", "--prefetch-bytes", "30000"]


def own_dataset(c, name="mine"):
    """A copy of the dataset in the test's folder, which may be damaged, and its largest file."""
    folder = c.folder / name
    shutil.copytree(DATA, folder)
    return folder, max(folder.rglob("*.bin"), key=lambda file: file.stat().st_size)


def worker_of(c, dataset):
    c.dataset, before = dataset, c.dataset
    worker = c.worker()
    c.dataset = before
    return worker


def write_zeros(file):
    with open(file, "r+b") as f:
        f.write(bytes(file.stat().st_size))


def cut(file):
    os.truncate(file, 4096)


def begun(c, consumer):
    wait_for(lambda: len(c.delivered(consumer.log)) > 5, "no batches", consumer.popen)


def expect_data_loss(consumer, daemon, file):
    check(consumer.wait() == 3, f"exit code {consumer.wait()}, expected 3:\n{consumer.text()}")
    last = consumer.text().splitlines()[-1]
    check(file.name in last and "worker" in last, f"the file and the worker are not in: {last}")
    check("exclude: {files: [" in last, f"what would let it go on is not in: {last}")
    check(daemon.popen.poll() is None, f"the daemon died:\n{daemon.text()}")


def test_a_file_cut_off_in_mid_epoch_ends_the_job_with_its_name_and_no_wrong_byte():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        daemon = c.serve()
        consumer = c.consumer(1, extra=SLOW)
        begun(c, consumer)
        cut(file)
        expect_data_loss(consumer, daemon, file)
        c.dataset = DATA
        delivered = c.delivered(consumer.log)
        check_same(delivered, c.reference(0, 1)[:len(delivered)])


def test_a_file_zeroed_in_mid_epoch_ends_the_job_with_its_name():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        daemon = c.serve()
        consumer = c.consumer(1, extra=SLOW)
        begun(c, consumer)
        write_zeros(file)
        expect_data_loss(consumer, daemon, file)
        # Who asks anew is told at once; who excludes the file is served.
        again = c.consumer(1, job="again")
        check(again.wait() == 3 and file.name in again.text(), again.text())
        name = file.relative_to(c.dataset)
        c.consumer(1, job="without", extra=["--set", f"exclude.files=[{name}]"]).expect_success()


def test_the_job_goes_on_with_the_worker_whose_file_was_not_cut_off():
    with cluster(DATA) as c:
        mine, file = own_dataset(c)
        c.dispatcher()
        damaged = worker_of(c, mine)
        c.worker()
        consumer = c.consumer(1, extra=SLOW)
        begun(c, consumer)
        cut(file)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))
        check(damaged.popen.poll() is None, f"the worker died:\n{damaged.text()}")
        wait_for(lambda: file.name in damaged.text(), "the worker does not name the file")


def test_the_job_goes_on_with_the_worker_whose_file_was_not_zeroed():
    with cluster(DATA) as c:
        mine, file = own_dataset(c)
        c.dispatcher()
        damaged = worker_of(c, mine)
        consumer = c.consumer(1, extra=SLOW)
        begun(c, consumer)
        # Files are opened when they are needed: only what is open is watched.
        maps = pathlib.Path(f"/proc/{damaged.popen.pid}/maps")
        wait_for(lambda: str(file) in maps.read_text(), "the worker does not open the file")
        c.worker()
        wait_for(lambda: [w["state"] for w in c.status()["workers"]] == ["ready", "ready"],
                 "the other worker is not ready")
        # Up to a second may pass until a change in place is seen: nothing shall be built meanwhile.
        consumer.stop()
        for _ in range(2):
            c.status()
        write_zeros(file)
        wait_for(lambda: "plan cannot be served any more" in damaged.text(),
                 "the worker does not see that the file was changed", damaged.popen)
        consumer.resume()
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))


def test_a_file_replaced_by_rename_changes_nothing_and_is_warned_of_once():
    with cluster(DATA) as c:
        c.dataset, file = own_dataset(c)
        daemon = c.serve()
        consumer = c.consumer(1, extra=SLOW)
        begun(c, consumer)
        other = c.folder / "other"
        other.write_bytes(bytes(100))
        os.replace(other, file)
        wait_for(lambda: "file was replaced" in daemon.text(), "nobody warns", daemon.popen)
        consumer.expect_success()
        check(daemon.text().count("file was replaced") == 1, daemon.text())
        c.dataset = DATA
        check_same(c.delivered(consumer.log), c.reference(0, 1))
