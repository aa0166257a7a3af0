"""Programs that train and write a line for each step: started, killed and resumed."""

import json
import os
import pathlib
import signal
import subprocess
import sys

from patience import tries


def lines(path):
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[:text.rfind("\n") + 1].splitlines()]


def command(program, ranks, *arguments):
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port",
                     "0", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    return [*launcher, str(program), *map(str, arguments)]


def start(program, ranks, *arguments):
    return subprocess.Popen(command(program, ranks, *arguments), start_new_session=True,
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


def check_that_it_goes_on(program, ranks, arguments, folder):
    """The training is killed with no warning and resumed from its checkpoint, which it writes every
    five steps. Each loss equals, bit for bit, that of a training that nothing disturbed. Returns
    what that one printed. arguments(name): those of the training of that name."""
    report = finish(start(program, ranks, *arguments("whole"), "--losses", folder / "whole"))
    whole = {(line["epoch"], line["step"]): line["loss"] for line in lines(folder / "whole")}
    assert len(set(whole.values())) > len(whole) / 2
    resuming = [*arguments("killed"), "--losses", folder / "killed", "--checkpoint",
                folder / "checkpoint"]
    killed = start(program, ranks, *resuming)
    for _ in tries(pause=0.01):
        if len(lines(folder / "killed")) >= 12:
            break
        assert killed.poll() is None, killed.communicate()[0][-3000:]
    kill(killed)
    before = lines(folder / "killed")
    assert 12 <= len(before) < len(whole)
    finish(start(program, ranks, *resuming))
    after = lines(folder / "killed")[len(before):]
    for line in before + after:
        assert whole[line["epoch"], line["step"]] == line["loss"], line
    # It went on at the step after the checkpoint, and did all other steps.
    assert before[-1]["step"] - 5 <= after[0]["step"] <= before[-1]["step"] + 1
    assert after[0]["step"] % 5 == 0 < after[0]["step"]
    assert [(line["epoch"], line["step"]) for line in after] == sorted(whole)[-len(after):]
    return report
