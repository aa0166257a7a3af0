"""docker/compose.yaml as docker itself runs it: the commands of docs/guides/docker.md, in order,
and what they leave. Grafana is left out, because its image cannot be had here."""

import json
import os
import pathlib
import re
import shutil
import tempfile
import urllib.parse

from docker_machine import docker_machine
from harness import binary, check, deploy, wait_for
from machine import make_image, make_packages, need

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
COMPOSE = "docker compose -f docker/compose.yaml"
# The services whose images are here.
SERVICES = "dispatcher worker prometheus"
USER = "7700"
# In place of the image of Prometheus: Debian's.
PROMETHEUS = """install -d -o 65534 -g 65534 /image/prometheus
mkdir -p /image/usr/bin /image/tmp /image/etc
cp /usr/bin/prometheus /usr/bin/promtool /image/usr/bin
for library in $(ldd /usr/bin/prometheus | grep -o '/[^ ]*'); do cp --parents -L $library /image; done
tar -C /image -c . | docker import --change 'ENTRYPOINT ["/usr/bin/prometheus"]' --change 'USER 65534' \\
  --change 'ENV PATH=/usr/bin' - """


def commands():
    text = (ROOT / "docs/guides/docker.md").read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        yield from filter(None, (line.split("  #")[0].strip() for line in block.replace("\\\n", " ").splitlines()))


class Journey:
    """The commands of the page on a machine with docker, in the folder /src."""

    def __init__(self, m):
        self.m = m
        self.source = m.root / "src"
        self.exports = []

    def prepare(self, folder):
        packages = folder / "packages"
        make_packages(packages, "daemon", "cli")
        archives = self.source / "build" / "release-artifacts"
        archives.mkdir(parents=True)
        version = re.search(r"project\(Millrace VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
        make_image(packages, archives / f"millrace-{version}-image.tar")
        for name in ("docker", "deploy"):
            shutil.copytree(ROOT / name, self.source / name)
        image = re.search(r"image: (\S*prometheus:\S+)", (ROOT / "docker/compose.yaml").read_text())[1]
        self.m.shell(PROMETHEUS + image)

    def step(self, line):
        """Runs a command of the page; returns what it writes."""
        if line.startswith("export "):
            self.exports.append(line)
            return ""
        if line.startswith("millrace "):
            # The ports are open on the machine itself, not only for containers.
            words = line.split()
            return self.m.at_its_network(binary("cli"), *words[1:], cwd=self.source).stdout
        if " up " in line:
            line = f"{line} {SERVICES}"
        return self.shell(line).stdout

    def shell(self, line, **options):
        return self.m.shell("; ".join(["cd /src", *self.exports, line]), **options)

    def compose(self, words, **options):
        return self.shell(f"{COMPOSE} {words}", **options)

    def containers(self):
        """{name: (state, health)}"""
        lines = self.compose("ps --all --format json").stdout.splitlines()
        return {c["Name"]: (c["State"], c["Health"]) for c in map(json.loads, lines)}

    def get(self, url):
        code = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1], timeout=30).read().decode())"
        return self.m.at_its_network("/usr/bin/python3", "-c", code, url).stdout


def wait_until_healthy(journey, workers):
    names = ["dispatcher-1", "prometheus-1", *(f"worker-{n + 1}" for n in range(workers))]
    healthy = {f"millrace-{name}": ("running", "healthy") for name in names}
    wait_for(lambda: {n: s for n, s in journey.containers().items() if n in healthy} == healthy,
             f"not healthy: {journey.containers()}\n{journey.compose('logs').stdout[-3000:]}")


def check_what_up_started(journey):
    wait_until_healthy(journey, 2)
    check(journey.containers()["millrace-certs-1"][0] == "exited", f"{journey.containers()}")
    listening = journey.m.shell("ss -H -l -t -n").stdout.splitlines()
    addresses = {line.split()[3] for line in listening}
    check({f"127.0.0.1:{port}" for port in (7700, 7702, 9090)} <= addresses, f"{addresses}")
    check(all(address.startswith("127.") for address in addresses), f"open beyond loopback: {addresses}")
    check("<html" in journey.get("http://127.0.0.1:7702/"), "no page")
    up = urllib.parse.quote('up{fleet="compose"} == 1')
    asked = f"http://127.0.0.1:9090/api/v1/query?query={up}"
    wait_for(lambda: len(json.loads(journey.get(asked))["data"]["result"]) == 3, "Prometheus sees no fleet")
    check_keys(journey.m.root / "var/lib/docker/volumes")


def check_workers_drain(journey):
    journey.compose("stop worker")
    lines = journey.compose("ps --all --format json worker").stdout.splitlines()
    check({c["ExitCode"] for c in map(json.loads, lines)} == {0}, f"{lines}")
    check("draining" in journey.compose("logs worker").stdout, "a worker that is stopped does not drain")


def check_keys(volumes):
    keys = [key for name in ("dispatcher", "worker", "trainer", "operator")
            for key in (volumes / f"millrace_{name}-tls" / "_data").iterdir() if key.suffix == ".key"]
    keys.append(volumes / "millrace_ca" / "_data" / "ca.key")
    check(len(keys) == 5, f"{keys}")
    for key in keys:
        about = key.stat()
        check(about.st_mode & 0o777 == 0o600 and str(about.st_uid) == USER, f"{key}: {about}")


@deploy(3000)
def test_the_page_about_docker_can_be_followed():
    need("mmdebstrap", "buildah", "cpack", "dpkg-shlibdeps")
    with docker_machine() as m, tempfile.TemporaryDirectory(prefix="millrace-compose-") as folder:
        journey = Journey(m)
        journey.prepare(pathlib.Path(folder))
        ran = 0
        for line in commands():
            said = journey.step(line)
            ran += 1
            if line.endswith("up --detach"):
                check_what_up_started(journey)
            if line.endswith("trainer"):
                check(", 20000 examples" in said, f"{line}: {said}")
            if line.endswith("operator") or line.startswith("millrace status"):
                check(said.count(":7701") >= 2, f"{line}: {said}")
            if line.startswith("export "):
                refused = journey.shell(f"MILLRACE_DATASET=/nowhere {COMPOSE} up --detach dispatcher", expect=None)
                check("bind source path does not exist: /nowhere" in refused.stderr, refused.stderr)
            if "--scale worker=3" in line:
                wait_until_healthy(journey, 3)
            if "--renew" in line:
                check_workers_drain(journey)
        check(ran >= 12, f"only {ran} commands")
        check(journey.containers() == {}, "`down` leaves containers")


@deploy(1200)
def test_compose_says_that_the_variable_or_the_packages_are_missing():
    need("mmdebstrap")
    with docker_machine() as m:
        shutil.copytree(ROOT / "docker", m.root / "src" / "docker")
        journey = Journey(m)
        refused = journey.compose("config", expect=None)
        check(refused.returncode != 0 and "set it to the folder of your dataset" in refused.stderr, refused.stderr)
        journey.exports = ["export MILLRACE_DATASET=/data/stdlib"]
        made = json.loads(journey.compose("config --format json").stdout)["services"]
        check(made["dispatcher"]["volumes"][0]["source"] == "/data/stdlib", f"{made['dispatcher']['volumes']}")
        check(made["certs"]["build"]["context"] == "/src/build/release-artifacts", f"{made['certs']['build']}")
        file = os.path.normpath(os.path.join(made["certs"]["build"]["context"], made["certs"]["build"]["dockerfile"]))
        check(file == "/src/docker/Dockerfile", file)
        refused = journey.compose("up --detach dispatcher", expect=None)
        check('build/release-artifacts" not found' in refused.stderr, refused.stderr)
        check("trainer" not in made and "operator" not in made, "an example starts by itself")
