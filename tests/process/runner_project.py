"""Small projects on which the script that runs the tests is tested."""

import contextlib
import pathlib
import shutil
import subprocess
import tempfile

from harness import PATIENCE, check

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESETS = """{"version": 6,
"configurePresets": [{"name": "release", "generator": "Ninja",
  "binaryDir": "${sourceDir}/build/${presetName}"}],
"testPresets": [{"name": "release", "configurePreset": "release",
  "output": {"outputOnFailure": true}, "execution": {"jobs": 2, "timeout": 300}}]}
"""


def same(found, expected):
    check(found == expected, f"expected\n{expected}\ngot\n{found}")


class Project:
    """A project with the real tests/run, and with tests that are small scripts."""

    def __init__(self, folder):
        self.root = folder
        self.work = folder / "build" / "release"
        shutil.copytree(ROOT / "tests" / "support", folder / "tests" / "support",
                        ignore=lambda _, names: [n for n in names if not n.endswith(".py")])
        for file in ("tests/run", "tests/unsure.md", "deploy/build"):
            (folder / file).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / file, folder / file)
        self.program("deploy/install-deps", "exit 0")
        (folder / "CMakePresets.json").write_text(PRESETS)
        self._cmake = ["cmake_minimum_required(VERSION 3.25)", "project(small NONE)",
                       "enable_testing()"]
        self.tests = 0

    def change_runner(self, old, new):
        path = self.root / "tests" / "support" / "run_tests.py"
        text = path.read_text()
        check(old in text, f"the runner has no '{old}'")
        path.write_text(text.replace(old, new))

    def program(self, path, script):
        (self.root / path).write_text(f"#!/usr/bin/env bash\n{script}\n")
        (self.root / path).chmod(0o755)

    def test(self, name, script="true", properties=""):
        self.tests += 1
        path = self.root / f"{self.tests}.sh"
        path.write_text(script)
        self._cmake.append(f"add_test(NAME [=[{name}]=] COMMAND bash {path})")
        if properties:
            self._cmake.append(f"set_tests_properties([=[{name}]=] PROPERTIES {properties})")

    def start(self, *arguments, **options):
        (self.root / "CMakeLists.txt").write_text("\n".join(self._cmake))
        return subprocess.Popen([self.root / "tests" / "run", *map(str, arguments)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)

    def run(self, *arguments, **options):
        """Exit code, and the lines."""
        return self.end(self.start(*arguments, **options))

    def end(self, program):
        """Waits for the end of a run that was started."""
        try:
            self.text, _ = program.communicate(timeout=PATIENCE)
        except BaseException:
            program.terminate()  # it ends what it has started
            program.communicate()
            raise
        return program.returncode, self.text.splitlines()

    def pid_left(self):
        return int((self.work / "left").read_text())


@contextlib.contextmanager
def project():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-test-")).resolve()
    try:
        yield Project(folder)
    finally:
        shutil.rmtree(folder)


def lives(pid):
    """Whether a process is there and has not ended."""
    try:
        return " Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def below(lines, line):
    """The indented lines below a line."""
    check(line in lines, f"no line '{line}' in\n" + "\n".join(lines))
    found = []
    for one in lines[lines.index(line) + 1:]:
        if not one.startswith("  "):
            break
        found.append(one.strip())
    return found
