"""The script that runs the tests: tests that run again, the time that it may take, its checks and
its options."""

import re
import subprocess

from harness import PATIENCE, Failure, check
from runner_project import ROOT, below, lives, project, same

FAILS_ONCE = "test -e came || { touch came; echo the first time; exit 3; }; echo again"


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
                                 ("fuzz/run", "targets", "tokens_index")]:
        done = subprocess.run([ROOT / "tests" / command, "--limit", "0", "--from", "3"], text=True,
                              capture_output=True, timeout=PATIENCE, check=False)
        found = re.search(rf"^left out: (\d+) of \1 {kind}: (\S+?),? ", done.stdout, re.M)
        check(done.returncode == 0 and found and found[2] == (first or found[2]),
              f"{command}: {done.returncode}\n{done.stdout}{done.stderr}")


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
