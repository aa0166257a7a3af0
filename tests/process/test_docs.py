"""Every command that a document shows is run, with this machine's paths and ports in place of the
document's. Every link leads somewhere."""

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import time

from harness import PATIENCE, binary, check, cluster, wait_for
from links import broken
from test_streams import DATA

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
PAGES = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(ROOT))
                                                 for p in (ROOT / "docs").rglob("*.md"))]
# Machines of their own run the commands of these (test_hosts.py, test_compose.py).
OF_HOSTS = ("docs/guides/docker.md", "docs/guides/packages.md", "docs/guides/systemd.md")
# The daemon that such a page starts serves the commands behind it, as a reader has it.
FOLLOWED = ("docs/start/first-job.md",)
# These commands are not run. They run this very test suite or build the tree, and CI does both.
# Commands of tests/bench and tests/fault have tests of their own, CI runs tests/fuzz/run, and the
# tests of the Python package begin with pip and run every import.
COVERED = ("./tests/run", "./deploy/quickstart", "cmake ", "ctest ", "./tests/check-clang", "./tests/check-gcc", "./tests/check-local-names",
           "./tests/check-words", "docker ", "git ", "tests/bench/", "./tests/fault/",
           "./tests/fuzz/", "./tests/process/soak",
           "pip install ./client/python", "millrace import ", "torchrun ",
           # test_kubernetes and test_slurm of tests/python have these.
           "kubectl ", "export MILLRACE_", "sbatch ")
# Lines of programs' output are as long as they are. A unit test wants all parameters of an operation in
# its row.
OUTPUT = re.compile(r"^```(?:text|errors)\n.*?^```$", re.M | re.S)
LONG_ROWS = ("| `python` | `module:name`",)
# Commands that connect to a dispatcher.
CLIENTS = ("status", "consume", "jobs", "top", "trace", "tune")


def commands(page):
    """The commands of a page's sh blocks, with continuation lines joined and comments removed."""
    text = (ROOT / page).read_text()
    for block in re.findall(r"```sh\n(.*?)```", text, re.S):
        for line in block.replace("\\\n", " ").splitlines():
            line = line.split("  #")[0].strip()
            if line and not line.startswith("#"):
                yield line


def files(page):
    """The yaml blocks of a page that begin with a comment that names a file."""
    return re.findall(r"```yaml\n# (\w+\.yaml)\n(.*?)```", (ROOT / page).read_text(), re.S)


def readme_pipeline():
    block = re.search(r"```yaml\n(millrace: 1.*?)```", (ROOT / "README.md").read_text(), re.S)
    return block.group(1)


def localise(line, c):
    """Replaces paths and addresses in the command by those of this machine. The options and their
    order stay."""
    line = re.sub(r"/data/\w+", str(DATA), line)
    line = re.sub(r"(?<![\d.])(0\.0\.0\.0|127\.0\.0\.1|10\.0\.0\.\d+|HOST|localhost):7700", c.address, line)
    line = line.replace("10.0.0.2:7701", "127.0.0.1:7701")
    line = line.replace("millrace health --address 127.0.0.1:7703", f"millrace health --address {c.health}")
    line = line.replace("/var/lib/millrace", str(c.folder / "docs-state"))
    line = line.replace("/backups", str(c.folder))
    return line


def test_every_command_in_the_documents_runs():
    ran = 0
    with cluster(DATA) as c:
        work = c.folder / "work"
        work.mkdir()
        (work / "train.yaml").write_text(readme_pipeline())
        port = c.folder / "port-docs"
        daemon = c.start("serve", binary("daemon"), "serve", "--dataset", f"stdlib={DATA}", "--state",
                         c.folder / "docs-state", "--listen", "127.0.0.1:0", "--batch-listen",
                         "127.0.0.1:0", "--health-listen", "127.0.0.1:0", "--port-file", port)
        c.address = wait_for(lambda: port.exists() and port.read_text().strip(), "no port",
                             daemon.popen)
        address = c.address
        c.health = re.search(r"for=health address=(\S+)", daemon.text())[1]
        c.tls_address = start_with_tls(c, work)
        for page in PAGES:
            if page in OF_HOSTS:
                continue
            for name, text in files(page):
                (work / name).write_text(text)
            for line in commands(page):
                if line.startswith(COVERED):
                    continue
                run_one(localise(line, c), page, c, work)
                ran += 1
            c.address = address
    check(ran >= 6, f"only {ran} commands were found")


def test_each_folder_has_a_short_index_of_its_pages():
    folders = sorted({page.parent for page in (ROOT / "docs").glob("*/*.md")})
    check([f.name for f in folders] == ["formats", "guides", "internals", "reference", "start"], f"{folders}")
    for folder in (ROOT / "docs", *folders):
        index = (folder / "README.md").read_text()
        check(len(index.splitlines()) <= 10, f"{folder}: its index is long")
        pages = {str(p.relative_to(folder)) for p in folder.rglob("*.md")} - {"README.md"}
        if folder.name == "docs":
            pages = {f"{f.name}/README.md" for f in folders}
        linked = set(re.findall(r"\]\(([^)]*)\)", index)) - {"../README.md"}
        check(linked == pages, f"{folder}: index and pages differ in {linked ^ pages}")


def test_lines_of_documents_have_at_most_120_columns():
    for page in ("README.md", *(p for p in PAGES if p.startswith("docs/"))):
        text = OUTPUT.sub(lambda block: "\n" * block[0].count("\n"), (ROOT / page).read_text())
        for number, line in enumerate(text.splitlines(), 1):
            check(len(line) <= 120 or line.startswith(LONG_ROWS), f"{page}:{number} has {len(line)} columns")


def test_the_readme_links_six_pages():
    linked = set(re.findall(r"\]\((docs/[^)]*)\)", (ROOT / "README.md").read_text()))
    check(len(linked) == 6, f"{sorted(linked)}")


def test_every_link_and_every_mention_of_a_page_leads_somewhere():
    wrong = sorted(set(filter(None, broken(ROOT))))
    check(not wrong, "\n".join(wrong))


def test_the_page_of_options_has_those_of_each_role():
    text = (ROOT / "docs/reference/options.md").read_text()
    shown = {"serve": set(), "dispatcher": set(), "worker": set()}
    for name, roles in re.findall(r"^- `(\w+)` \(([\w, ]+)", text, re.M):
        flag = {"datasets": "--dataset", "plugins": "--plugin"}.get(name, f"--{name.replace('_', '-')}")
        for role in shown if roles == "all" else roles.split(", "):
            shown[role].add(flag)
    of_command_line = set(re.findall(r"^- `(--[\w-]+)", text, re.M))
    for role, flags in shown.items():
        told = subprocess.run([binary("daemon"), role, "--help"], capture_output=True, text=True, check=True)
        has = set(re.findall(r"^  (?:-h,)?(--[\w-]+)", told.stdout, re.M)) - {"--help"}
        check(flags | of_command_line == has, f"{role}: page and --help differ in {has ^ (flags | of_command_line)}")


def start_with_tls(c, work):
    """Starts a daemon with a certificate of the folder that the documents make; returns its
    address."""
    c.run("certs", work / "tls")
    port = c.folder / "port-tls"
    daemon = c.start("tls", binary("daemon"), "serve", "--dataset", f"stdlib={DATA}", "--state",
                     c.folder / "tls-state", "--listen", "127.0.0.1:0", "--batch-listen",
                     "127.0.0.1:0", "--port-file", port, "--tls", work / "tls" / "serve")
    return wait_for(lambda: port.exists() and port.read_text().strip(), "no port", daemon.popen)


def run_one(line, page, c, work):
    words = shlex.split(line)
    program = {"millrace": "cli", "millraced": "daemon"}.get(words[0])
    check(program is not None, f"{page}: shows '{line}', which this test does not know how to run")
    arguments = words[1:]
    if program == "daemon" and arguments[0] != "backup" and "--help" not in arguments and "--print-config" not in arguments:
        run_daemon(arguments, page, line, c, work)
        return
    into = None
    if ">" in arguments:
        into = work / arguments.pop()
        arguments.pop()
    if program == "cli" and arguments[0] in CLIENTS:
        with_tls = "--tls" in arguments
        address = c.tls_address if with_tls else c.address
        if "--address" not in line:
            arguments += ["--address", address]
        elif with_tls:
            arguments[arguments.index("--address") + 1] = address
    if arguments[0] == "top" and "--once" not in arguments:
        run_until_interrupted(arguments, page, line, c)
        return
    if arguments[0] == "tune":
        begin_training(arguments[arguments.index("--explain") + 1], c, work)
    done = subprocess.run([binary(program), *arguments], cwd=work, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)
    check(done.returncode == 0, f"{page}: '{line}' ended with {done.returncode}:\n{done.stderr[-800:]}")
    if into is not None:
        into.write_text(done.stdout)


def begin_training(job, c, work):
    """Starts a consumer, and waits until the dispatcher knows its job. It may end before the command
    runs: an ended job has a story, too."""
    c.start(job, binary("cli"), "consume", work / "train.yaml", "--job", job, "--address", c.address)
    wait_for(lambda: any(known["name"] == job for known in json.loads(
        c.run("status", "--address", c.address, "--format", "json")).get("jobs", [])),
             f"job {job} does not begin")


def run_until_interrupted(arguments, page, line, c):
    process = c.start("docs", binary("cli"), *arguments)
    wait_for(process.text, f"{page}: '{line}' shows nothing", process.popen)
    process.popen.send_signal(signal.SIGINT)
    check(process.wait() == 0, f"{page}: '{line}' does not end well:\n{process.text()[-800:]}")


def run_daemon(arguments, page, line, c, work):
    """A daemon command of the document starts, listens, and ends well; it uses free ports. Datasets
    in folders of this folder are those that an earlier command of the page made."""
    port = c.folder / f"port-{time.monotonic_ns()}"
    role = arguments[0]
    kept = [re.sub(r"^(\w+)=(\w+)$", lambda m: f"{m[1]}={work / m[2]}", a) for a in arguments]
    if "--tls" in kept:
        i = kept.index("--tls")
        kept[i + 1] = str(work / kept[i + 1])
    for flag in ("--listen", "--batch-listen", "--metrics-listen"):
        if flag in kept:
            i = kept.index(flag)
            kept[i + 1] = kept[i + 1].rsplit(":", 1)[0] + ":0"
        elif flag != "--metrics-listen" and (role == "serve" or (flag == "--listen") == (role == "dispatcher")):
            kept += [flag, "127.0.0.1:0"]
    if role != "worker":
        kept += ["--state", str(c.folder / f"state-{time.monotonic_ns()}")]
    daemon = c.start("docs", binary("daemon"), *kept, "--port-file", port)
    listens_at = wait_for(lambda: port.exists() and port.read_text().strip(),
                          f"{page}: '{line}' does not listen", daemon.popen)
    if page in FOLLOWED:
        c.address = listens_at
        return
    daemon.terminate()
    check(daemon.wait() == 0, f"{page}: '{line}' does not end well:\n{daemon.text()[-800:]}")
