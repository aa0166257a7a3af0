"""Containers without a container engine: processes in namespaces of their own, on a read-only root,
as a user without rights. Needs root.

A container ends with the process that started it, however that ends: the kernel kills `unshare`
then, that kills the first process of the container, and with it the kernel ends all the others.
"""

import os
import pathlib
import shlex

from harness import wait_for
from machine import END_WITH_US, run

NAMESPACES = ["--mount", "--pid", "--uts", "--ipc", "--fork", "--kill-child"]


def as_user(user, environment):
    return ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs",
            "--bounding-set=-all", "env", "-i", *(f"{name}={value}" for name, value in environment.items())]


def script(root, user, words, environment, binds, tmpfs, hostname):
    """What the container's first process runs."""
    def at(target):
        return shlex.quote(str(root) + target)

    lines = ["set -e", "mount --make-rprivate /", f"mount --bind {at('')} {at('')}",
             f"mount -t proc proc {at('/proc')}", f"mount --rbind /dev {at('/dev')}"]
    if hostname:
        lines.append(f"hostname {shlex.quote(hostname)}")
    lines += [f"mount -t tmpfs -o mode=1777 tmpfs {at(target)}" for target in tmpfs]
    for source, target, writable in binds:
        lines.append(f"mount --bind {shlex.quote(str(source))} {at(target)}")
        if not writable:
            lines.append(f"mount -o remount,bind,ro {at(target)}")
    # The first process stays root and waits: a process forgets with whose end it has to end when its
    # user changes, so it must not become the program itself.
    program = shlex.join(map(str, [*as_user(user, environment), *words]))
    lines += [f"mount -o remount,bind,ro {at('')}", f"cd {at('')}", f"chroot . {program} || exit $?"]
    return "\n".join(lines)


def command(root, user, words, environment=None, binds=(), tmpfs=(), network=(), hostname=None):
    """The command that runs `words` in a container. Each of `binds` is (SOURCE, TARGET, WRITABLE).
    `network` is a command that runs what follows it in a network namespace; none: this one."""
    text = script(root, user, words, environment or {}, binds, tmpfs, hostname)
    return [*END_WITH_US, *network, "unshare", *NAMESPACES, "bash", "-c", text]


def children(pid):
    return pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def program_of(starter, user):
    """The id, outside of the container, of the program that runs there as `user`. `starter` is the
    id of the process that `command` began."""
    def find():
        for first in children(starter):
            for program in children(first):
                try:
                    status = pathlib.Path(f"/proc/{program}/status").read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue  # a program that makes the container ready, and has ended
                if f"Uid:\t{user}\t" in status and "Name:\tsetpriv" not in status and "Name:\tenv" not in status:
                    return int(program)
        return None
    return wait_for(find, "the container does not start")


def execute(program, user, words, environment, **options):
    """Runs a command in the container of `program`, as `docker exec` does."""
    return run("nsenter", "-t", program, "-m", "-p", "-n", "-u", "-i", "-r", "-w",
               *as_user(user, environment), *words, **options)


def namespace_of(program):
    """Names the container of `program`, also after its end: by its namespace of processes."""
    return os.readlink(f"/proc/{program}/ns/pid")


def processes_in(namespace):
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(entry / "ns/pid") == namespace:
                found.append(entry.name)
        except OSError:  # it has ended
            continue
    return found
