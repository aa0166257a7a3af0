"""Prints the last lines of a test run: which tests were skipped and why, which failed, and how many
passed.

  closing_report.py [--check NAME=CODE]... RESULTS.xml...

Reads the JUnit files that CTest and pytest write. A check is a program that counts as one test;
CODE is its exit code. The last line is always such as `123 passed, 0 failed, 4 skipped`. Exit code
0: some test passed and none failed.
"""

import argparse
import ast
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
# CTest also calls a test skipped if it could not start it. Such a test has failed.
CTEST_SKIPS = re.compile(r"SKIP_RETURN_CODE|SKIP_REGULAR_EXPRESSION_MATCHED")
# SAID is the line that a skipped test prints, in C++ and in tests/process. PYTEST_SAID is the line
# that pytest prints for each place where tests were skipped.
SAID = re.compile(r"^skipped: (.+)$", re.M)
PYTEST_SAID = re.compile(r"^SKIPPED \[\d+\] (?:\S+\.py(?::\d+)?: )?(.+)$", re.M)
HINTS = {
    r"could not import|is not installed$": "./tests/run --frameworks installs it",
    r"no reference data at|the real datasets are not at": "MILLRACE_SHARED names another folder",
}


class Result:
    """The result of one test. `why` is empty unless it was skipped, wholly or `in_part`."""

    def __init__(self, name, outcome, why="", in_part=False):
        self.name = name
        self.outcome = outcome
        self.why = why
        self.in_part = in_part


def reason(output):
    """The reason that a test gives for being skipped; empty if it gives none."""
    said = SAID.findall(output)[-1:] or PYTEST_SAID.findall(output)
    return "; ".join(dict.fromkeys(said))


def reason_of_pytest(skipped):
    message, text = skipped.get("message", ""), skipped.text or ""
    if message == "collection skipped":  # the text is a tuple: path, line, message
        return ast.literal_eval(text)[2].removeprefix("Skipped: ")
    return message


def read_case(case):
    """One <testcase>, as (key, Result). CTest repeats a test's name as its class; pytest does not."""
    name, group = case.get("name", ""), case.get("classname", "")
    from_ctest = name == group
    shown = name if from_ctest or not group else f"{group.rsplit('.', 1)[-1]}: {name}"
    output = case.findtext("system-out") or ""
    skipped = case.find("skipped")
    if case.get("status") == "disabled":
        result = Result(shown, SKIPPED, "disabled")
    elif case.get("status") == "fail" or any(case.find(tag) is not None
                                             for tag in ("failure", "error")):
        result = Result(shown, FAILED)
    elif skipped is None:
        why = reason(output) if from_ctest else ""
        result = Result(shown, PASSED, why, in_part=bool(why))
    elif not from_ctest:
        result = Result(shown, SKIPPED, reason_of_pytest(skipped))
    elif CTEST_SKIPS.match(skipped.get("message", "")):
        result = Result(shown, SKIPPED, reason(output))
    else:
        result = Result(f"{shown} (not run: {skipped.get('message')})", FAILED)
    return (group, name), result


def read(path):
    """The results of one file, by test."""
    return dict(map(read_case, ElementTree.parse(path).iter("testcase")))


def merged(files):
    """The results of several files, by test. A test has run if any of the runs could run it."""
    rank = (SKIPPED, PASSED, FAILED)
    results = {}
    for file in files:
        for key, result in file.items():
            old = results.get(key)
            if old is None or rank.index(result.outcome) > rank.index(old.outcome):
                results[key] = result
    return list(results.values())


def skips(results):
    """A heading for each reason, and below it the names of the tests."""
    by_reason = {}
    for result in results:
        if result.outcome == SKIPPED or result.in_part:
            name = result.name + (" (in part)" if result.in_part else "")
            by_reason.setdefault(result.why or "the test gave no reason", []).append(name)
    for why, names in by_reason.items():
        hint = next((f" ({text})" for pattern, text in HINTS.items() if re.search(pattern, why)), "")
        yield f"skipped: {why}{hint}"
        yield from (f"  {name}" for name in names)


def report(results):
    """All lines; the last one has the numbers."""
    count = {outcome: sum(r.outcome == outcome for r in results)
             for outcome in (PASSED, FAILED, SKIPPED)}
    numbers = [f"{count[PASSED]} passed", f"{count[FAILED]} failed"]
    if count[SKIPPED]:
        numbers.append(f"{count[SKIPPED]} skipped")
    return [*skips(results), *(f"failed: {r.name}" for r in results if r.outcome == FAILED),
            ", ".join(numbers)]


def succeeded(results):
    outcomes = {result.outcome for result in results}
    return PASSED in outcomes and FAILED not in outcomes


def read_check(text):
    name, _, code = text.rpartition("=")
    return Result(name, FAILED if int(code) else PASSED)


def read_or_fail(path):
    """A missing or broken file counts as a failure of its own, because its run did not get to its
    end."""
    try:
        return read(path)
    except (OSError, ElementTree.ParseError) as error:
        return {("", str(path)): Result(f"no results in {path}: {error}", FAILED)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", metavar="NAME=CODE", type=read_check, action="append", default=[])
    parser.add_argument("results", metavar="RESULTS.xml", type=pathlib.Path, nargs="*")
    options = parser.parse_intermixed_args()
    results = merged(map(read_or_fail, options.results)) + options.check
    print("\n".join(report(results)))
    return 0 if succeeded(results) else 1


if __name__ == "__main__":
    sys.exit(main())
