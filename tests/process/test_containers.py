"""The containers of tests end with their tests."""

import sys

from container import command, namespace_of, processes_in, program_of
from harness import check, cluster, wait_for
from machine import need
from test_streams import DATA

NOBODY = "65534"


def bare_root(folder):
    """A root with the programs of this machine."""
    root = folder / "root"
    for name in ("proc", "dev", "usr"):
        (root / name).mkdir(parents=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    folder.chmod(0o755)
    return root


def sleeper(c):
    return command(bare_root(c.folder), NOBODY, ["sleep", "3600"], {"PATH": "/usr/bin"},
                   binds=[("/usr", "/usr", False)])


def check_it_is_over(namespace):
    wait_for(lambda: not processes_in(namespace), "processes of the container are left")


def test_a_container_of_a_test_ends_with_the_program_that_it_began_with():
    need("unshare", "setpriv")
    with cluster(DATA) as c:
        container = c.start("container", *sleeper(c))
        namespace = namespace_of(program_of(container.popen.pid, NOBODY))
        check(len(processes_in(namespace)) == 2, "the first process, and the program")
        container.kill()
        check_it_is_over(namespace)


# Starts the command that is given, says which process it is, and waits.
TEST = "import subprocess, sys; p = subprocess.Popen(sys.argv[1:]); print(p.pid, flush=True); p.wait()"


def test_a_container_of_a_test_ends_if_the_test_is_killed():
    need("unshare", "setpriv")
    with cluster(DATA) as c:
        killed = c.start("test", sys.executable, "-c", TEST, *sleeper(c))
        began = wait_for(killed.text, "the test starts nothing", killed.popen)
        namespace = namespace_of(program_of(int(began), NOBODY))
        killed.kill()
        check_it_is_over(namespace)
