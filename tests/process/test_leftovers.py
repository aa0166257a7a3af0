"""What a run of tests leaves behind, and what it ends when it is interrupted."""

import os
import pathlib
import re
import signal
import subprocess
import sys

from harness import PATIENCE, Skipped, check, wait_for
from runner_project import lives, project, same

# A process without parent, whose output nobody waits for. It writes its number to the file `left`.
LEAVES_A_PROCESS = """python3 - <<'end'
import os, subprocess
os.environ["MILLRACE_TEST"] = "the one that leaves"
left = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
open("left", "w").write(str(left.pid))
end"""


def test_a_process_that_a_test_leaves_is_named_and_ended():
    other = subprocess.Popen(["sleep", "1000"])  # of nobody's run
    try:
        with project() as p:
            p.test("a: leaves", LEAVES_A_PROCESS)
            code, lines = p.run()
            same((code, lines[-1]), (1, "1 passed, 1 failed"))
            pid = p.pid_left()
            check(f"failed: left behind: process {pid}: sleep 1000 (in {p.work}; started by the test "
                  "'the one that leaves')" in lines, p.text)
            check(not lives(pid), "the process lives on")
            check(other.poll() is None, "a process of another run was ended")
    finally:
        other.kill()
        other.wait()


def test_programs_know_which_process_test_has_started_them():
    told = subprocess.run(["printenv", "MILLRACE_TEST"], capture_output=True, text=True, check=False)
    same(told.stdout, "process: programs know which process test has started them\n")


def test_a_process_that_a_failed_run_leaves_is_named_too():
    with project() as p:
        p.program("deploy/build",
                  LEAVES_A_PROCESS.replace('"left"', f'"{p.root}/left"') + "\nexit 1")
        p.test("a: one")
        code, lines = p.run()
        same((code, lines[-1]), (1, "0 passed, 2 failed"))
        pid = (p.root / "left").read_text()
        check("failed: the build" in lines and f"left behind: process {pid}: " in p.text, p.text)


def test_shared_memory_that_a_test_leaves_is_named_and_removed():
    if not os.access("/dev/shm", os.W_OK):
        raise Skipped("there is no /dev/shm here")
    named = pathlib.Path(f"/dev/shm/millrace-test-{os.getpid()}")
    of_others = named.with_name(named.name + "-of-another-run")
    with project() as p:
        p.test("a: leaves", f"""touch {named} ready; until test -e {of_others}; do sleep 0.02; done
mkdir $MILLRACE_TEST_MEMORY/empty $MILLRACE_TEST_MEMORY/full
touch $MILLRACE_TEST_MEMORY/full/file; echo $MILLRACE_TEST_MEMORY >memory
ipcmk --shmem 4096 >number""")
        program = p.start()
        try:
            wait_for((p.work / "ready").exists, "the test does not begin", program)
            with open(of_others, "w"):
                code, lines = p.end(program)
            memory = (p.work / "memory").read_text().strip()
            number = re.search(r"\d+", (p.work / "number").read_text())[0]
            found = [line.removeprefix("failed: left behind: ") for line in lines
                     if line.startswith("failed: left behind: ")]
            check(found.pop().startswith(f"shared memory of System V: number {number}, of process "),
                  p.text)
            same(found, [f"shared memory: {memory}/full", f"shared memory: {named}"])
            same((code, lines[-1]), (1, "1 passed, 3 failed"))
            check(not named.exists() and not pathlib.Path(memory).exists(), "not removed")
            check(of_others.exists(), "that of another run is gone")
        finally:
            program.terminate()
            named.unlink(missing_ok=True)
            of_others.unlink(missing_ok=True)


def may_change_the_system():
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "--net", "true"],
                                           capture_output=True, check=False).returncode != 0:
        raise Skipped("mounts and network namespaces need root")


def test_a_mount_that_a_test_leaves_is_named_and_what_lies_there_stays():
    may_change_the_system()
    with project() as p:
        kept = p.root / "kept"
        kept.mkdir()
        (kept / "file").touch()
        p.test("a: leaves", f"echo $TMPDIR >folder; mkdir $TMPDIR/m; mount --bind {kept} $TMPDIR/m")
        code, lines = p.run()
        folder = (p.work / "folder").read_text().strip()
        same((code, lines[-2:]), (1, [f"failed: left behind: mount: {folder}/m",
                                      "1 passed, 1 failed"]))
        check((kept / "file").exists(), "what was mounted there is gone")
        check(not pathlib.Path(folder).exists(), "the run's folder stays")


def test_a_network_that_a_test_leaves_is_named_and_removed():
    may_change_the_system()
    name = f"millrace-test-{os.getpid()}"
    with project() as p:
        p.test("a: leaves", f"ip netns add {name}")
        code, lines = p.run()
        try:
            same((code, lines[-2:]), (1, [f"failed: left behind: network namespace: {name}",
                                          "1 passed, 1 failed"]))
            check(not pathlib.Path("/run/netns", name).exists(), "not removed")
        finally:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def test_an_interrupted_run_ends_all_that_it_has_started():
    for number in (signal.SIGTERM, signal.SIGINT):
        with project() as p:
            p.test("a: waits", LEAVES_A_PROCESS + "\necho $TMPDIR >folder; touch ready; sleep 1000")
            program = p.start()
            try:
                wait_for((p.work / "ready").exists, "the test does not begin", program)
                program.send_signal(number)
            finally:
                code, lines = p.end(program)
            same((code, lines[-2:]), (128 + number,
                                      [f"failed: the run was interrupted by {number.name}",
                                       "0 passed, 1 failed"]))
            check(not lives(p.pid_left()), "a process lives on")
            check(not pathlib.Path((p.work / "folder").read_text().strip()).exists(),
                  "the run's folder stays")


WAITS = """import sys, time
sys.path.insert(0, sys.argv[1])
import run, harness
def waits():
    with harness.cluster("no dataset") as c:
        print(c.start("sleeper", "sleep", "1000").popen.pid, c.folder, flush=True)
        while True:
            time.sleep(1)
run.tests = lambda: {"waits": waits}
sys.argv = ["run.py", "waits"]
run.main()
"""


def test_a_process_test_that_is_told_to_end_ends_what_it_has_started():
    with subprocess.Popen([sys.executable, "-c", WAITS, pathlib.Path(__file__).parent], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as test:
        pid, folder = test.stdout.readline().split()
        test.terminate()
        test.communicate(timeout=PATIENCE)
    check(not lives(pid), "the process lives on")
    check(not pathlib.Path(folder).exists(), "the test's folder stays")


# --- the time that a run may take ---


def test_a_run_goes_on_after_a_terminal_has_ended_if_it_was_told_so():
    with project() as p:
        p.test("a: waits", "touch ready; until test -e go; do sleep 0.02; done")
        program = p.start(preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        try:
            wait_for((p.work / "ready").exists, "the test does not begin", program)
            program.send_signal(signal.SIGHUP)
            (p.work / "go").touch()
        finally:
            code, lines = p.end(program)
        same((code, lines[-1]), (0, "1 passed, 0 failed"))
