"""Docker's daemon and its client in namespaces of their own, from Debian 13, which has a newer one
than the machine that runs the tests. Its network has loopback only, so that it pulls no images and
its ports meet nobody else's. It ends with the test. Needs root, and Debian's mirror.
"""

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from container import children
from harness import Failure, wait_for
from machine import ALL_END_WITH_US, END_WITH_US, KEPT, PATH, made_once, need, run

SECONDS = 900  # for a command; loading an image takes minutes on a busy machine
BOOT = """set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs sysfs sys
mount --rbind /sys/fs/cgroup sys/fs/cgroup
mount --rbind /dev dev
mount -t tmpfs -o mode=755 tmpfs run
ip link set lo up
pivot_root . mnt
umount -l /mnt
env -i PATH=""" + PATH + """ dockerd --cgroup-parent "$2" || exit $?
"""


def archive():
    return made_once(KEPT / "docker.tar", lambda path: run(
        *ALL_END_WITH_US, "mmdebstrap", "--quiet", "--variant=minbase",
        "--include=docker.io,docker-cli,docker-compose,iptables,iproute2,prometheus", "trixie", path,
        seconds=900))


class DockerMachine:
    """A daemon that answers."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.root.mkdir()
        run("tar", "-xpf", archive(), "-C", self.root)
        self._cgroup = f"millrace-{os.getpid()}"
        self.log = folder / "dockerd.log"
        with self.log.open("wb") as log:
            self._unshare = subprocess.Popen(
                [*END_WITH_US, "unshare", "--mount", "--pid", "--net", "--uts", "--ipc", "--fork", "--kill-child",
                 "bash", "-c", BOOT, "boot", self.root, self._cgroup],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_for(lambda: children(self._unshare.pid), "no first process", self._unshare)
            [self._first] = children(self._unshare.pid)
            wait_for(lambda: (self.root / "usr").exists() and self.run(
                "docker", "info", expect=None).returncode == 0, "dockerd does not answer", self._unshare)
        except BaseException:
            self.close()
            raise

    def run(self, *command, **options):
        """Runs a command on the machine."""
        return run("nsenter", "-t", self._first, "-m", "-p", "-n", "-u", "-i", "-r", "-w", "env", "-i",
                   f"PATH={PATH}", "HOME=/root", *command, **{"seconds": SECONDS, **options})

    def shell(self, line, **options):
        return self.run("bash", "-euc", line, **options)

    def at_its_network(self, *command, **options):
        """Runs a program of this machine where the other one has its ports."""
        return run("nsenter", "-t", self._first, "-n", *command, **options)

    def close(self):
        self._unshare.kill()
        self._unshare.wait()
        # Empty groups of processes stay otherwise, as after any container that was killed.
        for folder in sorted(pathlib.Path("/sys/fs/cgroup").glob(f"**/{self._cgroup}/**/"), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def docker_machine():
    """A fresh one. The end of the daemon's log is printed if the test fails."""
    need("mmdebstrap", "unshare", "nsenter", "setpriv")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-docker-"))
    made = None
    try:
        made = DockerMachine(folder)
        yield made
    except Failure:
        print(f"--- dockerd\n{(folder / 'dockerd.log').read_text(errors='replace')[-3000:]}")
        raise
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder, ignore_errors=True)
