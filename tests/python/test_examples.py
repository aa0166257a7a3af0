"""The example trains, and goes on bit for bit where it was killed."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

import millrace

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

EXAMPLE = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"]) / "client/python/examples/tactics.py"


def lines(path):
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def command(ranks, *arguments):
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
                     "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    return [*launcher, str(EXAMPLE), *map(str, arguments)]


def start(ranks, *arguments):
    return subprocess.Popen(command(ranks, *arguments), start_new_session=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def finish(process):
    out, _ = process.communicate(timeout=240)
    assert process.returncode == 0, out[-3000:]
    return out


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_training_goes_on_with_the_same_losses(dataset, server, tmp_path, ranks):
    def arguments(name):
        return ["--address", server.address, "--job", f"{name}-{ranks}", "--epochs", 2,
                "--losses", tmp_path / name, "--batch-size", 8]

    report = finish(start(ranks, *arguments("whole")))
    assert "waiting for batches" in report
    whole = {(line["epoch"], line["step"]): line["loss"] for line in lines(tmp_path / "whole")}
    killed = start(ranks, *arguments("killed"), "--checkpoint", tmp_path / "checkpoint")
    end = time.monotonic() + 120
    while len(lines(tmp_path / "killed")) < 12 and time.monotonic() < end:
        assert killed.poll() is None, killed.communicate()[0][-3000:]
        time.sleep(0.01)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    killed.stdout.close()
    before = len(lines(tmp_path / "killed"))
    finish(start(ranks, *arguments("killed"), "--checkpoint", tmp_path / "checkpoint"))
    resumed = lines(tmp_path / "killed")
    assert 12 <= before < len(whole)
    for line in resumed:
        assert whole[line["epoch"], line["step"]] == line["loss"], line
    assert {(line["epoch"], line["step"]) for line in resumed} == set(whole)
    # At most the steps since the last checkpoint were done twice.
    assert len(resumed) - len(whole) <= 5


def test_local_gives_the_same_losses(dataset, server, tmp_path):
    finish(start(1, "--address", server.address, "--job", "far", "--losses", tmp_path / "far"))
    finish(start(1, "--local", dataset, "--losses", tmp_path / "near"))
    assert lines(tmp_path / "far") == lines(tmp_path / "near") != []
