"""The example trains. After it was killed, it goes on bit for bit where it was."""

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


def kill(process):
    """Kills a process and all its children. torchrun's ranks have process groups of their own."""
    parents = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            pass  # the process has ended meanwhile
    family = [process.pid]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    for pid in family:
        os.kill(pid, signal.SIGKILL)
    process.wait()
    process.stdout.read()  # returns when the last process has ended
    process.stdout.close()


@pytest.mark.parametrize("ranks, local", [(1, False), (2, False), (1, True)])
def test_a_killed_training_goes_on_with_the_same_losses(dataset, server, tmp_path, ranks, local):
    """The training is killed with no warning and resumed from its checkpoint. Each loss equals, bit
    for bit, that of a training that nothing disturbed."""
    def arguments(name, epochs=2):
        at = ["--local", dataset] if local else ["--address", server.address, "--job",
                                                 f"{name}-{ranks}"]
        return [*at, "--epochs", epochs, "--losses", tmp_path / name, "--batch-size", 8]

    report = finish(start(ranks, *arguments("whole")))
    assert "waiting for batches" in report
    whole = {(line["epoch"], line["step"]): line["loss"] for line in lines(tmp_path / "whole")}
    assert len(set(whole.values())) > len(whole) / 2
    resuming = [*arguments("killed"), "--checkpoint", tmp_path / "checkpoint"]
    killed = start(ranks, *resuming)
    end = time.monotonic() + 120
    while len(lines(tmp_path / "killed")) < 12 and time.monotonic() < end:
        assert killed.poll() is None, killed.communicate()[0][-3000:]
        time.sleep(0.01)
    kill(killed)
    before = lines(tmp_path / "killed")
    assert 12 <= len(before) < len(whole)
    finish(start(ranks, *resuming))
    after = lines(tmp_path / "killed")[len(before):]
    for line in before + after:
        assert whole[line["epoch"], line["step"]] == line["loss"], line
    # It went on at the step after the checkpoint, which is written every five steps, and did all
    # other steps.
    assert before[-1]["step"] - 5 <= after[0]["step"] <= before[-1]["step"] + 1
    assert after[0]["step"] % 5 == 0 < after[0]["step"]
    assert [(line["epoch"], line["step"]) for line in after] == sorted(whole)[-len(after):]


def test_local_gives_the_same_losses(dataset, server, tmp_path):
    finish(start(1, "--address", server.address, "--job", "far", "--losses", tmp_path / "far"))
    finish(start(1, "--local", dataset, "--losses", tmp_path / "near"))
    assert lines(tmp_path / "far") == lines(tmp_path / "near") != []
