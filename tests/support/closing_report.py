"""The last lines of a run: which tests were skipped and why, which failed, which are unsure, and
how many passed.

Results come from the JUnit files that CTest and pytest write. The last line is always such as
`123 passed, 0 failed, 4 skipped`.
"""

import ast
import re
import shlex
import xml.etree.ElementTree as ElementTree

# An unsure test has failed, and has passed when it ran again.
PASSED, FAILED, SKIPPED, UNSURE = "passed", "failed", "skipped", "unsure"
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
    """The result of one test. `why` says why it was skipped, wholly or `in_part`, or a word about
    its failure; `not_run` says why a failed test was not run. `output` is what it printed. `alone`
    is the command that runs it alone. `logs` are the files with its output, as paths from the
    project's folder."""

    def __init__(self, name, outcome, why="", in_part=False, output="", not_run=""):
        self.name = name
        self.outcome = outcome
        self.why = why
        self.in_part = in_part
        self.output = output
        self.not_run = not_run
        self.alone = ""
        self.logs = []


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
    failures = [part for tag in ("failure", "error") for part in case.findall(tag)]
    if case.get("status") == "disabled":
        result = Result(shown, SKIPPED, "disabled")
    elif case.get("status") == "fail" or failures:
        result = Result(shown, FAILED, output=output or "\n".join(f.text or "" for f in failures))
    elif skipped is None:
        why = reason(output) if from_ctest else ""
        result = Result(shown, PASSED, why, in_part=bool(why), output=output)
    elif not from_ctest:
        result = Result(shown, SKIPPED, reason_of_pytest(skipped))
    elif CTEST_SKIPS.match(skipped.get("message", "")):
        result = Result(shown, SKIPPED, reason(output))
    else:
        result = Result(shown, FAILED, not_run=skipped.get("message"))
    return (group, name), result


def read(path):
    """The results of one file, by test. A missing or broken file counts as a failure of its own,
    because its run did not get to its end."""
    try:
        return dict(map(read_case, ElementTree.parse(path).iter("testcase")))
    except (OSError, ElementTree.ParseError) as error:
        return {("", str(path)): Result(f"no results in {path}: {error}", FAILED)}


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


def ctest_pattern(name):
    """A regular expression of CMake for this name only."""
    return "^" + re.sub(r"[][.^$*+?()|\\]", r"\\\g<0>", name) + "$"


def ctest_alone(preset, name):
    """The command that runs a test alone, after what sets it up."""
    return shlex.join(["ctest", "--preset", preset, "-R", ctest_pattern(name)])


def pytest_alone(python, group, name):
    """The command that runs a test of the Python package, or a file of tests, alone."""
    module, test = (group, f"::{name}") if group else (name, "")
    words = [str(python), "-m", "pytest", "--rootdir", ".", module.replace(".", "/") + ".py" + test]
    return "MILLRACE_SOURCE_DIR=$PWD " + shlex.join(words)


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


def where_it_is(result):
    if result.alone:
        yield f"  alone: {result.alone}"
    if result.logs:
        yield f"  output: {' '.join(map(str, result.logs))}"


def failures(results):
    not_run = {}
    for result in results:
        if result.outcome == FAILED and result.not_run:
            not_run.setdefault(result.not_run, []).append(result.name)
        elif result.outcome == FAILED:
            yield f"failed: {result.name}" + (f" ({result.why})" if result.why else "")
            yield from where_it_is(result)
    for why, names in not_run.items():
        yield f"failed, because not run: {why}"
        yield from (f"  {name}" for name in names)


def sightings(results, listed):
    """What is to be done about each unsure test. `listed` has the names of tests/unsure.md."""
    for result in results:
        if result.outcome == UNSURE:
            yield f"failed, and passed when it ran again: {result.name}"
            yield from where_it_is(result)
            if result.name in listed:
                yield "  listed in tests/unsure.md: mend it before anything else"
            else:
                yield "  not listed in tests/unsure.md: add it, and mend it before anything else"


def report(results, listed=()):
    """All lines; the last one has the numbers."""
    count = {outcome: sum(r.outcome == outcome for r in results)
             for outcome in (PASSED, FAILED, SKIPPED, UNSURE)}
    numbers = [f"{count[PASSED] + count[UNSURE]} passed", f"{count[FAILED]} failed"]
    if count[SKIPPED]:
        numbers.append(f"{count[SKIPPED]} skipped")
    return [*skips(results), *failures(results), *sightings(results, listed),
            *(f"unsure: {r.name}" for r in results if r.outcome == UNSURE), ", ".join(numbers)]


def succeeded(results):
    outcomes = {result.outcome for result in results}
    return bool(outcomes & {PASSED, UNSURE}) and FAILED not in outcomes
