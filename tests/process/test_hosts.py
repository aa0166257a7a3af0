"""The pages about packages and about fleets under systemd: their files and commands, in order, on a
machine that boots systemd."""

import os
import pathlib
import re
import tempfile

from harness import binary, check, deploy
from machine import machine, make_packages, run
from test_packages import PIPELINE

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
# The release has a test of its own (test_release.py). There is no docker here.
NOT_RUN = ("deploy/release", "docker ")


def steps(page):
    """The page's files, as (path, text), and commands, as (None, line), in their order."""
    for kind, block in re.findall(r"```(sh|yaml)\n(.*?)```", (ROOT / page).read_text(), re.S):
        if kind == "yaml":
            path, text = re.match(r"# (\S+)\n(.*)", block, re.S).groups()
            yield path, text
            continue
        for line in block.replace("\\\n", " ").splitlines():
            line = line.split("  #")[0].strip()
            if line and not line.startswith(NOT_RUN):
                yield None, line


def follow(m, page):
    ran = 0
    for path, text in steps(page):
        if path is not None:
            (m.root / path.lstrip("/")).write_text(text)
            continue
        m.shell(f"cd /root; {text}", network=text.startswith("apt install"))
        ran += 1
    return ran


def prepare(m, folder):
    """Puts packages, a dataset, a pipeline and a user onto the machine."""
    for package in make_packages(pathlib.Path(folder) / "packages", "daemon", "cli"):
        run("cp", package, m.root / "root")
    (m.root / "data").mkdir()
    run(binary("cli"), "generate", m.root / "data/stdlib", "--kind", "coq", "--nodes", 50000, "--seed", 1)
    (m.root / "root/train.yaml").write_text(PIPELINE)
    m.shell("useradd -m alice; ip address add 10.0.0.1/32 dev lo; ip address add 10.0.0.2/32 dev lo")
    (m.root / "etc/apt/apt.conf.d/90yes").write_text('APT::Get::Assume-Yes "true";\n')
    m.run("apt-get", "update", "-q", network=True)


@deploy(1500)
def test_the_page_of_packages_can_be_followed():
    with machine() as m, tempfile.TemporaryDirectory(prefix="millrace-hosts-") as folder:
        prepare(m, folder)
        ran = follow(m, "docs/guides/packages.md")
        check(ran >= 10, f"{ran} commands")
        check(m.run("getent", "passwd", "millrace", expect=2).stdout == "", "the page ends with a purge")


@deploy(1500)
def test_the_page_of_fleets_under_systemd_can_be_followed():
    with machine() as m, tempfile.TemporaryDirectory(prefix="millrace-hosts-") as folder:
        prepare(m, folder)
        m.shell("apt-get install -q --no-install-recommends /root/*.deb", network=True)
        ran = follow(m, "docs/guides/systemd.md")
        check(ran >= 10, f"{ran} commands")
        check_only_certificates_let_in(m)
        m.shell("systemctl disable --now millrace-worker")
        said = m.shell("journalctl --no-pager -u millrace-worker").stdout
        check("stopped" in said and "Failed" not in said, said)


def check_only_certificates_let_in(m):
    tls = "--address 10.0.0.1:7700 --tls /root/tls/operator"
    told = m.shell(f"millrace status --format json {tls}").stdout
    check('"workers"' in told and "10.0.0.2:7701" in told, told)
    refused = m.shell("millrace status --address 10.0.0.1:7700", expect=None)
    check(refused.returncode != 0, f"without a certificate: {refused.stdout}")
    keys = m.shell("ls -l /etc/millrace/tls/worker/tls.key").stdout
    check(keys.startswith("-rw------- 1 root root"), f"only root reads the key: {keys}")
