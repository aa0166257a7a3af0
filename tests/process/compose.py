"""docker/compose.yaml without docker: its services as containers of tests/process/container.py, each
with a network of its own, with the programs of this build on the files of this machine.

The commands, variables, users, mounts and names are those of compose.yaml and of docker/Dockerfile.
What an engine would do besides, such as ports on the host, restarts and waiting for other services,
is not done here. Needs root.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import stat

from container import command, execute, program_of
from harness import Skipped, binary, check, cluster, wait_for
from machine import END_WITH_US, need, run
from prometheus import read_yaml

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
FOLDER = ROOT / "docker"
# The users and the programs of images that are not made here.
OTHERS = {"prometheus": ("65534", ["prometheus"])}
# `docker compose` gives each service that is not a trainer its own number on this network.
NETWORK = "10.77.0."
# In a network of its own: brings it up, and connects it to the bridge of the process $1.
CONNECT = """set -e
holder=$1 peer=$2 address=$3
shift 3
ip link set lo up
ip link add name eth0 type veth peer name "$peer" netns "$holder"
ip address add "$address/24" dev eth0
ip link set eth0 up
nsenter -t "$holder" -n ip link set "$peer" master bridge up
exec "$@"
"""
BRIDGE = """set -e
ip link set lo up
ip link add name bridge type bridge
ip address add {address}/24 dev bridge
ip link set bridge up
echo up
exec sleep infinity
"""


def compose():
    return read_yaml(FOLDER / "compose.yaml")


def interpolated(text, variables):
    """The text with variables in place of ${NAME:?ERROR} and ${NAME:-VALUE}."""
    def value(match):
        name, kind, rest = match.groups()
        return variables[name] if kind == "?" else variables.get(name, rest)
    return re.sub(r"\$\{(\w+):([?-])([^}]*)\}", value, text).replace("$$", "$")


def dockerfile():
    """What docker/Dockerfile says about every container: user, variables, what runs."""
    text = (FOLDER / "Dockerfile").read_text()
    environment = dict(re.findall(r"(\w+)=(\S+)", re.search(r"^ENV (.*)$", text, re.M)[1]))
    return {"user": re.search(r"^USER (\d+):", text, re.M)[1], "environment": environment,
            "entrypoint": [re.search(r'^ENTRYPOINT \["(\w+)"\]$', text, re.M)[1]]}


class Fleet:
    """Services of compose.yaml, and the volumes and the network that they have together."""

    def __init__(self, c, dataset):
        self.c = c
        self.dataset = dataset
        self.services = compose()["services"]
        self.image = dockerfile()
        self.addresses = {}  # by name
        self._volumes = c.folder / "volumes"
        self._volumes.mkdir()
        # Others than root have to get through to the volumes.
        c.folder.chmod(0o755)
        self._programs = c.folder / "programs"
        self._programs.mkdir()
        for program, of in (("millrace", "cli"), ("millraced", "daemon")):
            shutil.copy(binary(of), self._programs / program)
        self._holder = c.start("bridge", *END_WITH_US, "unshare", "--net", "bash", "-c",
                               BRIDGE.format(address=f"{NETWORK}1"))
        try:
            wait_for(lambda: "up" in self._holder.text(), "no bridge", self._holder.popen)
        except AssertionError:
            raise Skipped(f"this kernel makes no bridge: {self._holder.text().strip()}") from None

    # --- as docker would do it ---

    def start(self, service, number=1, network=None, replace=()):
        """Starts a container of the service. `network` is the program of another container, which it
        shares the network with; `replace` are files to mount in place of others, by their targets."""
        made = self.services[service]
        name = f"{service}-{number}"
        user, entrypoint, environment = self.user(service), self._entrypoint(service), self.environment(service)
        words = [*entrypoint, *(self._text(word) for word in made.get("command", []))]
        root = self._root(name, made)
        binds = [("/usr", "/usr", False), (self._programs, "/opt/millrace", False),
                 *self._mounts(made, user, dict(replace))]
        for source, target, _ in binds:
            self._make_mount_point(root, source, target)
        for target in made.get("tmpfs", []):
            self._make_mount_point(root, root, target)
        if made.get("network_mode") == "none":
            network = ["unshare", "--net"]
        elif network is not None:
            network = ["nsenter", "-t", str(network), "-n"]
        else:
            network = self._connected(name)
        hostname = made.get("hostname", name)
        self._write_hosts(root, name, hostname)
        return self.c.start(name, *command(root, user, words, environment, binds, made.get("tmpfs", []),
                                           network, hostname))

    def user(self, service):
        return OTHERS[service][0] if service in OTHERS else self.image["user"]

    def environment(self, service):
        made = self.services[service]
        of_image = {} if service in OTHERS else self.image["environment"]
        return {"PATH": "/opt/millrace:/usr/bin:/bin", **of_image, **made.get("environment", {})}

    def program(self, service, process):
        return program_of(process.popen.pid, self.user(service))

    def healthy(self, service, process):
        """The exit code of the service's health check, in its container."""
        kind, *words = self.services[service]["healthcheck"]["test"]
        check(kind == "CMD", f"{service}: a health check of the kind {kind}")
        return execute(self.program(service, process), self.user(service), words,
                       self.environment(service), expect=None).returncode

    def on_the_host(self, *words, **options):
        """Runs a command where the bridge is: a host reaches its containers."""
        return run("nsenter", "-t", self._holder.popen.pid, "-n", *words, **options)

    def get(self, url):
        """The JSON that a server of the fleet answers."""
        code = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
        return json.loads(self.on_the_host("/usr/bin/python3", "-c", code, url).stdout)

    def volume(self, name):
        return self._volumes / name

    # --- parts of it ---

    def _entrypoint(self, service):
        of_image = OTHERS[service][1] if service in OTHERS else self.image["entrypoint"]
        return [self._text(word) for word in self.services[service].get("entrypoint", of_image)]

    def _text(self, word):
        return interpolated(word, {"MILLRACE_DATASET": str(self.dataset)})

    def _root(self, name, made):
        check(made["read_only"] is True, f"{name} writes to its root")
        root = self.c.folder / f"root-{name}"
        for folder in ("proc", "dev", "usr", "etc"):
            (root / folder).mkdir(parents=True)
        for link in ("bin", "sbin", "lib", "lib64"):
            (root / link).symlink_to(f"usr/{link}")
        for file in ("ld.so.cache", "nsswitch.conf"):
            shutil.copy(f"/etc/{file}", root / "etc" / file)
        return root

    def _write_hosts(self, root, own, hostname):
        lines = ["127.0.0.1 localhost"]
        for name, address in self.addresses.items():
            service = name.rsplit("-", 1)[0]
            lines.append(f"{address} {hostname}" if name == own else f"{address} {name} {service}")
        (root / "etc" / "hosts").write_text("\n".join(lines) + "\n")

    def _connected(self, name):
        """The command that runs what follows it in a network of its own, on the bridge."""
        self.addresses[name] = address = f"{NETWORK}{len(self.addresses) + 2}"
        return ["unshare", "--net", "bash", "-c", CONNECT, "connect", str(self._holder.popen.pid),
                f"peer{len(self.addresses)}", address]

    def _mounts(self, made, user, replace):
        for mount in made.get("volumes", []):
            if isinstance(mount, dict):
                check(mount["type"] == "bind" and mount["read_only"] is True, f"{mount}")
                yield self._text(mount["source"]), mount["target"], False
                continue
            source, target, *mode = interpolated(mount, {}).split(":")
            writable = mode != ["ro"]
            if target in replace:
                yield replace[target], target, False
            elif source.startswith("."):
                check(not writable, f"{mount}: a part of the checkout can be written")
                yield (FOLDER / source).resolve(), target, False
            else:
                yield self._volume(source, user), target, writable

    def _volume(self, name, user):
        check(name in compose()["volumes"], f"no volume {name}")
        folder = self._volumes / name
        if not folder.exists():
            folder.mkdir()
            # As a new volume gets the owner and the mode of the image's folder.
            folder.chmod(0o700)
            os.chown(folder, int(user), int(user))
        return folder

    def _make_mount_point(self, root, source, target):
        at = root / target.lstrip("/")
        # A volume may lie in another one: then its mount point has to be there.
        for volume_target, volume in self._nested(root, target):
            at = volume / target.removeprefix(volume_target).lstrip("/")
        if pathlib.Path(source).is_dir():
            at.mkdir(parents=True, exist_ok=True)
        else:
            at.parent.mkdir(parents=True, exist_ok=True)
            at.touch()

    def _nested(self, root, target):
        """The volume that `target` lies in: only that of the CA has others in it."""
        if root.name.startswith("root-certs") and target.startswith("/etc/millrace/tls/"):
            yield "/etc/millrace/tls", self._volumes / "ca"


@contextlib.contextmanager
def fleet(dataset, workers=2):
    """A running fleet with certificates: (fleet, dispatcher, [worker])."""
    need("unshare", "setpriv", "nsenter", "ip")
    with cluster(dataset) as c:
        made = Fleet(c, dataset)
        made.start("certs").expect_success()
        dispatcher = made.start("dispatcher")
        running = [made.start("worker", number + 1) for number in range(workers)]
        for service, process in [("dispatcher", dispatcher), *(("worker", w) for w in running)]:
            wait_for(lambda s=service, p=process: made.healthy(s, p) == 0,
                     f"{process.name} is not healthy: {process.text()}", process.popen)
        yield made, dispatcher, running


def private_files(folder):
    """The files below the folder that only their user reads: {path: user}."""
    found = {}
    for path in folder.rglob("*"):
        about = path.stat()
        if path.is_file() and stat.S_IMODE(about.st_mode) & 0o077 == 0:
            found[str(path.relative_to(folder))] = str(about.st_uid)
    return found

