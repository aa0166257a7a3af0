"""deploy/slurm: a job that is requeued in the middle goes on, with every example once."""

import json
import os
import pathlib
import re
import signal
import sys

import pytest
from conftest import run
from slurm_cluster import Slurm, missing, wait_for

from millrace import _binaries

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
SCRIPT = ROOT / "deploy" / "slurm" / "millrace.sbatch"
TRAINER = ROOT / "client" / "python" / "examples" / "resume.py"
PIPELINE = {"millrace": 1, "dataset": "papers", "source": {"roots": "all"}, "shuffle": {"seed": 3},
            "closure": {"max_subgraph_size": 32}, "batch": {"size": 16, "remainder": "keep"}}
RANKS = 4
EPOCHS = 2


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    if why := missing():
        pytest.skip(f"Slurm cannot run here: {why}")
    cluster = None
    try:
        cluster = Slurm(tmp_path_factory.mktemp("slurm"))
        yield cluster
    finally:
        if cluster is not None:
            cluster.close()


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data") / "papers"
    run("generate", "--kind", "graph", folder, "--nodes", 6000)
    return folder


def page():
    """The commands of docs/guides/slurm.md."""
    text = (ROOT / "docs/guides/slurm.md").read_text()
    (block,) = re.findall(r"```sh\n(.*?)```", text, re.S)
    return block


@pytest.fixture
def submit(slurm, papers, tmp_path):
    """submit(folder, without="…") runs the commands of the page, with this machine's paths, a log,
    and steps that take time. Returns the job's number. Lines with `without` are left out."""

    def run_page(folder, without=None):
        (tmp_path / "train.yaml").write_text(json.dumps(PIPELINE))
        block = "".join(line for line in page().splitlines(keepends=True)
                        if without is None or without not in line)
        for shown, here in (("/data/papers", papers), ("$PWD/run", folder),
                            ("deploy/slurm/millrace.sbatch", SCRIPT), ("resume.py", TRAINER),
                            ("python3", sys.executable), ("train.yaml", tmp_path / "train.yaml"),
                            ("sbatch ", f"sbatch --output={folder}.log "),
                            ("--epochs", "--step-seconds 0.05 --epochs")):
            assert shown in block, shown
            block = block.replace(shown, str(here))
        programs = pathlib.Path(_binaries.path("millrace")).parent
        out = slurm.run("bash", "-euc", block, PATH=f"{programs}:{slurm.environment['PATH']}")
        return re.search(r"Submitted batch job (\d+)", out)[1]

    return run_page


def lines(folder):
    return sum(path.read_bytes().count(b"\n") for path in folder.glob("checkpoints/*/*.jsonl"))


def daemons(folder):
    """The processes of Millrace that a run has left, by their numbers."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            text = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "millraced" in text and str(folder) in text:
            found.append(int(path.parent.name))
    return found


def finished(slurm, job, folder):
    """Waits for the end of a job, and checks that it left nothing but its checkpoints."""
    log = folder.with_suffix(".log")
    wait_for(lambda: slurm.job(job)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"),
             lambda: f"{slurm.job(job)}\n{log.read_text()[-4000:]}\n{slurm.logs()}")
    assert slurm.job(job)["JobState"] == "COMPLETED", log.read_text()[-4000:]
    assert [path.name for path in folder.iterdir()] == ["checkpoints"]
    wait_for(lambda: not daemons(folder), "daemons are left")
    return log.read_text()


def check_every_example_once(papers, folder, tmp_path):
    pipeline = tmp_path / "train.yaml"
    logs = [f"--log={path}" for path in sorted(folder.glob("checkpoints/rank-*/delivered.jsonl"))]
    assert len(logs) == RANKS
    said = run("check-log", pipeline, "--dataset", f"papers={papers}", "--world-size", RANKS,
               "--epochs", EPOCHS, *logs)
    assert "each once an epoch" in said


def in_the_middle(slurm, job, folder):
    """Waits until every rank has written some lines."""
    log = folder.with_suffix(".log")

    def is_there():
        state = slurm.job(job)["JobState"]
        assert state in ("PENDING", "CONFIGURING", "RUNNING"), f"{state}: {log.read_text()[-4000:]}"
        logs = list(folder.glob("checkpoints/rank-*/delivered.jsonl"))
        return len(logs) == RANKS and all(path.stat().st_size > 0 for path in logs)

    wait_for(is_there, lambda: (log.read_text() if log.exists() else "") + slurm.logs())


def test_a_requeued_job_goes_on_from_its_checkpoints(slurm, papers, submit, tmp_path):
    folder = slurm.folder / "requeued"
    job = submit(folder)
    in_the_middle(slurm, job, folder)
    assert 0 < lines(folder) < 6000 // 16 * EPOCHS / 2
    slurm.run("scontrol", "requeue", job)
    wait_for(lambda: slurm.job(job)["JobState"] == "PENDING", lambda: str(slurm.job(job)))
    wait_for(lambda: not daemons(folder), "daemons of the first run are left")
    said = finished(slurm, job, folder)
    assert slurm.job(job)["Restarts"] == "1"
    assert said.count("sum of digests") == RANKS
    check_every_example_once(papers, folder, tmp_path)


def test_killed_daemons_are_started_again(slurm, papers, submit, tmp_path):
    folder = slurm.folder / "killed"
    job = submit(folder, without="MILLRACE_BEFORE")
    in_the_middle(slurm, job, folder)
    first = daemons(folder)
    assert len(first) == 3
    for process in first:
        os.kill(process, signal.SIGKILL)
    wait_for(lambda: len(set(daemons(folder)) - set(first)) == 3, "they do not come back")
    said = finished(slurm, job, folder)
    assert slurm.job(job)["Restarts"] == "0"
    assert said.count("dispatcher: starting") == 2 and said.count("worker: starting") == 4
    check_every_example_once(papers, folder, tmp_path)
