"""One run of everything: datasets, our samples, and samples of rivals, each in a pair with
ours."""

import datetime
import os
import pathlib
import platform
import shutil
import subprocess

from rivals.catalogue import RIVALS
from rivals.environments import Environments
from runner import summary
from runner.catalogue import BENCHMARKS
from runner.sampling import Failed, Sampler

RIVALS_FOLDER = pathlib.Path(__file__).resolve().parent.parent / "rivals"
RIVAL_SECONDS = 90  # time limit for a rival's sample: set-up, warm-up, measurement


class Session:
    """`options`: as tests/bench/run parses them."""

    def __init__(self, options, log):
        self._options = options
        self._log = log
        self._build = pathlib.Path(options.build)
        self._out = pathlib.Path(options.out)
        self._out.mkdir(parents=True, exist_ok=True)
        self._paths = {}

    def run(self):
        results = {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"),
                   "machine": machine(), "samples": self._options.samples,
                   "most_foreign": self._options.most_foreign, "benchmarks": [], "rivals": [],
                   "rejected": 0, "foreign": []}
        self._prepare()
        for benchmark in BENCHMARKS:
            if benchmark.letter in self._options.only:
                results["benchmarks"].append(self._measure(benchmark, results))
        if self._options.rivals:
            results["rivals"] = self._measure_rivals(results)
        return results

    # --- datasets ---

    def _prepare(self):
        if self._options.data:
            data = self._out / "dataset"
            shutil.rmtree(data, ignore_errors=True)
            # The data is copied, so that indexes can be written beside it.
            shutil.copytree(self._options.data, data, copy_function=shutil.copyfile)
            for folder in [data, *(p for p in data.rglob("*") if p.is_dir())]:
                folder.chmod(0o755)
        else:
            data = self._generate("generated", 30_000 if self._options.quick else 100_000)
        large = data
        if {"e", "g"} & set(self._options.only):
            large = self._generate("large", 30_000 if self._options.quick else 1_000_000)
        self._paths = {"data": str(data), "large": str(large), "seconds": "2", "rounds": "100"}
        if self._options.quick:
            self._paths.update(seconds="0.3", rounds="2")

    def _graph(self):
        """The graph that neighbourhoods are sampled from."""
        if self._options.graph:
            return self._options.graph
        nodes = 30_000 if self._options.quick else 1_000_000
        try:
            return self._generate("graph", nodes, "--kind", "graph", "--model", "rmat", "--rows",
                                  "target", "--edges", str(15 * nodes), "--features", "128")
        except (OSError, subprocess.CalledProcessError) as error:
            raise Failed(f"no graph was generated: {error}") from None

    def _generate(self, name, nodes, *options):
        folder = self._out / f"{name}-{nodes}"
        if not folder.exists():
            tool = self._build / "client" / "cli" / "millrace"
            subprocess.run([tool, "generate", folder, "--nodes", str(nodes), "--seed", "1",
                            *options],
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return folder

    # --- ours ---

    def _command(self, program):
        binary = self._build / "tests" / "bench" / program[0]
        if not binary.exists():
            raise Failed(f"not built: {binary.name}")
        return [str(binary), *(word.format(**self._paths) for word in program[1:])]

    def _sampler(self):
        return Sampler(self._options.most_foreign, self._options.most_rejected)

    def _measure(self, benchmark, results):
        part = {"letter": benchmark.letter, "title": benchmark.title, "rows": [], "rejected": 0}
        programs = benchmark.quick if self._options.quick else benchmark.programs
        failures = []
        for program in programs:
            sampler = self._sampler()
            try:
                command = self._command(program)
                samples = [sampler.sample(command, benchmark.seconds)
                           for _ in range(self._options.samples)]
                part["rows"] += summary.rows_of(samples)
            except Failed as error:
                failures.append(f"{' '.join(program)}: {error}"
                                if "not built" not in str(error) else str(error))
            part["rejected"] += sampler.rejected
            results["foreign"] += sampler.foreign
            self._log(f"({benchmark.letter}) {' '.join(program)}: {sampler.taken} samples, "
                      f"{sampler.rejected} rejected")
        if failures:
            part["failed"] = "; ".join(failures)
        results["rejected"] += part["rejected"]
        return part

    # --- rivals ---

    def _measure_rivals(self, results):
        environments = Environments(self._options.rivals_folder or self._build.parent / "rivals",
                                    self._log)
        csr = None
        rows = []
        for rival in RIVALS:
            if self._options.only_rivals and rival.name not in self._options.only_rivals:
                continue
            try:
                reason = environments.missing(rival.environment, rival.step)
                if reason:
                    raise Failed(f"cannot be installed here: {reason}")
                if rival.csr and csr is None:
                    csr = self._export(environments)
                if rival.data == "graph" and "graph" not in self._paths:
                    self._paths["graph"] = str(self._graph())
                row = self._pairs(rival, environments.python(rival.environment), csr, results)
            except Failed as error:
                row = {"name": rival.title, "against": rival.ours.name, "failed": str(error)}
            self._log(f"rival {rival.name}: {row.get('failed') or summary.number(row['median'])}")
            rows.append(row)
        return rows

    def _environment(self):
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}

    def _export(self, environments):
        """The dataset as arrays, made by the reference's own reader."""
        reason = environments.missing("reference", "base")
        if reason:
            raise Failed(f"the dataset cannot be exported, as graph2tac cannot be installed: "
                         f"{reason}")
        csr = self._out / "dataset.npz"
        done = subprocess.run([environments.python("reference"), RIVALS_FOLDER / "csr.py", "--data",
                               self._paths["data"], "--csr", csr], env=self._environment(),
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
        if done.returncode != 0:
            raise Failed(f"the dataset cannot be exported: {done.stderr.decode()[-200:]}")
        return csr

    def _pairs(self, rival, python, csr, results):
        sampler = self._sampler()
        command, lacking = None, ""
        try:
            command = self._command(rival.ours.program)
        except Failed as error:  # the rival is measured alone
            lacking = str(error)
        ours, theirs, unit, versions = [], [], "", {}
        for sample in range(self._options.samples):
            program = [str(python), str(RIVALS_FOLDER / rival.program[0]), *rival.program[1:],
                       "--data", self._paths[rival.data], "--seconds", self._paths["seconds"],
                       "--seed", str(sample), "--scratch", str(self._out)]
            if rival.csr:
                program += ["--csr", str(csr)]
            theirs_of_pair = (program, RIVAL_SECONDS, self._environment())
            if command:
                one, two = sampler.pair((command, RIVAL_SECONDS, None), theirs_of_pair)
                ours.append(_figure_of(rival.ours, one, two[0]["unit"]))
            else:
                two = sampler.sample(*theirs_of_pair)
            theirs.append(two[0]["value"])
            unit = two[0]["unit"]
            versions = {k: v for k, v in two[0]["params"].items() if k != "checksum"}
        results["rejected"] += sampler.rejected
        results["foreign"] += sampler.foreign
        row = summary.rival_row(rival, ours, theirs, versions, lacking)
        row["unit"] = unit
        return row


def _figure_of(ours, figures, unit):
    figure = next((f for f in figures if f["name"] == ours.figure), None)
    if figure is None or figure["unit"] != unit:
        raise Failed(f"{ours.program[0]} gave no figure '{ours.figure}' in {unit}")
    return figure["value"]


def machine():
    """Describes the machine of the figures in words."""
    model = "unknown processor"
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    with open("/proc/sys/net/ipv4/tcp_congestion_control") as file:
        control = file.read().strip()
    return (f"{model}, {os.cpu_count()} CPUs, {memory:.0f} GiB, Linux {platform.release()}, TCP "
            f"{control}")
