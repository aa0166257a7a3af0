"""The last lines of a run of tests, and the list of unsure tests."""

import pathlib
import tempfile

from harness import Failure, check  # first: it makes tests/support known
from runner_project import ROOT, same

import closing_report
import unsure_tests
from closing_report import FAILED, UNSURE, Result


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
