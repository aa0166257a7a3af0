"""The programs that come with the package: `millrace` and `millraced`."""

import os
import pathlib
import sys

from .errors import ConfigError


def path(name):
    """The path of a program of the package. MILLRACE_BIN names another folder to look in first."""
    folders = [pathlib.Path(__file__).parent / "bin"]
    if os.environ.get("MILLRACE_BIN"):
        folders.insert(0, pathlib.Path(os.environ["MILLRACE_BIN"]))
    for folder in folders:
        if os.access(folder / name, os.X_OK):
            return str(folder / name)
    raise ConfigError(f"the program {name} is in none of {', '.join(map(str, folders))}: install "
                      "the package again, or name the folder that has it in MILLRACE_BIN", "NOT_FOUND")


def run_millrace():
    # `millrace import` runs this package, which another Python may not have.
    os.environ.setdefault("MILLRACE_PYTHON", sys.executable)
    os.execv(path("millrace"), ["millrace", *sys.argv[1:]])


def run_millraced():
    os.execv(path("millraced"), ["millraced", *sys.argv[1:]])
