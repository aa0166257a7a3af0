"""Long runs stay flat: memory, open files and threads of a daemon and a trainer do not grow, epoch
after epoch of a tiny dataset. `tests/process/soak` is the same by hand, for any length of time."""

import os
import pathlib
import select
import subprocess

from harness import Skipped, check, cluster, wait_for

# Each epoch has one batch.
PIPELINE = """millrace: 1
dataset: data
source: proof_states
shuffle: {seed: 7}
closure: {max_subgraph_size: 16}
batch: {size: 64, remainder: keep}
"""
# So many bytes may be added for each epoch in every eighth of the second half. One small allocation
# forgotten in each epoch is more: 32 bytes with its header. A rare event, such as a connection that is
# made again, adds memory to one of them.
ALLOWED_AN_EPOCH = 16
LOOKS = 200


def look(process):
    """Memory without mapped files, open files, and threads of a process; None if it has ended."""
    try:
        memory = process.memory_bytes()
        files, threads = (len(os.listdir(f"/proc/{process.popen.pid}/{what}"))
                          for what in ("fd", "task"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return (memory, files, threads) if memory else None


def run_epochs(epochs, report=lambda text: None):
    """Runs a service and a trainer for so many epochs; fails if either of them grows."""
    with cluster(None) as c:
        c.dataset = c.folder / "tiny"
        c.run("generate", c.dataset, "--nodes", 2000, "--files", 2, "--proof-states", 40)
        c.pipeline.write_text(PIPELINE)
        daemon = c.serve("--threads", 1, "--memory-limit", "64MiB", "--log-level", "warning")
        # The trainer can go on by a few hundred epochs only as this test reads its lines.
        lines = c.folder / "lines"
        os.mkfifo(lines)
        file = os.open(lines, os.O_RDONLY | os.O_NONBLOCK)
        trainer = c.consumer(1, epochs=epochs, log=lines,
                             extra=["--prefetch-bytes", 200000, "--quiet"])
        samples = {"daemon": [], "trainer": []}
        wait_for(lambda: select.select([file], [], [], 0)[0], "no batches", trainer.popen)
        os.set_blocking(file, True)
        with os.fdopen(file, "rb") as log:
            for now, _ in enumerate(log, 1):
                if now % (epochs // LOOKS):
                    continue
                for name, process in (("daemon", daemon), ("trainer", trainer)):
                    if (seen := look(process)) is not None:
                        samples[name].append((now, *seen))
                if now % (epochs // 10) == 0:
                    report(f"{now} epochs: " + "; ".join(
                        f"{name} {s[-1][1] >> 10} KiB, {s[-1][2]} files, {s[-1][3]} threads"
                        for name, s in samples.items() if s))
        trainer.expect_success()
        for name, taken in samples.items():
            expect_flat(name, taken, epochs, report)


def eighth(taken, epochs, number):
    part = [s for s in taken if number * epochs <= 8 * s[0] < (number + 1) * epochs]
    check(len(part) >= 3, f"only {len(part)} looks in eighth {number} of the run")
    return part


def expect_flat(name, taken, epochs, report):
    parts = [eighth(taken, epochs, number) for number in range(4, 8)]
    for column, what in ((1, "bytes"), (2, "open files"), (3, "threads")):
        least = [min(s[column] for s in part) for part in parts]
        allowed = ALLOWED_AN_EPOCH * epochs // 8 if what == "bytes" else 0
        report(f"{name}: {what} {least}")
        check(min(after - before for before, after in zip(least, least[1:])) <= allowed,
              f"the {name} had {least} {what} in the last four eighths of {epochs} epochs: expected at "
              f"most {allowed} more in one of them")


def test_ten_thousand_epochs_leave_daemon_and_trainer_as_they_were():
    if os.environ.get("MILLRACE_TEST_SANITIZE"):
        raise Skipped("a sanitizer keeps what was freed")
    run_epochs(10_000, report=print)


def test_a_long_run_by_hand_says_that_it_was_flat():
    if os.environ.get("MILLRACE_TEST_SANITIZE"):
        raise Skipped("a sanitizer keeps what was freed")
    soak = pathlib.Path(__file__).with_name("soak")
    done = subprocess.run([soak, "--epochs", "5000", "--build", os.environ["MILLRACE_BUILD_DIR"]],
                          capture_output=True, text=True, check=False)
    # Such a short run may not be flat yet. The test only checks that it measures.
    looked = "daemon: " in done.stdout and "trainer: " in done.stdout
    check(looked and done.returncode in (0, 1), f"{done.stdout}{done.stderr}")
    done = subprocess.run([soak, "--epochs", "10"], capture_output=True, text=True, check=False)
    check(done.returncode == 2 and "at least 5000" in done.stderr, done.stderr)
