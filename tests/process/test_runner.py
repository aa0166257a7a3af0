"""The script that runs the tests: its last lines, tests that run again, what a run leaves behind,
and the time that it may take. It runs on small projects here."""

import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

from harness import PATIENCE, Failure, Skipped, check, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))

import closing_report  # noqa: E402
import unsure_tests  # noqa: E402
from closing_report import FAILED, PASSED, SKIPPED, UNSURE, Result  # noqa: E402


def same(found, expected):
    check(found == expected, f"expected\n{expected}\ngot\n{found}")


def ctest_case(name, status="run", inside="", output=""):
    return (f'<testcase name="{name}" classname="{name}" time="1" status="{status}">{inside}'
            f"<system-out>{output}</system-out></testcase>")


def pytest_case(module, name, inside=""):
    return f'<testcase classname="{module}" name="{name}" time="1">{inside}</testcase>'


def skipped(why):
    return f'<skipped type="pytest.skip" message="{why}">a.py:3: {why}</skipped>'


CODE_77 = '<skipped message="SKIP_RETURN_CODE=77"/>'
PASSED_CASE = ctest_case("unit: fine")


def report(*files, more=(), listed=()):
    """Whether the run has succeeded, and the lines of the report, for result files with these
    cases; None stands for a missing file."""
    with tempfile.TemporaryDirectory() as folder:
        read = []
        for number, cases in enumerate(files):
            path = pathlib.Path(folder) / f"{number}.xml"
            if cases is not None:
                path.write_text(f'<?xml version="1.0"?><testsuite>{"".join(cases)}</testsuite>')
            read.append(closing_report.read(path))
        results = [*closing_report.merged(read), *more]
        lines = "\n".join(closing_report.report(results, listed)).replace(folder, "FOLDER")
        return closing_report.succeeded(results), lines.splitlines()


def test_a_report_of_a_run_in_which_all_passed_is_one_line():
    same(report([PASSED_CASE, ctest_case("unit: good")]), (True, ["2 passed, 0 failed"]))


def test_a_report_names_each_skipped_test_below_its_reason():
    no_data = "skipped: no reference data at /s\n"
    same(report([ctest_case("golden: one", "notrun", CODE_77, no_data), PASSED_CASE,
                 ctest_case("process: docker", "notrun", CODE_77, "skipped: there is no docker here\n"),
                 ctest_case("golden: two", "notrun", CODE_77, f"a first line\n{no_data}")]),
         (True, ["skipped: no reference data at /s (MILLRACE_SHARED names another folder)",
              "  golden: one", "  golden: two",
              "skipped: there is no docker here", "  process: docker",
              "1 passed, 0 failed, 3 skipped"]))


def test_a_report_takes_the_reason_from_what_pytest_prints():
    output = ("s [100%]\n=== short test summary info ===\n"
              "SKIPPED [1] tests/python/test_torch.py:16: could not import 'torch'\n1 skipped in 0.1s")
    same(report([PASSED_CASE, ctest_case("python: torch", "notrun",
                                    '<skipped message="SKIP_RETURN_CODE=5"/>', output)]),
         (True, ["skipped: could not import 'torch' (./tests/run --frameworks installs it)",
              "  python: torch", "1 passed, 0 failed, 1 skipped"]))


def test_a_report_names_a_test_that_passed_and_left_out_a_part():
    output = "..s\nSKIPPED [2] tests/python/test_wheel.py:129: torch is not installed\n"
    same(report([ctest_case("python: wheel", output=output)]),
         (True, ["skipped: torch is not installed (./tests/run --frameworks installs it)",
              "  python: wheel (in part)", "1 passed, 0 failed"]))


def test_a_report_says_so_when_a_skipped_test_gave_no_reason():
    same(report([PASSED_CASE, ctest_case("unit: silent", "notrun", CODE_77)]),
         (True, ["skipped: the test gave no reason", "  unit: silent", "1 passed, 0 failed, 1 skipped"]))
    same(report([PASSED_CASE, ctest_case("unit: off", "disabled", output="Disabled")]),
         (True, ["skipped: disabled", "  unit: off", "1 passed, 0 failed, 1 skipped"]))


def test_a_report_names_what_failed_and_fails():
    same(report([PASSED_CASE, ctest_case("unit: bad", "fail", '<failure message=""/>', "no")]),
         (False, ["failed: unit: bad", "1 passed, 1 failed"]))


def test_a_test_that_could_not_be_started_has_failed():
    case = ctest_case("process: a", "notrun", '<skipped message="Fixture dependency failed"/>')
    same(report([PASSED_CASE, case]),
         (False, ["failed, because not run: Fixture dependency failed", "  process: a",
                  "1 passed, 1 failed"]))


def test_a_run_without_tests_or_without_results_has_failed():
    same(report([]), (False, ["0 passed, 0 failed"]))
    succeeded, lines = report([PASSED_CASE], None)
    same((succeeded, lines[-1]), (False, "1 passed, 1 failed"))
    check(lines[0].startswith("failed: no results in FOLDER/1.xml: "), lines[0])


def test_a_run_that_skipped_everything_has_failed():
    case = ctest_case("unit: a", "notrun", CODE_77, "skipped: no GPU")
    same(report([case]), (False, ["skipped: no GPU", "  unit: a", "0 passed, 0 failed, 1 skipped"]))


def test_a_report_says_how_a_failed_test_runs_alone_and_where_its_output_is():
    failed = Result("unit: a (b)", FAILED, "a word")
    failed.alone = closing_report.ctest_alone("release", failed.name)
    failed.logs = ["build/a.1.log", "build/a.2.log"]
    same(report([PASSED_CASE], more=[failed]),
         (False, ["failed: unit: a (b) (a word)",
                  r"  alone: ctest --preset release -R '^unit: a \(b\)$'",
                  "  output: build/a.1.log build/a.2.log", "1 passed, 1 failed"]))


def test_a_report_gives_the_command_for_a_test_of_pytest():
    same(closing_report.pytest_alone("build/python", "tests.python.test_a", "test_b[1 2]"),
         "MILLRACE_SOURCE_DIR=$PWD build/python -m pytest --rootdir . "
         "'tests/python/test_a.py::test_b[1 2]'")
    same(closing_report.pytest_alone("build/python", "", "tests.python.test_a"),
         "MILLRACE_SOURCE_DIR=$PWD build/python -m pytest --rootdir . tests/python/test_a.py")


def test_a_report_ends_with_the_unsure_tests_and_says_which_are_not_listed():
    unsure = [Result("unit: a", UNSURE), Result("unit: b", UNSURE)]
    same(report([PASSED_CASE], more=unsure, listed=["unit: b"]),
         (True, ["failed, and passed when it ran again: unit: a",
                 "  not listed in tests/unsure.md: add it, and mend it before anything else",
                 "failed, and passed when it ran again: unit: b",
                 "  listed in tests/unsure.md: mend it before anything else",
                 "unsure: unit: a", "unsure: unit: b", "3 passed, 0 failed"]))


def test_a_test_that_one_of_two_environments_can_run_is_not_skipped():
    one = [pytest_case("test_wheel", "lives[torch]"),
           pytest_case("test_wheel", "lives[tensorflow]", skipped("tensorflow is not installed"))]
    other = [pytest_case("test_wheel", "lives[torch]", skipped("torch is not installed")),
             pytest_case("test_wheel", "lives[tensorflow]")]
    same(report(one, other), (True, ["2 passed, 0 failed"]))
    other[1] = pytest_case("test_wheel", "lives[tensorflow]", '<failure message="x"/>')
    same(report(one, other), (False, ["failed: test_wheel: lives[tensorflow]", "1 passed, 1 failed"]))


def test_a_report_of_pytest_names_module_and_test():
    module = ('<testcase classname="" name="tests.python.test_tf" time="0"><skipped '
              'message="collection skipped">(\'/a/test_tf.py\', 9, "Skipped: could not import '
              "'tensorflow'\")</skipped></testcase>")
    same(report([pytest_case("tests.python.test_device", "on_gpu", skipped("no GPU")), module,
                 pytest_case("tests.python.test_a", "b")]),
         (True, ["skipped: no GPU", "  test_device: on_gpu",
              "skipped: could not import 'tensorflow' (./tests/run --frameworks installs it)",
              "  tests.python.test_tf", "1 passed, 0 failed, 2 skipped"]))


# --- the list of unsure tests ---


def test_the_list_of_unsure_tests_has_its_form():
    unsure_tests.read(ROOT / "tests" / "unsure.md")


def test_a_list_of_unsure_tests_without_its_form_is_refused():
    head = "\n".join(["text", *unsure_tests.HEAD, ""])
    row = "| 2026-11-28 | `unit: a` | no answer within 90 s |\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "unsure.md"
        path.write_text(head + row)
        same(unsure_tests.read(path), ["unit: a"])
        for text, where in [("no table\n", ""), (head + row + "more\n", ":5"),
                            (head + row.replace("28", "31"), ":4"),
                            (head + row.replace("`", ""), ":4"),
                            (head + "| 2026-11-28 | `unit: a` |  |\n", ":4")]:
            path.write_text(text)
            try:
                unsure_tests.read(path)
            except ValueError as error:
                check(str(error).startswith(f"{path}{where}: "), str(error))
            else:
                raise Failure(f"accepted:\n{text}")


# --- tests/run ---

PRESETS = """{"version": 6,
"configurePresets": [{"name": "release", "generator": "Ninja",
  "binaryDir": "${sourceDir}/build/${presetName}"}],
"testPresets": [{"name": "release", "configurePreset": "release",
  "output": {"outputOnFailure": true}, "execution": {"jobs": 2, "timeout": 300}}]}
"""
FAILS_ONCE = "test -e came || { touch came; echo the first time; exit 3; }; echo again"
# A process without parent, whose output nobody waits for. It writes its number to the file `left`.
LEAVES_A_PROCESS = """python3 - <<'end'
import os, subprocess
os.environ["MILLRACE_TEST"] = "the one that leaves"
left = subprocess.Popen(["sleep", "1000"], start_new_session=True, stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL)
open("left", "w").write(str(left.pid))
end"""


class Project:
    """A project with the real tests/run, and with tests that are small scripts."""

    def __init__(self, folder):
        self.root = folder
        self.work = folder / "build" / "release"
        shutil.copytree(ROOT / "tests" / "support", folder / "tests" / "support",
                        ignore=lambda _, names: [n for n in names if not n.endswith(".py")])
        for file in ("tests/run", "tests/unsure.md", "deploy/build"):
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
        self.program("deploy/install-deps", "exit 0")
        (folder / "CMakePresets.json").write_text(PRESETS)
        self._cmake = ["cmake_minimum_required(VERSION 3.25)", "project(small NONE)",
                       "enable_testing()"]
        self.tests = 0

    def change_runner(self, old, new):
        path = self.root / "tests" / "support" / "run_tests.py"
        text = path.read_text()
        check(old in text, f"the runner has no '{old}'")
        path.write_text(text.replace(old, new))

    def program(self, path, script):
        (self.root / path).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (self.root / path).chmod(0o755)

    def test(self, name, script="true", properties=""):
        self.tests += 1
        path = self.root / f"{self.tests}.sh"
        path.write_text(script)
        self._cmake.append(f"add_test(NAME [=[{name}]=] COMMAND bash {path})")
        if properties:
            self._cmake.append(f"set_tests_properties([=[{name}]=] PROPERTIES {properties})")

    def start(self, *arguments, **options):
        (self.root / "CMakeLists.txt").write_text("\n".join(self._cmake))
        return subprocess.Popen([self.root / "tests" / "run", *map(str, arguments)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)

    def run(self, *arguments, **options):
        """Exit code, and the lines."""
        return self.end(self.start(*arguments, **options))

    def end(self, program):
        """Waits for the end of a run that was started."""
        try:
            self.text, _ = program.communicate(timeout=PATIENCE)
        except BaseException:
            program.terminate()  # it ends what it has started
            program.communicate()
            raise
        return program.returncode, self.text.splitlines()

    def pid_left(self):
        return int((self.work / "left").read_text())


@contextlib.contextmanager
def project():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-test-")).resolve()
    try:
        yield Project(folder)
    finally:
        shutil.rmtree(folder)


def lives(pid):
    """Whether a process is there and has not ended."""
    try:
        return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def below(lines, line):
    """The indented lines below a line."""
    check(line in lines, f"no line '{line}' in\n" + "\n".join(lines))
    found = []
    for one in lines[lines.index(line) + 1:]:
        if not one.startswith("  "):
            break
        found.append(one.strip())
    return found


def test_a_test_that_fails_once_is_unsure_and_the_run_passes():
    with project() as p:
        p.test("a: sure")
        p.test("b: fails once", FAILS_ONCE)
        code, lines = p.run()
        same((code, lines[-2:]), (0, ["unsure: b: fails once", "2 passed, 0 failed"]))
        logs = re.findall(r"\S+\.log", p.text)
        same([(p.root / log).read_text().strip() for log in logs], ["the first time", "again"])


def test_a_strict_run_fails_for_an_unsure_test():
    with project() as p:
        p.test("a: sure")
        p.test("b: fails once", FAILS_ONCE)
        code, lines = p.run("--strict")
        same((code, lines[-1]), (1, "1 passed, 1 failed"))
        check("failed: b: fails once (passed when it ran again)" in lines, p.text)


def test_the_command_that_is_printed_runs_the_failed_test_alone():
    odd = "b: 1+1 (is) [two], isn't it? $5.^*|\\ {x} \"q\""
    with project() as p:
        p.test("b: 1+1 (is) [two], isn't it? $5.^*|\\ {x} \"q\" too")
        p.test(f"a{odd}")
        p.test(odd, "echo it failed; exit 1")
        code, lines = p.run()
        same((code, lines[-1]), (1, "2 passed, 1 failed"))
        alone, logs = below(lines, f"failed: {odd}")
        texts = [(p.root / log).read_text() for log in logs.removeprefix("output: ").split()]
        same(texts, ["it failed\n"] * 2)
        done = subprocess.run(["bash", "-c", alone.removeprefix("alone: ")], cwd=p.root, text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        check("1/1 Test" in done.stdout and f": {odd} " in done.stdout, done.stdout)


def test_tests_run_again_after_what_sets_them_up_has_passed():
    with project() as p:
        p.test("a: set up", f"echo >>count; {FAILS_ONCE}", "FIXTURES_SETUP f")
        p.test("b: needs it", "test $(wc -l <count) = 2", "FIXTURES_REQUIRED f")
        code, lines = p.run()
        same((code, lines[-3:]), (0, ["unsure: a: set up", "unsure: b: needs it",
                                      "2 passed, 0 failed"]))


def test_tests_do_not_run_again_if_what_sets_them_up_fails_twice():
    with project() as p:
        p.test("a: set up", "exit 1", "FIXTURES_SETUP f")
        p.test("b: needs it", "true", "FIXTURES_REQUIRED f")
        p.test("c: needs nothing")
        code, lines = p.run()
        same((code, lines[-1]), (1, "1 passed, 2 failed"))
        same(below(lines, "failed, because not run: Fixture dependency failed"), ["b: needs it"])


def test_only_the_first_of_many_failed_tests_run_again():
    with project() as p:
        p.change_runner("MOST_AGAIN = 20", "MOST_AGAIN = 2")
        for name in "abc":
            p.test(name, FAILS_ONCE.replace("came", name))
        code, lines = p.run()
        same((code, lines[-3:]), (1, ["unsure: a", "unsure: b", "2 passed, 1 failed"]))
        check("failed: c (not run again: more than 2 tests failed)" in lines, p.text)


# --- what a run leaves behind ---


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


def run_until_time_is_over(p, begun, *arguments):
    """Runs with so many minutes that the file `begun` is made, by something that does not end.
    Returns them, the exit code, and the lines."""
    for minutes in (0.15, 0.4, 1.2):
        code, lines = p.run(*arguments, "--minutes", minutes)
        if begun.exists():
            return minutes, code, lines
    raise Failure(f"the machine is too slow: nothing has begun in {minutes} minutes:\n{p.text}")


def test_tests_that_do_not_fit_into_the_time_have_failed():
    with project() as p:
        p.test("a: long", "echo $$ >pid; sleep 1000; true", "COST 1 RUN_SERIAL ON")
        p.test("b: later", properties="RUN_SERIAL ON")
        minutes, code, lines = run_until_time_is_over(p, p.work / "pid")
        same((code, lines[-1]), (1, "0 passed, 2 failed"))
        why = f"the {minutes} minutes were over"
        same(below(lines, f"failed, because not run: {why}"), ["b: later"])
        check(f"failed: a: long (not run again: {why})" in lines, p.text)
        check(not lives((p.work / "pid").read_text().strip()), "the test goes on")


def test_a_build_that_does_not_fit_into_the_time_has_failed():
    with project() as p:
        p.program("deploy/build", f"echo $$ >{p.root}/pid; sleep 1000; true")
        p.test("a: one")
        minutes, code, lines = run_until_time_is_over(p, p.root / "pid")
        same((code, lines[-2:]), (1, [f"failed: the build (the {minutes} minutes were over, and no test"
                                      " was run)", "0 passed, 1 failed"]))
        check(not lives((p.root / "pid").read_text().strip()), "the build goes on")


def test_a_check_that_does_not_end_in_time_has_failed():
    with project() as p:
        p.test("a: one")
        p.change_runner("SECONDS_TO_STOP = 60", "SECONDS_TO_STOP = 1")
        with_checks(p, *["echo $$ >pid; sleep 1000; true"] * 2)
        _, code, lines = run_until_time_is_over(p, p.root / "pid", "--all")
        same((code, lines[-1]), (1, "1 passed, 1 failed, 1 skipped"))
        check("(it did not end when its time was over)" in p.text, p.text)
        check(not lives((p.root / "pid").read_text().strip()), "the check goes on")


def with_checks(p, fuzz, clang, gcc="exit 0"):
    (p.root / "tests" / "fuzz").mkdir()
    p.program("tests/fuzz/run", fuzz)
    p.program("tests/check-clang", clang)
    p.program("tests/check-gcc", gcc)


def test_checks_that_were_left_out_have_not_passed():
    with project() as p:
        p.test("a: one")
        with_checks(p, "echo left out: 3 of 9 targets: a, b, c", "exit 0")
        code, lines = p.run("--all", "--minutes", 10)
        same((code, lines[-3:]), (0, ["skipped: the 10 minutes were over",
                                      "  tests/fuzz/run: 3 of 9 targets: a, b, c",
                                      "2 passed, 0 failed, 1 skipped"]))


def test_a_check_that_fails_has_failed_even_if_it_left_something_out():
    with project() as p:
        p.test("a: one")
        with_checks(p, "exit 0", "echo an error; echo left out: 1 of 9 sources; exit 1")
        code, lines = p.run("--all", "--minutes", 10)
        same((code, lines[-1]), (1, "2 passed, 1 failed"))
        alone, log = below(lines, "failed: tests/check-clang")
        check(alone.startswith("alone: tests/check-clang --but-fuzzed --from "), alone)
        check("an error" in (p.root / log.removeprefix("output: ")).read_text(), log)


def test_checks_have_no_limit_without_minutes_and_begin_as_the_commit_says():
    said = 'echo "$0 $*" >>said; sed -i "s|$PWD/||" said'
    firsts = set()
    with project() as p:
        p.test("a: one")
        with_checks(p, said, said, said)
        git = ["git", "-C", p.root, "-c", "user.name=a", "-c", "user.email=a@b", "-c",
               "commit.gpgsign=false"]
        subprocess.run([*git, "init", "-q"], check=True)
        for count in range(64):
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", str(count)], check=True)
            head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True,
                                  check=True).stdout
            number = int(head[:8], 16)
            if number % 2 in firsts:
                continue
            firsts.add(number % 2)
            code, lines = p.run("--all")
            same((code, lines[-1]), (0, "4 passed, 0 failed"))
            expected = [f"tests/fuzz/run --seconds 60 --jobs 2 --from {number // 2}",
                        f"tests/check-clang --but-fuzzed --from {number // 2}"]
            same((p.root / "said").read_text().splitlines(),
                 [*(expected[::-1] if number % 2 else expected),
                  f"tests/check-gcc --from {number // 2}"])
            (p.root / "said").unlink()
            if len(firsts) == 2:
                return
    raise Failure("64 commits have hashes of one parity")


def test_checks_without_time_say_what_they_left_out():
    for command, kind, first in [("check-clang", "sources", None), ("check-gcc", "sources", None),
                                 ("fuzz/run", "targets", "graph_json")]:
        done = subprocess.run([ROOT / "tests" / command, "--limit", "0", "--from", "3"], text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        found = re.search(rf"^left out: (\d+) of \1 {kind}: (\S+?),? ", done.stdout, re.M)
        check(done.returncode == 0 and found and found[2] == (first or found[2]),
              f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")


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


def test_the_runner_refuses_what_it_does_not_know():
    for arguments in (["--preset"], ["--all", "--frameworks"], ["--preset", "debug", "more"], ["all"]):
        done = subprocess.run([ROOT / "tests" / "run", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        check(done.returncode == 2 and "usage: tests/run [-h] [--all | " in done.stderr,
              f"{arguments}: {done.returncode}: {done.stderr}")


def test_the_runner_explains_itself():
    done = subprocess.run([ROOT / "tests" / "run", "--help"], capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    check(done.returncode == 0 and "tests/run --all --minutes" in done.stdout, done.stdout)
