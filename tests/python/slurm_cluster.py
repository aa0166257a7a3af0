"""A cluster of Slurm on this machine: munge, slurmctld and a slurmd a node, in one folder."""

import os
import shutil
import socket
import subprocess

import pytest
from patience import tries

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue")
NODES = ("node0", "node1")


def missing():
    """Why Slurm cannot run here; empty if it can."""
    gone = [name for name in PROGRAMS if shutil.which(name, path=_path()) is None]
    if gone:
        return f"not installed: {', '.join(gone)}"
    return "" if os.geteuid() == 0 else "slurmd needs root"


def _path():
    return f"{os.environ['PATH']}:/usr/sbin"


def wait_for(condition, what):
    for _ in tries(pause=0.1):
        if found := condition():
            return found
    pytest.fail(what() if callable(what) else what)


def _free_ports(count):
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


class Slurm:
    """Two nodes of eight CPUs each, which are this machine."""

    def __init__(self, folder):
        self.folder = folder
        self._processes = []
        os.chmod(folder, 0o755)
        self._socket = folder / "munge" / "socket"
        (folder / "munge").mkdir(mode=0o755)
        key = folder / "munge" / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        self.environment = {**os.environ, "PATH": _path(), "SLURM_CONF": str(folder / "slurm.conf")}
        self._write_configuration()
        self._start("munged", "--foreground", "--force", f"--key-file={key}",
                    f"--socket={self._socket}", f"--pid-file={folder}/munge/pid",
                    f"--seed-file={folder}/munge/seed", f"--log-file={folder}/munge/log")
        wait_for(self._socket.exists, self.logs)
        self._start("slurmctld", "-D")
        for node in NODES:
            self._start("slurmd", "-D", "-N", node)
        states = ("sinfo", "--noheader", "--format=%T")
        wait_for(lambda: self.run(*states).split() == ["idle"], self.logs)

    def _write_configuration(self):
        control, *nodes = _free_ports(1 + len(NODES))
        host = socket.gethostname().split(".")[0]
        for name in ("state", *NODES):
            (self.folder / name).mkdir()
        # A job that is requeued waits until its old credential has ended: cred_expire.
        (self.folder / "slurm.conf").write_text(f"""ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={control}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={self._socket},cred_expire=5
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/%n
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/slurmctld.log
SlurmdLogFile={self.folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
KillWait=5
ReturnToService=2
""" + "".join(f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8\n"
              for node, port in zip(NODES, nodes))
            + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n")

    def _start(self, program, *arguments):
        with open(self.folder / f"{program}-{len(self._processes)}.out", "wb") as out:
            self._processes.append(subprocess.Popen(
                [shutil.which(program, path=_path()), *map(str, arguments)], env=self.environment,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def run(self, *command, **variables):
        """The output of one of Slurm's commands."""
        done = subprocess.run(list(map(str, command)), env={**self.environment, **variables},
                              cwd=self.folder, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}\n{self.logs()}"
        return done.stdout

    def job(self, number):
        """What `scontrol show job` says, as a dict."""
        text = self.run("scontrol", "show", "job", number)
        return dict(word.split("=", 1) for word in text.split() if "=" in word)

    def logs(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.folder.iterdir())
                         if path.suffix in (".log", ".out") and path.is_file())

    def close(self):
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
