"""Installs missing packages, builds, and runs tests.

  tests/run                 preset release
  tests/run --all           also the tests with the label `long` (faults, the benchmark's programs,
                            the wheel, the model); then each source once through clang 14, most of
                            them as fuzz targets, which run for a minute each, and once through GCC
                            by itself
  tests/run --all --minutes 77   as CI does: the checks with clang and the fuzzing take the time
                            that is left; their turn follows from the commit's hash; GCC's checks
                            are left out
  tests/run --deploy        only the tests with the label `deploy`: packages on a bare Debian that
                            boots systemd, the image, what guides for clusters show; needs root
  tests/run --preset NAME   another preset: debug, asan-ubsan, tsan
  tests/run --frameworks    only the tests of the Python package, with every framework that it has
                            an adapter for; installs these first, about 8 GB

A test that fails runs once more, alone. If it passes then, it counts as passed, and the last lines
name it: `unsure: NAME`. Those of --frameworks run once only. A run fails, too, if it leaves
processes, mounts, network namespaces or segments of shared memory behind; it takes them away.

It ends with the names of the tests that were skipped, each below its reason; with those that
failed, each with the command that runs it alone and the files with its output; and with a line such
as `123 passed, 0 failed, 4 skipped`. Exit code 0: some test passed and none failed.
"""

import argparse
import contextlib
import json
import math
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import closing_report
import unsure_tests
from closing_report import FAILED, PASSED, SKIPPED, UNSURE, Result
from leftovers import Run

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_AGAIN = 20  # tests; if more have failed, running them again tells nothing
SECONDS_TO_STOP = 60  # for programs that have been told when to end
LEAST_SECONDS = 3  # that make it worth to begin tests or a check
MOST_HOURS_OF_CTEST = 23  # its --stop-time is a time of day
LOG_BYTES = 2_000_000  # that CTest keeps of a failed test's output


class Interrupted(Exception):
    """The run was told to end."""

    def __init__(self, number):
        super().__init__(f"the run was interrupted by {signal.Signals(number).name}")
        self.number = number


class Stopped(Exception):
    """A program has not ended in time. It may have left others, which still run."""


def arguments():
    parser = argparse.ArgumentParser(prog="tests/run", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--all", action="store_true", help="all that CI runs")
    what.add_argument("--deploy", action="store_true", help="the tests with the label `deploy`")
    what.add_argument("--preset", metavar="NAME", default="release", help="[release]")
    what.add_argument("--frameworks", action="store_true", help="Python's, with all frameworks")
    parser.add_argument("--minutes", type=float, metavar="N", default=math.inf,
                        help="the most that the run may take: tests that do not fit have failed, "
                             "checks with clang are left out [no limit]")
    parser.add_argument("--strict", action="store_true", help="unsure tests count as failed")
    return parser.parse_args()


class Clock:
    """The time that the run has left."""

    def __init__(self, minutes):
        self._minutes = minutes
        self._end = time.monotonic() + minutes * 60

    def seconds_left(self):
        return max(0.0, self._end - time.monotonic())

    def limited(self):
        return math.isfinite(self._end)

    def why(self):
        return f"the {self._minutes:g} minutes were over"

    @contextlib.contextmanager
    def limit(self, extra_seconds=0):
        """Raises Stopped in its block as soon as the time and some extra seconds are over."""
        if self.limited():
            signal.setitimer(signal.ITIMER_REAL, max(0.01, self.seconds_left() + extra_seconds))
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def commit_number():
    """A number that follows from the commit; 0 without git."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    return int(done.stdout[:8], 16) if done.returncode == 0 else 0


class Runner:
    """Builds, and runs tests and checks. Each part returns a list of results."""

    def __init__(self, options, clock, run):
        self._clock = clock
        self._run = run
        self._strict = options.strict
        self._all = options.all
        self._preset = options.preset
        self._build = ROOT / "build" / ("frameworks" if options.frameworks else self._preset)
        self._logs = self._build / "failures"
        shutil.rmtree(self._logs, ignore_errors=True)

    # --- the parts ---

    def build(self):
        """The results are empty if all was built."""
        options = ["-DBUILD_TESTING=ON"]
        # A build folder that somebody has configured keeps its options.
        if not (self._build / "CMakeCache.txt").exists():
            options += ["-DMILLRACE_FAST_BUILD=ON", "-DMILLRACE_BENCH=OFF"]
        if self._all:
            options.append("-DMILLRACE_BENCH=ON")
        try:
            with self._clock.limit():
                done = subprocess.run(["cmake", "--preset", self._preset, *options], cwd=ROOT,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      check=False)
                if done.returncode != 0:
                    print(done.stdout, end="")
                    return [Result("configuring the build", FAILED)]
                print(f"building {self._preset}", flush=True)
                if self._call([ROOT / "deploy" / "build", self._build]) != 0:
                    return [Result("the build", FAILED)]
        except Stopped:
            self._run.end_processes()
            return [Result("the build", FAILED, f"{self._clock.why()}, and no test was run")]
        return []

    def tests(self, *filters):
        """Runs the tests that CTest's options `filters` choose, and those that failed once more."""
        listed = self._list_tests(filters)
        if listed is None:
            return [Result("ctest cannot list the tests", FAILED)]
        results = self._ctest("results.xml", *filters)
        if results is None:
            return [Result("ctest wrote no results", FAILED)]
        for name in listed:
            if name not in results:
                results[name] = Result(name, FAILED, not_run=self._clock.why())
        failed = [result for result in results.values() if result.outcome == FAILED]
        for result in failed:
            result.alone = closing_report.ctest_alone(self._preset, result.name)
            if not result.not_run:
                self._keep_log(result, result.output, 1)
        # A test that sets up others comes before these.
        self._run_again(sorted(failed, key=lambda result: not listed.get(result.name)), listed)
        return list(results.values())

    def checks(self):
        """The fuzz targets, and clang's checks of the other sources, as far as the time reaches.
        What comes first follows from the commit, so that each has its turn. Without a limit of time,
        also GCC's checks of each source by itself."""
        number = commit_number()
        parts = [["tests/fuzz/run", "--seconds", "60", "--jobs", "2"],
                 ["tests/check-clang", "--but-fuzzed"]]
        if number % 2:
            parts.reverse()
        if not self._clock.limited():
            parts.append(["tests/check-gcc"])
        return [self._check(*part, "--from", str(number // 2)) for part in parts]

    def frameworks(self):
        try:
            with self._clock.limit():
                self._call([ROOT / "tests" / "python" / "frameworks", self._build])
        except Stopped:
            self._run.end_processes()
            return [Result("the tests with frameworks", FAILED, self._clock.why())]
        files = []
        for environment in ("torch", "graph2tac"):
            files.append(closing_report.read(self._build / f"{environment}.xml"))
            python = self._build.relative_to(ROOT) / environment / "bin" / "python"
            for (group, name), result in files[-1].items():
                if result.outcome == FAILED and (group or name.startswith("tests.")):
                    result.alone = closing_report.pytest_alone(python, group, name)
                    self._keep_log(result, result.output, 1)
        return closing_report.merged(files)

    # --- tests ---

    def _list_tests(self, filters):
        """Whether a test sets up others, by its name. None if CTest does not know."""
        done = subprocess.run(["ctest", "--preset", self._preset, "--show-only=json-v1", *filters],
                              cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            return None
        return {test["name"]: any(p["name"] == "FIXTURES_SETUP" for p in test.get("properties", []))
                for test in json.loads(done.stdout)["tests"]}

    def _ctest(self, file, *options):
        """Runs tests; returns the results of those that it began, by name. None if CTest broke."""
        if self._clock.seconds_left() < LEAST_SECONDS:
            return {}
        (self._build / file).unlink(missing_ok=True)
        # CTest keeps the end of long output, because pytest prints there which tests it skipped.
        command = ["ctest", "--preset", self._preset, "--output-junit", file, "--no-tests=error",
                   "--test-output-truncation", "head", "--test-output-size-failed", str(LOG_BYTES),
                   *options]
        if self._clock.seconds_left() < MOST_HOURS_OF_CTEST * 3600:
            end = time.localtime(time.time() + self._clock.seconds_left())
            command += ["--stop-time", time.strftime("%H:%M:%S", end)]
        try:
            with self._clock.limit(SECONDS_TO_STOP):
                self._call(command)
        except Stopped:
            self._run.end_processes()
        if not (self._build / file).exists():
            return None
        return {name: result for (_, name), result in
                closing_report.read(self._build / file).items()}

    def _run_again(self, failed, listed):
        if failed and self._clock.seconds_left() >= LEAST_SECONDS:
            print(f"running again, alone: {len(failed[:MOST_AGAIN])} of {len(failed)} tests that "
                  "failed", flush=True)
        set_up = True
        for count, result in enumerate(failed):
            if count >= MOST_AGAIN:
                result.why = f"not run again: more than {MOST_AGAIN} tests failed"
            elif self._clock.seconds_left() < LEAST_SECONDS:
                result.why = f"not run again: {self._clock.why()}" if not result.not_run else ""
            elif set_up or not result.not_run:
                # Its set-up has run.
                again = self._ctest("again.xml", "-R", closing_report.ctest_pattern(result.name),
                                    "--fixture-exclude-any", ".*", "-j", "1") or {}
                self._judge(result, again.get(result.name))
                set_up = set_up and not (listed.get(result.name) and result.outcome == FAILED)

    def _judge(self, result, again):
        if again is None:
            result.why = "running it again gave no result"
            return
        self._keep_log(result, again.output, 2)
        result.not_run = again.not_run
        if again.outcome != FAILED:
            result.outcome = FAILED if self._strict else UNSURE
            result.why = "passed when it ran again" if self._strict else again.why

    def _keep_log(self, result, text, attempt):
        """Writes what a test printed to a file for people."""
        self._logs.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_.-]+", "_", result.name)[:100]
        path = self._logs / f"{name}.{attempt}.log"
        while path.exists():
            path = path.with_name("other-" + path.name)
        path.write_text(text)
        result.logs.append(path.relative_to(ROOT))

    # --- programs ---

    def _check(self, name, *options):
        """Runs a program that says by lines `left out: …` what it had no time for."""
        command = [name, *options]
        if self._clock.seconds_left() < LEAST_SECONDS:
            return Result(f"{name}: all", SKIPPED, self._clock.why())
        print(f"running {shlex.join(command)}", flush=True)
        if self._clock.limited():
            command += ["--limit", str(int(self._clock.seconds_left()))]
        result = Result(name, PASSED)
        lines = []
        try:
            with self._clock.limit(SECONDS_TO_STOP):
                code = self._call([ROOT / name, *command[1:]], lines)
        except Stopped:
            self._run.end_processes()
            code, result.why = 1, "it did not end when its time was over"
        left_out = re.findall(r"^left out: (.+)$", "\n".join(lines), re.M)
        if code != 0:
            result.outcome, result.alone = FAILED, shlex.join([name, *options])
            self._keep_log(result, "\n".join(lines) + "\n", 1)
        elif left_out:
            result = Result(f"{name}: {'; '.join(left_out)}", SKIPPED, self._clock.why())
        return result

    @staticmethod
    def _call(command, lines=None):
        """Runs a command; returns its exit code. Its output also goes to the list `lines`, if any."""
        with subprocess.Popen(list(map(str, command)), cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=None if lines is None else subprocess.PIPE,
                              stderr=None if lines is None else subprocess.STDOUT,
                              text=True, errors="replace") as program:
            try:
                for line in program.stdout or ():
                    print(line, end="", flush=True)
                    lines.append(line.rstrip("\n"))
                return program.wait()
            except BaseException:
                program.kill()
                raise


def run_mode(options, runner):
    if options.frameworks:
        yield from runner.frameworks()
        return
    results = runner.build()
    yield from results
    if results:
        return
    if options.deploy:
        yield from runner.tests("--label-regex", "^deploy$")
    elif options.all:
        yield from runner.tests("--label-exclude", "^deploy$")
        yield from runner.checks()
    else:
        yield from runner.tests("--label-exclude", "^(long|deploy)$")


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def interrupt(number, _):
    for one in SIGNALS:
        signal.signal(one, signal.SIG_IGN)
    raise Interrupted(number)


def stop(*_):
    raise Stopped


def main():
    options = arguments()
    clock = Clock(options.minutes)
    try:
        listed = unsure_tests.read(ROOT / "tests" / "unsure.md")
    except ValueError as error:
        sys.exit(f"tests/run: {error}")
    for more in [[], ["--deploy"]] if options.deploy else [[]]:
        done = subprocess.run([ROOT / "deploy" / "install-deps", *more], check=False)
        if done.returncode != 0:
            return done.returncode
    run = Run(ROOT / "build")
    for number in SIGNALS:
        # nohup ignores SIGHUP.
        if signal.getsignal(number) != signal.SIG_IGN or number != signal.SIGHUP:
            signal.signal(number, interrupt)
    signal.signal(signal.SIGALRM, stop)
    results = []
    code = 0
    try:
        results.extend(run_mode(options, Runner(options, clock, run)))
    except Interrupted as error:
        results.append(Result(str(error), FAILED))
        code = 128 + error.number
        run.end_processes()
    finally:
        left = run.take_away_leftovers()
    results += [Result(f"left behind: {line}", FAILED) for line in left]
    print("\n".join(closing_report.report(results, listed)))
    return code or (0 if closing_report.succeeded(results) else 1)


if __name__ == "__main__":
    sys.exit(main())
