"""Tests the benchmark's runner: a whole quick run works on everything that is built, noise is
rejected, and every command of its document runs. The measured values are not tested."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

from harness import check
from test_streams import DATA

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD_DIR", "build/release"))
PAGE = ROOT / "docs/internals/benchmarks.md"
sys.path.insert(0, str(ROOT / "tests" / "bench"))


def run(folder, *arguments, expect=0, env=None):
    """Runs the runner in quick mode, in a folder of its own."""
    command = [sys.executable, str(ROOT / "tests" / "bench" / "run"), *arguments, "--quick",
               "--build", str(BUILD), "--out", str(folder), "--rivals-folder",
               str(pathlib.Path(folder) / "rivals")]
    done = subprocess.run(command, capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    check(done.returncode == expect, f"{' '.join(arguments)}: exit code {done.returncode}:\n"
                                     f"{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def test_a_quick_benchmark_gives_every_part_a_row_and_a_plot():
    from runner.catalogue import BENCHMARKS
    with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
        out = run(folder, "--data", str(DATA))
        results = json.loads((pathlib.Path(folder) / "results.json").read_text())
        for part in results["benchmarks"]:
            missing = "not built" in part.get("failed", "")
            check(missing or (part["rows"] and "failed" not in part), f"no figures: {part}")
            for row in part["rows"]:
                check(row["min"] <= row["median"] <= row["max"], f"out of order: {row}")
                check(row["name"] in out, f"not in the table: {row['name']}")
            for unit in {row["unit"] for row in part["rows"]}:
                name = next(b for b in BENCHMARKS if b.letter == part["letter"]).plots[unit]
                plot = pathlib.Path(folder) / "plots" / f"{name}.svg"
                check(plot.read_text().startswith("<svg"), f"no plot {plot}")


def test_the_benchmark_rejects_samples_that_were_disturbed():
    from runner.sampling import Machine, Noisy, Sampler, busy_seconds

    class Clock:
        """A sample takes ten seconds on two CPUs; `others` says how many CPU seconds of each others
        use."""

        def __init__(self, others):
            self.time = self.busy_time = self.own_time = 0.0
            self.others = list(others)

        def program(self, *_):
            self.time += 10
            self.own_time += 9
            self.busy_time += 9 + self.others.pop(0)
            return [{"name": "x", "value": 1}]

        def machine(self):
            return Machine(busy=lambda: self.busy_time, own=lambda: self.own_time,
                           now=lambda: self.time, sleep=lambda _: None, cpus=2)

    clock = Clock([0.5, 3, 1.5, 1.7, 0])
    sampler = Sampler(0.08, 2, clock.machine(), clock.program)
    for _ in range(3):
        sampler.sample(["x"], 1)
    check((sampler.taken, sampler.rejected) == (3, 2), f"{sampler.taken} {sampler.rejected}")
    clock = Clock([3] * 4)
    sampler = Sampler(0.08, 2, clock.machine(), clock.program)
    try:
        sampler.sample(["x"], 1)
        check(False, "noise was taken")
    except Noisy as error:
        check("--most-foreign" in str(error) and "3 samples were rejected" in str(error), str(error))
    # Both samples of a pair count, or neither does.
    clock = Clock([0, 3, 0, 0])
    sampler = Sampler(0.08, 2, clock.machine(), clock.program)
    sampler.pair((["a"], 1, None), (["b"], 1, None))
    check(not clock.others, "the first of a disturbed pair was kept")
    check(busy_seconds("cpu  100 200 300 9 9 50 60 400 0 0\ncpu0 1 2\n") == 10, "stolen time counts")


def test_a_benchmark_that_fails_or_hangs_is_said():
    from runner.sampling import Failed, run_program
    for script, word in (("import sys; sys.exit('no luck')", "no luck"),
                         ("print('nothing')", "no figures"), ("import time; time.sleep(60)", "not within")):
        try:
            run_program([sys.executable, "-c", script], 0.5 if "sleep" in script else 30)
            check(False, f"{script}: taken as a sample")
        except Failed as error:
            check(word in str(error), str(error))


def test_figures_are_summed_up_as_medians_of_pairs():
    from runner import summary
    figure = {"name": "x", "unit": "GB/s", "limit_name": "y", "params": {"n": "1"}}
    (row,) = summary.rows_of([[{**figure, "value": v, "limit": l}]
                              for v, l in ((1, 2), (9, 10), (3, 30))])
    check((row["min"], row["median"], row["max"], row["limit"], row["ratio"]) == (1, 3, 9, 10, 0.5),
          str(row))
    check(summary.number(1234567) == "1.23 M" and summary.number(0.0123) == "0.0123", "numbers")


def test_a_rival_whose_counterpart_is_not_built_stands_alone():
    from rivals.catalogue import RIVALS
    from runner import plots, summary
    rival = next(rival for rival in RIVALS if rival.ours.plot)
    row = summary.rival_row(rival, [], [3, 1, 2], {"a": "1"}, "not built: x")
    row["unit"] = "edges/s"
    check((row["min"], row["median"], row["max"]) == (1, 2, 3), str(row))
    line = summary.rival_line(row)
    check(line[5:7] == ["not built: x", ""] and "(a 1)" in line[7], str(line))
    said = summary.item(line).replace("\n ", "")
    check("2 edges/s (1 to 3). Ours: not built: x. It does " in said, said)
    ((name, svg),) = plots.charts({"benchmarks": [], "rivals": [row]})
    check(name == f"{rival.ours.plot}.svg" and ">Millrace<" not in svg, svg)


def test_the_figures_of_one_part_are_renewed_alone():
    from runner import document
    block = """when and where.

**(a) one**

- x: 1

**(b) two**

- y: 2

**rivals**

- z: 3

![plot](plots/plot.svg)"""
    figures = "**(b) two**\n\n- y: 5\n- new: 6"
    new = document.with_parts(block, "later.", figures, ["b"])
    check(new == block.replace("where.", "where.\n\nParts b: later.")
          .replace("- y: 2", "- y: 5\n- new: 6"), new)
    check(document.with_parts(new, "later.", figures, ["b"]) == new, "not stable")
    try:
        document.with_parts(block, "later.", figures.replace("(b) two", "(c) three"), ["c"])
        check(False, "a section that the document lacks was put into it")
    except ValueError as error:
        check("(c) three" in str(error), str(error))


def test_only_the_marked_block_of_a_document_changes():
    from runner import document
    text = f"before\n{document.BEGIN}\nold\n{document.END}\nafter\n"
    new = document.replace_block(text, "new")
    check(new == f"before\n{document.BEGIN}\n\nnew\n\n{document.END}\nafter\n", new)
    check(document.replace_block(new, "new") == new, "not stable")
    try:
        document.replace_block("no marks", "new")
        check(False, "a document without marks was changed")
    except ValueError:
        pass


def test_a_plot_is_named_by_its_subject():
    from runner import plots
    rows = [{"name": unit, "unit": unit, "min": 1, "median": 2, "max": 3}
            for unit in ("examples/s", "edges/s", "examples/s")]
    rival = {**rows[0], "against": "payload over gRPC", "ours": [1, 2]}
    results = {"benchmarks": [{"letter": "a", "title": "closure", "rows": rows}], "rivals": [rival]}
    names = [name for name, _ in plots.charts(results)]
    check(names == ["closure-rate-by-batch-size.svg", "closure-edge-rate.svg", "wire-rivals.svg"],
          str(names))
    rows[0]["unit"] = "sheep/s"
    try:
        list(plots.charts(results))
        check(False, "a figure without a named plot was drawn")
    except ValueError as error:
        check("part (a)" in str(error) and "'sheep/s'" in str(error), str(error))


def test_the_plots_of_the_benchmark_page_are_those_that_a_run_writes():
    from rivals.catalogue import RIVALS
    from runner.catalogue import BENCHMARKS
    names = [name for benchmark in BENCHMARKS for name in benchmark.plots.values()]
    names += {rival.ours.plot for rival in RIVALS if rival.ours.plot}
    check(len(names) == len(set(names)), f"two plots of a name: {sorted(names)}")
    linked = re.findall(r"!\[(.*?)\]\(plots/(.*?)\.svg\)", PAGE.read_text())
    check(sorted(name for _, name in linked) == sorted(names), f"{linked}")
    check(all(text == name.replace("-", " ") for text, name in linked), f"{linked}")
    kept = sorted(path.stem for path in (PAGE.parent / "plots").iterdir())
    check(kept == sorted(names), f"in docs/internals/plots: {kept}")


def test_every_command_of_the_benchmark_page_runs():
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.S)
    commands = [line.split("  #")[0].strip() for block in blocks for line in block.splitlines()]
    check(len(commands) >= 3, f"only {commands}")
    for command in commands:
        with tempfile.TemporaryDirectory(prefix="millrace-test-") as folder:
            page = pathlib.Path(folder) / "benchmarks.md"
            page.write_text(PAGE.read_text())
            words = shlex.split(command.replace("/data/stdlib", str(DATA))
                                .replace("docs/internals/benchmarks.md", str(page)))
            if words[0] in ("cmake", "ninja"):
                continue  # this test runs on that build
            if words[0] == "tests/bench/tuning/run":
                continue  # it has a test of its own
            check(words[0] in ("tests/bench/run", "tests/bench/rivals/run"), command)
            if words[0].endswith("rivals/run"):
                words[1:1] = ["--rivals"]
                words += ["--only", "none"]
            elif "--list" not in words:
                words += ["--only", "b"]
            # The test may not load packages, so the table gives the reason and the run goes on.
            out = run(folder, *words[1:], env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": folder})
            if "--rivals" in words:
                check("not measured: cannot be installed here" in out, out)
            if "--document" in words:
                new = page.read_text()
                check(new != PAGE.read_text() and "fill and seal" in new, "the page was not renewed")
                plot = pathlib.Path(folder) / "plots" / "packing-byte-rate.svg"
                check(plot.exists(), f"no plot {plot}")
