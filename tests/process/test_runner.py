"""The script that runs the tests: its last lines, and its arguments."""

import pathlib
import subprocess
import sys
import tempfile

from harness import PATIENCE, check

ROOT = pathlib.Path(__file__).resolve().parents[2]
REPORT = ROOT / "tests" / "support" / "closing_report.py"


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
PASSED = ctest_case("unit: fine")


def report(*files, checks=()):
    """Exit code and lines of the report for result files with these cases; None stands for a
    missing file."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number, cases in enumerate(files):
            paths.append(pathlib.Path(folder) / f"{number}.xml")
            if cases is not None:
                paths[-1].write_text(f'<?xml version="1.0"?><testsuite>{"".join(cases)}</testsuite>')
        flags = [word for one in checks for word in ("--check", one)]
        done = subprocess.run([sys.executable, REPORT, *flags, *paths], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        check(not done.stderr, done.stderr)
        return done.returncode, done.stdout.replace(folder, "FOLDER").splitlines()


def test_a_report_of_a_run_in_which_all_passed_is_one_line():
    same(report([PASSED, ctest_case("unit: good")]), (0, ["2 passed, 0 failed"]))


def test_a_report_names_each_skipped_test_below_its_reason():
    no_data = "skipped: no reference data at /s\n"
    same(report([ctest_case("golden: one", "notrun", CODE_77, no_data), PASSED,
                 ctest_case("process: docker", "notrun", CODE_77, "skipped: there is no docker here\n"),
                 ctest_case("golden: two", "notrun", CODE_77, f"a first line\n{no_data}")]),
         (0, ["skipped: no reference data at /s (MILLRACE_SHARED names another folder)",
              "  golden: one", "  golden: two",
              "skipped: there is no docker here", "  process: docker",
              "1 passed, 0 failed, 3 skipped"]))


def test_a_report_takes_the_reason_from_what_pytest_prints():
    output = ("s [100%]\n=== short test summary info ===\n"
              "SKIPPED [1] tests/python/test_torch.py:16: could not import 'torch'\n1 skipped in 0.1s")
    same(report([PASSED, ctest_case("python: torch", "notrun",
                                    '<skipped message="SKIP_RETURN_CODE=5"/>', output)]),
         (0, ["skipped: could not import 'torch' (./tests/run --frameworks installs it)",
              "  python: torch", "1 passed, 0 failed, 1 skipped"]))


def test_a_report_names_a_test_that_passed_and_left_out_a_part():
    output = "..s\nSKIPPED [2] tests/python/test_wheel.py:129: torch is not installed\n"
    same(report([ctest_case("python: wheel", output=output)]),
         (0, ["skipped: torch is not installed (./tests/run --frameworks installs it)",
              "  python: wheel (in part)", "1 passed, 0 failed"]))


def test_a_report_says_so_when_a_skipped_test_gave_no_reason():
    same(report([PASSED, ctest_case("unit: silent", "notrun", CODE_77)]),
         (0, ["skipped: the test gave no reason", "  unit: silent", "1 passed, 0 failed, 1 skipped"]))
    same(report([PASSED, ctest_case("unit: off", "disabled", output="Disabled")]),
         (0, ["skipped: disabled", "  unit: off", "1 passed, 0 failed, 1 skipped"]))


def test_a_report_names_what_failed_and_fails():
    same(report([PASSED, ctest_case("unit: bad", "fail", '<failure message=""/>', "no")]),
         (1, ["failed: unit: bad", "1 passed, 1 failed"]))


def test_a_test_that_could_not_be_started_has_failed():
    case = ctest_case("process: a", "notrun", '<skipped message="Fixture dependency failed"/>')
    same(report([PASSED, case]),
         (1, ["failed: process: a (not run: Fixture dependency failed)", "1 passed, 1 failed"]))


def test_a_run_without_tests_or_without_results_has_failed():
    same(report([]), (1, ["0 passed, 0 failed"]))
    code, lines = report([PASSED], None)
    same((code, lines[-1]), (1, "1 passed, 1 failed"))
    check(lines[0].startswith("failed: no results in FOLDER/1.xml: "), lines[0])


def test_a_run_that_skipped_everything_has_failed():
    case = ctest_case("unit: a", "notrun", CODE_77, "skipped: no GPU")
    same(report([case]), (1, ["skipped: no GPU", "  unit: a", "0 passed, 0 failed, 1 skipped"]))


def test_checks_count_as_one_test_each():
    same(report([PASSED], checks=["tests/check-clang=0", "tests/fuzz/run=1"]),
         (1, ["failed: tests/fuzz/run", "2 passed, 1 failed"]))


def test_a_test_that_one_of_two_environments_can_run_is_not_skipped():
    one = [pytest_case("test_wheel", "lives[torch]"),
           pytest_case("test_wheel", "lives[tensorflow]", skipped("tensorflow is not installed"))]
    other = [pytest_case("test_wheel", "lives[torch]", skipped("torch is not installed")),
             pytest_case("test_wheel", "lives[tensorflow]")]
    same(report(one, other), (0, ["2 passed, 0 failed"]))
    other[1] = pytest_case("test_wheel", "lives[tensorflow]", '<failure message="x"/>')
    same(report(one, other), (1, ["failed: test_wheel: lives[tensorflow]", "1 passed, 1 failed"]))


def test_a_report_of_pytest_names_module_and_test():
    module = ('<testcase classname="" name="tests.python.test_tf" time="0"><skipped '
              'message="collection skipped">(\'/a/test_tf.py\', 9, "Skipped: could not import '
              "'tensorflow'\")</skipped></testcase>")
    same(report([pytest_case("tests.python.test_device", "on_gpu", skipped("no GPU")), module,
                 pytest_case("tests.python.test_a", "b")]),
         (0, ["skipped: no GPU", "  test_device: on_gpu",
              "skipped: could not import 'tensorflow' (./tests/run --frameworks installs it)",
              "  tests.python.test_tf", "1 passed, 0 failed, 2 skipped"]))


# --- tests/run ---


def test_the_runner_refuses_what_it_does_not_know():
    for arguments in (["--preset"], ["--all", "--frameworks"], ["--preset", "debug", "more"], ["all"]):
        done = subprocess.run([ROOT / "tests" / "run", *arguments], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        check(done.returncode == 2 and "usage: tests/run [--all | " in done.stderr,
              f"{arguments}: {done.returncode}: {done.stderr}")
