"""The Debian packages: what is in them, how the units are confined, and their life on a machine."""

import json
import os
import pathlib
import re
import shutil
import tempfile

from harness import Skipped, check, deploy, wait_for
from machine import BUILD, machine, make_packages, need, run

SOURCE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
ROLES = ("serve", "dispatcher", "worker")
MOST_EXPOSED = 2.0  # of systemd-analyze security, from 0 to 10
# Who publishes packages sets MILLRACE_PACKAGE_CONTACT; a build for tests has no address.
WITHOUT_ADDRESS = "bogus-mail-host,bogus-mail-host-in-debian-changelog"
UNIT = "millrace-serve"
PIPELINE = """millrace: 1
dataset: stdlib
source: proof_states
shuffle: {seed: 7}
batch: {size: 8, remainder: keep}
"""
CONFIG = """datasets:
  stdlib: /data/stdlib
shared_memory_group: millrace-trainers
"""
PLUGIN = """import numpy as np
__all__ = ["Numbers"]

class Numbers:
    def __len__(self):
        return 100

    def spec(self):
        return {"value": "float32[3]"}

    def __getitem__(self, i):
        return {"value": np.full(3, i, np.float32)}
"""
PLUGIN_PIPELINE = """millrace: 1
source: {python: "numbers_of:Numbers"}
batch: {size: 4}
"""


def files_of(package):
    return {line.split()[5]: line.split()[0] for line in run("dpkg-deb", "-c", package).stdout.splitlines()}


def test_packages_hold_programs_units_and_texts():
    if shutil.which("dpkg-shlibdeps") is None:
        raise Skipped("no dpkg-dev here: deploy/install-deps installs it")
    with tempfile.TemporaryDirectory(prefix="millrace-packages-") as folder:
        cli, daemon = make_packages(pathlib.Path(folder), "daemon", "cli")
        version = re.search(r"project\(Millrace VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text())[1]
        for package in (cli, daemon):
            check(run("dpkg-deb", "-f", package, "Version").stdout.strip() == version, package.name)
            depends = run("dpkg-deb", "-f", package, "Depends").stdout
            check("libgrpc++1.51" in depends and "libc6 (>=" in depends, f"{package.name}: {depends}")
        found = files_of(daemon)
        for path in ("./usr/bin/millraced", "./etc/millrace/millraced.yaml",
                     "./usr/lib/sysusers.d/millrace.conf", "./usr/share/man/man1/millraced.1.gz",
                     "./usr/share/doc/millrace-daemon/copyright",
                     *(f"./lib/systemd/system/millrace-{role}.service" for role in ROLES)):
            check(path in found, f"millrace-daemon has no {path}: {sorted(found)}")
        check("./usr/bin/millrace" in files_of(cli), "millrace-cli has no program")
        check(run("dpkg-deb", "-I", daemon, "conffiles").stdout == "/etc/millrace/millraced.yaml\n",
              "the configuration is the operator's")
        check_confined(daemon, pathlib.Path(folder))


def check_confined(daemon, folder):
    if shutil.which("systemd-analyze") is None:
        raise Skipped("no systemd here: deploy/install-deps installs it")
    run("dpkg-deb", "-x", daemon, folder / "root")
    for role in ROLES:
        unit = folder / f"root/lib/systemd/system/millrace-{role}.service"
        said = run("systemd-analyze", "security", "--offline=yes", unit).stdout
        exposure = float(re.search(r"Overall exposure level for .*: ([0-9.]+)", said)[1])
        check(exposure <= MOST_EXPOSED, f"{unit.name}: exposure {exposure}:\n{said}")


@deploy(300)
def test_lintian_finds_no_error_in_the_packages():
    need("lintian")
    with tempfile.TemporaryDirectory(prefix="millrace-lintian-") as folder:
        packages = make_packages(pathlib.Path(folder))
        check(len(packages) == 3, f"{packages}")
        said = run("lintian", "--allow-root", "--suppress-tags", WITHOUT_ADDRESS, "--fail-on", "error",
                   *packages, expect=None)
        check(said.returncode == 0, said.stdout)
        print(said.stdout)


def prepare(m, packages):
    """Installs the packages, makes a dataset, and starts `serve`."""
    m.install(packages)
    m.shell("mkdir -p /data && millrace generate /data/stdlib --kind coq --nodes 100000 --seed 1")
    (m.root / "etc/millrace/millraced.yaml").write_text(CONFIG)
    (m.root / "srv/train.yaml").write_text(PIPELINE)
    m.run("systemctl", "enable", "--now", UNIT)
    wait_for(lambda: status(m)["datasets"].get("stdlib", {}).get("digest"), "the dataset is not open")


def status(m):
    return json.loads(m.run("millrace", "status", "--format", "json").stdout)


def consume(m, name, *extra, user=None):
    return m.start(name, "millrace", "consume", "/srv/train.yaml", "--job", name, "--world-size", "1",
                   "--log", f"/tmp/{name}.jsonl", *extra, user=user)


def delivered(m, name):
    log = m.root / "tmp" / f"{name}.jsonl"
    text = m.run("cat", f"/tmp/{name}.jsonl", expect=None).stdout
    return text.count("\n") if text or log.exists() else 0


def check_all_came_once(m, name, process, epochs=1):
    check(process.wait(120) == 0, m.text(name))
    m.run("millrace", "check-log", "/srv/train.yaml", "--dataset", "stdlib=/data/stdlib",
          "--world-size", 1, "--epochs", epochs, "--log", f"/tmp/{name}.jsonl")


def main_process(m):
    return m.run("systemctl", "show", "-P", "MainPID", UNIT).stdout.strip()


@deploy(1500)
def test_a_machine_serves_is_upgraded_under_a_job_and_is_as_before_after_a_purge():
    with machine() as m, tempfile.TemporaryDirectory(prefix="millrace-packages-") as folder:
        old = make_packages(pathlib.Path(folder) / "old", "daemon", "cli")
        new = make_packages(pathlib.Path(folder) / "new", "daemon", "cli", version="99.0.0")
        prepare(m, old)
        check_members_of_the_group_share_memory(m)
        check_a_killed_daemon_comes_back(m)
        check_a_reload_takes_new_datasets(m)
        check_a_plugin_runs(m)
        check_an_upgrade_loses_nothing(m, new)
        check_a_purge_leaves_nothing(m)


def check_members_of_the_group_share_memory(m):
    m.shell("useradd -m alice && adduser --quiet alice millrace-trainers && useradd -m bob")
    check_all_came_once(m, "of-alice", consume(m, "of-alice", user="alice"))
    said = re.search(r"through shared memory: (\d+) batches", m.text("of-alice"))
    check(said and int(said[1]) == delivered(m, "of-alice"), m.text("of-alice"))
    other = m.run("millrace", "status", user="bob", expect=None)
    check(other.returncode != 0, f"a user outside of the group is served: {other.stdout}")


def check_a_killed_daemon_comes_back(m):
    consumer = consume(m, "killed", "--delay", "0.01")
    wait_for(lambda: delivered(m, "killed") > 20, "no batches", consumer)
    before = main_process(m)
    m.run("kill", "-9", before)
    wait_for(lambda: main_process(m) not in ("0", before) and m.run(
        "systemctl", "is-active", UNIT, expect=None).stdout.strip() == "active", "not started again")
    check(m.run("systemctl", "show", "-P", "NRestarts", UNIT).stdout.strip() == "1", "restarts")
    check_all_came_once(m, "killed", consumer)


def check_a_reload_takes_new_datasets(m):
    before = main_process(m)
    m.shell("millrace generate /data/other --kind coq --nodes 2000 --seed 2")
    config = m.root / "etc/millrace/millraced.yaml"
    config.write_text(config.read_text().replace("datasets:", "datasets:\n  other: /data/other"))
    m.run("systemctl", "reload", UNIT)
    wait_for(lambda: len(status(m)["datasets"]) == 2, "the new dataset is not served")
    check(main_process(m) == before, "a reload keeps the process")


def check_a_plugin_runs(m):
    m.run("apt-get", "install", "-q", "-y", "--no-install-recommends", "python3-numpy", network=True)
    folder = m.root / "srv/plugins"
    folder.mkdir()
    (folder / "numbers_of.py").write_text(PLUGIN)
    (m.root / "srv/plugin.yaml").write_text(PLUGIN_PIPELINE)
    config = m.root / "etc/millrace/millraced.yaml"
    config.write_text(config.read_text() + "plugins:\n  numbers_of: {path: /srv/plugins, python: "
                      "/usr/bin/python3}\n")
    m.run("systemctl", "restart", UNIT)
    said = m.run("millrace", "consume", "/srv/plugin.yaml", "--job", "plugin", "--world-size", "1",
                 "--epochs", "1")
    check("25 batches" in said.stdout + said.stderr, said.stdout + said.stderr)


def check_an_upgrade_loses_nothing(m, packages):
    epochs = 8  # at least 57 s, so that the job outlives the upgrade
    consumer = consume(m, "upgraded", "--delay", "0.02", "--epochs", epochs)
    wait_for(lambda: delivered(m, "upgraded") > 20, "no batches", consumer)
    before = main_process(m)
    m.install(packages, update=False)
    check(m.run("dpkg-query", "-W", "-f=${Version}", "millrace-daemon").stdout == "99.0.0", "version")
    check(consumer.poll() is None, f"the job runs during the upgrade: {m.text('upgraded')}")
    check(main_process(m) != before, "the unit runs the new program")
    check("other" in (m.root / "etc/millrace/millraced.yaml").read_text(), "the configuration stays")
    check_all_came_once(m, "upgraded", consumer, epochs)


def check_a_purge_leaves_nothing(m):
    user = m.run("id", "-u", "millrace").stdout.strip()
    m.run("apt-get", "purge", "-q", "-y", "millrace-daemon", "millrace-cli")
    check(m.run("pgrep", "-u", user, expect=None).stdout == "", "a process of the daemon's user")
    check(m.run("getent", "passwd", "millrace", expect=2).stdout == "", "the user")
    check(m.shell("getent group | grep millrace", expect=1).stdout == "", "the groups")
    # Root has built an index beside the dataset; that is no part of the packages.
    left = m.shell("find / -xdev \\( -path /data -o -path /proc -o -path /tmp -o -path /root -o -path /sys \\) -prune -o "
                   f"\\( -name '*millrace*' -o -uid {user} \\) -print").stdout
    check(left == "", f"a purge leaves\n{left}")
    failed = m.run("systemctl", "list-units", "--all", "--plain", "--no-legend", "millrace*").stdout
    check(failed == "", f"systemd knows {failed}")
