"""A bare Debian that boots systemd in namespaces of its own, for tests of packages and units.

Its root is a folder that mmdebstrap has made (kept as an archive in the build folder), its network
has loopback only, and it ends with the test. Needs root, and Debian's mirror.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from harness import Failure, Skipped, check, wait_for

BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD_DIR", "/nonexistent"))
SOURCE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
KEPT = BUILD / "tests" / "machine"
SECONDS = 300  # for a command; some download packages
# Before a command: the kernel kills it when the process that started it ends, however that ends.
END_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
# The same for a command with all processes that it starts, and with what it mounts.
ALL_END_WITH_US = [*END_WITH_US, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
BOOT = """set -e
mount --make-rprivate /
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
mount -t tmpfs -o mode=755 tmpfs run
mount -t cgroup2 cgroup2 sys/fs/cgroup
ip link set lo up
pivot_root . mnt
umount -l /mnt
# systemd hands credentials over through mounts that its units see.
mount --make-rshared /
exec env -i container=millrace PATH=""" + PATH + """ /lib/systemd/systemd
"""


def need(*programs):
    """Skips the test unless this is root with these programs."""
    if os.geteuid() != 0:
        raise Skipped("machines of their own need root")
    for program in programs:
        if shutil.which(program) is None:
            raise Skipped(f"no {program} here: deploy/install-deps --deploy installs it")


def run(*command, expect=0, seconds=SECONDS, **options):
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=seconds, check=False, **options)
    check(expect is None or done.returncode == expect,
          f"{' '.join(map(str, command))}: exit code {done.returncode}, expected {expect}\n"
          f"{done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done


def made_once(path, make):
    """The file `path` of the build folder, made by make(PATH) unless it is there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path.with_name(path.name + ".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            partial = path.with_name("partial-" + path.name)
            make(partial)
            partial.rename(path)
    return path


def base_archive():
    return made_once(KEPT / "debian.tar", lambda path: run(
        *ALL_END_WITH_US, "mmdebstrap", "--quiet", "--variant=minbase",
        "--include=systemd,systemd-sysv,iproute2,procps,adduser", "bookworm", path, seconds=900))


def make_packages(folder, *components, version=None):
    """Makes the packages of this build in `folder`, which ends with the test."""
    folder.mkdir(exist_ok=True)
    extra = [f"-DCPACK_COMPONENTS_ALL={';'.join(components)}"] if components else []
    if version is not None:
        extra.append(f"-DCPACK_DEBIAN_PACKAGE_VERSION={version}")
    run("cpack", "-G", "DEB", "-B", folder, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip",
        *(word for option in extra for word in ("-D", option[2:])), cwd=BUILD)
    shutil.rmtree(folder / "_CPack_Packages")
    return sorted(folder.glob("*.deb"))


def make_image(packages, archive):
    """Makes the image's archive, in whose folder also its working files lie."""
    archive.parent.chmod(0o755)
    run(*ALL_END_WITH_US, SOURCE / "docker" / "build", packages, archive, seconds=1500,
        env={**os.environ, "TMPDIR": str(archive.parent)})


class Machine:
    """A machine that has booted."""

    def __init__(self, folder):
        self.root = folder / "root"
        self.root.mkdir()
        run("tar", "-xpf", base_archive(), "-C", self.root)
        shutil.copy("/etc/resolv.conf", self.root / "etc" / "resolv.conf")
        # It looks for volumes of the host, and that can take long.
        (self.root / "etc/systemd/system/e2scrub_reap.service").symlink_to("/dev/null")
        self._log = open(folder / "boot.log", "wb")
        self._unshare = subprocess.Popen(
            [*END_WITH_US, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--uts", "--ipc",
             "--net", "--cgroup", "bash", "-c", BOOT, "boot", self.root],
            stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT,
            start_new_session=True)
        try:
            self._init = wait_for(self._find_init, "systemd does not start", self._unshare)
            # "degraded" would mean that a unit of Debian's failed, before the test began.
            wait_for(lambda: self.run("systemctl", "is-system-running", expect=None).stdout.strip()
                     == "running", "the machine does not get up", self._unshare)
        except Exception:
            self.close()
            raise

    def _find_init(self):
        children = pathlib.Path(f"/proc/{self._unshare.pid}/task/{self._unshare.pid}/children")
        for child in children.read_text().split():
            if os.readlink(f"/proc/{child}/exe").endswith("/systemd"):
                return child
        return None

    def _enter(self, command, network, user):
        namespaces = ["-m", "-p", "-u", "-i", "-C", *([] if network else ["-n"])]
        words = ["nsenter", "-t", self._init, *namespaces, "-r", "-w", "env", "-i", f"PATH={PATH}",
                 "DEBIAN_FRONTEND=noninteractive", "HOME=/root"]
        if user is not None:
            words += ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
        return [*words, *map(str, command)]

    def run(self, *command, network=False, user=None, **options):
        """Runs a command in the machine; with `network` it has that of the host."""
        return run(*self._enter(command, network, user), **options)

    def shell(self, line, **options):
        return self.run("bash", "-euc", line, **options)

    def start(self, name, *command, user=None):
        """Starts a command in the machine. It ends with the machine at the latest."""
        log = open(self.root.parent / f"{name}.log", "wb")
        return subprocess.Popen(self._enter(command, False, user), stdin=subprocess.DEVNULL,
                                stdout=log, stderr=subprocess.STDOUT)

    def text(self, name):
        return (self.root.parent / f"{name}.log").read_text(errors="replace")

    def install(self, packages, update=True):
        """Installs packages as `apt install ./…` does, with what they depend on."""
        for package in packages:
            shutil.copy(package, self.root / "root" / package.name)
        if update:
            self.run("apt-get", "update", "-q", network=True)
        return self.run("apt-get", "install", "-q", "-y", "--no-install-recommends",
                        *(f"/root/{package.name}" for package in packages), network=True)

    def journal(self, unit):
        return self.run("journalctl", "--no-pager", "-u", unit).stdout

    def close(self):
        self._unshare.send_signal(signal.SIGKILL)
        self._unshare.wait()
        self._log.close()


@contextlib.contextmanager
def machine():
    """A fresh machine. Its last words are printed if the test fails."""
    need("mmdebstrap", "unshare", "nsenter", "setpriv", "cpack", "dpkg-shlibdeps")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-machine-"))
    made = None
    try:
        made = Machine(folder)
        yield made
    except Exception as error:
        if made is not None and isinstance(error, Failure):
            for unit in ("millrace-serve", "millrace-dispatcher", "millrace-worker"):
                said = made.run("journalctl", "--no-pager", "-n", "30", "-u", unit, expect=None).stdout
                print(f"--- {unit}\n{said[-4000:]}")
        for log in folder.glob("*.log"):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-2000:]}")
        raise
    finally:
        if made is not None:
            made.close()
        shutil.rmtree(folder, ignore_errors=True)
