"""Runs one process test by name, or lists them.

  run.py NAME
  run.py --list
  run.py --list-deploy    those with the label `deploy`
"""

import importlib
import os
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent / "support"))
import patience  # noqa: E402

MODULES = sorted(p.stem for p in HERE.glob("test_*.py"))
SKIPPED = 77


def tests():
    found = {}
    for module in MODULES:
        loaded = importlib.import_module(module)
        for name, function in vars(loaded).items():
            if name.startswith("test_") and callable(function):
                found[name.removeprefix("test_")] = function
    return found


def main():
    sys.path.insert(0, str(HERE))
    if sys.argv[1:] == ["--list"]:
        print(";".join(sorted(tests())), end="")
        return 0
    if sys.argv[1:] == ["--list-deploy"]:
        print(";".join(name for name, function in sorted(tests().items())
                       if hasattr(function, "deploy_seconds")), end="")
        return 0
    function = tests()[sys.argv[1]]
    os.environ["MILLRACE_TEST"] = f"process: {sys.argv[1].replace('_', ' ')}"  # for leftovers.py
    # A test that is told to end cleans up, as it does after an interrupt from a terminal.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    patience.watch(getattr(function, "deploy_seconds", patience.WHOLE_TEST))
    try:
        function()
    except Exception as error:  # the message is for a person; the trace is for the developer
        if type(error).__name__ == "Skipped":
            print(f"skipped: {error}")
            return SKIPPED
        if type(error).__name__ == "Failure":
            print(f"FAILED: {error}")
            return 1
        raise
    print("ok")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    sys.exit(main())
