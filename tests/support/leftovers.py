"""One run of tests: the mark that its processes carry, the folders that they write to, and what
they leave behind.

Nothing of another run is blamed. A process belongs to the run if its environment has the run's
mark, whoever its parent is by now. Mounts count below the run's own folders. Named segments of
shared memory and named namespaces have no owner in the kernel: they count if they are new, belong
to this user, and no process outside the run uses them.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid

MARK = "MILLRACE_TEST_RUN"
# A folder in memory for the tests' own files, so that they do not lie in /dev/shm itself.
MEMORY = "MILLRACE_TEST_MEMORY"
# Tests say by these which of them starts a process.
NAMES = ("MILLRACE_TEST", "PYTEST_CURRENT_TEST")
SECONDS_TO_END = 5  # for processes that have been told to, or whose parent has just ended
SHARED_MEMORY = pathlib.Path("/dev/shm")
NAMED_NETWORKS = pathlib.Path("/run/netns")
KINDS_OF_NAMESPACES = ("net", "mnt", "pid", "ipc")


class Process:
    """A process that carries the run's mark."""

    def __init__(self, pid, environment):
        self.pid = pid
        self.folder = pathlib.Path("/proc") / str(pid)
        self.test = next((environment[name] for name in NAMES if name in environment), "")

    def describe(self):
        words = (self.folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
        told = [f"in {os.readlink(self.folder / 'cwd')}"]
        if self.test:
            told.append(f"started by the test '{self.test}'")
        own = [kind for kind in KINDS_OF_NAMESPACES
               if os.readlink(self.folder / "ns" / kind) != os.readlink(f"/proc/self/ns/{kind}")]
        if own:
            told.append(f"in namespaces of its own: {', '.join(own)}")
        return f"process {self.pid}: {' '.join(words).strip()[:200]} ({'; '.join(told)})"


def pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def mount_points():
    lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    return [pathlib.Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), line.split()[4]))
            for line in lines]


def files_in(folder):
    """Names of what lies in `folder`; none if it is not there."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def system_v_segments():
    """The creator's user and process of each segment, by its number."""
    try:
        lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()
    except OSError:
        return {}
    columns = lines[0].split()
    rows = (dict(zip(columns, map(int, line.split()))) for line in lines[1:])
    return {row["shmid"]: (row["cuid"], row["cpid"]) for row in rows}


class Run:
    """What a run of tests may use, from its beginning to its end."""

    def __init__(self, build):
        self.mark = uuid.uuid4().hex
        self._watched = [build.resolve(), self._make_folder(tempfile.gettempdir())]
        variables = {"TMPDIR": self._watched[-1]}
        memory = os.environ.get(MEMORY, SHARED_MEMORY)
        if os.access(memory, os.W_OK):
            self._watched.append(self._make_folder(memory))
            variables[MEMORY] = self._watched[-1]
        # A run inside a test of another run belongs to both.
        outer = os.environ.get(MARK)
        variables[MARK] = f"{outer}/{self.mark}" if outer else self.mark
        os.environ.update({name: str(value) for name, value in variables.items()})
        self._mounts = set(mount_points())
        self._segments = files_in(SHARED_MEMORY)
        self._system_v = set(system_v_segments())
        self._networks = files_in(NAMED_NETWORKS)

    @staticmethod
    def _make_folder(parent):
        # The name is short, because the paths of sockets are.
        folder = pathlib.Path(tempfile.mkdtemp(prefix="mr-", dir=parent)).resolve()
        folder.chmod(0o1777)
        return folder

    def processes(self):
        found = []
        for pid in pids():
            try:
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:  # it has ended, or is another user's
                continue
            pairs = dict(pair.partition("=")[::2]
                         for pair in environment.decode(errors="replace").split("\0"))
            if pid != os.getpid() and self.mark in pairs.get(MARK, "").split("/"):
                found.append(Process(pid, pairs))
        return found

    def _wait_until_no_process(self):
        """Returns those that are still there after a while."""
        end = time.monotonic() + SECONDS_TO_END
        while (found := self.processes()) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def end_processes(self):
        """Ends all processes of the run. They may clean up after SIGINT, but not for long."""
        for number in (signal.SIGINT, signal.SIGKILL):
            for process in self.processes():
                try:
                    os.kill(process.pid, signal.SIGCONT)
                    os.kill(process.pid, number)
                except ProcessLookupError:
                    pass
            self._wait_until_no_process()

    def take_away_leftovers(self):
        """Ends and removes what the run has left; returns a line for each such thing."""
        lines = [*self._take_processes(), *self._take_networks(), *self._take_mounts(),
                 *self._take_segments()]
        below = {folder for folder in self._watched[1:] for point in mount_points()
                 if point.is_relative_to(folder)}
        for folder in self._watched[1:]:
            if folder not in below:  # whatever is mounted there is not the run's to delete
                shutil.rmtree(folder, ignore_errors=True)
        return lines

    def _take_processes(self):
        lines = []
        for process in self._wait_until_no_process():
            try:
                lines.append(process.describe())
            except OSError:  # it has ended after all
                pass
        self.end_processes()
        return lines

    def _take_segments(self):
        lines = []
        for folder in self._watched[2:]:
            for path in sorted(folder.iterdir()):
                if not path.is_dir() or any(not file.is_dir() for file in path.rglob("*")):
                    lines.append(f"shared memory: {path}")
        for name in sorted(files_in(SHARED_MEMORY) - self._segments):
            path = SHARED_MEMORY / name
            if path.is_file() and path.stat().st_uid == os.getuid() and not self._others_use(path):
                lines.append(f"shared memory: {path}")
                path.unlink()
        for number, (user, creator) in system_v_segments().items():
            if (number not in self._system_v and user == os.getuid()
                    and not pathlib.Path(f"/proc/{creator}").exists()):
                lines.append(f"shared memory of System V: number {number}, of process {creator}")
                subprocess.run(["ipcrm", "--shmem-id", str(number)], check=False)
        return lines

    def _take_networks(self):
        lines = []
        for name in sorted(files_in(NAMED_NETWORKS) - self._networks):
            if not self._others_are_in(NAMED_NETWORKS / name):
                lines.append(f"network namespace: {name}")
                subprocess.run(["ip", "netns", "delete", name], check=False)
        return lines

    def _take_mounts(self):
        lines = []
        for point in reversed(mount_points()):
            if point not in self._mounts and any(point.is_relative_to(f) for f in self._watched):
                lines.append(f"mount: {point}")
                subprocess.run(["umount", "--lazy", point], check=False)
        return lines

    def _others(self):
        ours = {process.pid for process in self.processes()} | {os.getpid()}
        return [pathlib.Path(f"/proc/{pid}") for pid in pids() if pid not in ours]

    def _others_use(self, path):
        for process in self._others():
            try:
                open_files = [os.readlink(fd) for fd in (process / "fd").iterdir()]
                if str(path) in open_files or f" {path}\n" in (process / "maps").read_text():
                    return True
            except OSError:
                continue
        return False

    def _others_are_in(self, network):
        for process in self._others():
            try:
                if (process / "ns" / "net").stat().st_ino == network.stat().st_ino:
                    return True
            except OSError:
                continue
        return False
