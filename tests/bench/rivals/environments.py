"""Virtual environments for rivals, filled from PyPI, below the build folder.

If something cannot be installed, the reason is kept until this run ends. The next run tries again.
"""

import dataclasses
import pathlib
import subprocess
import sys

STEP_SECONDS = 7200  # the longest time for one installation (some build from source)


@dataclasses.dataclass(frozen=True)
class Step:
    """Packages that are installed together. The steps of one environment are independent: a rival
    names those that it needs."""
    name: str
    packages: tuple
    options: tuple = ()


ENVIRONMENTS = {
    # The reference needs TensorFlow 2.12 and packages that fit it.
    "reference": (Step("base", ("graph2tac==1.0.4", "xxhash")),),
    "loaders": (
        Step("base", ("torch", "torch_geometric", "grain", "pyarrow", "igraph", "xxhash", "wheel",
                      "setuptools")),
        # These are built from source against the installed torch, which takes up to an hour on two
        # busy cores.
        Step("torch-sparse", ("torch-scatter", "torch-sparse"), ("--no-build-isolation",)),
        Step("pyg-lib", ("pyg-lib",)),
    ),
    # DGL 2.1 is the newest on PyPI. Its GraphBolt has libraries for some versions of PyTorch, of
    # which 2.2.1 is the newest, and needs a torchdata with data pipes.
    "graphs": (
        Step("base", ("torch==2.2.1", "dgl==2.1.0", "torchdata==0.7.1", "torch_geometric==2.8.1",
                      "numpy<2", "pandas", "pyyaml", "pydantic", "psutil", "xxhash", "wheel",
                      "setuptools<70")),
        # PyPI does not have it. A wheel that was built from source is found through
        # PIP_FIND_LINKS.
        Step("pyg-lib", ("pyg-lib==0.4.0",),
             ("--find-links", "https://data.pyg.org/whl/torch-2.2.0+cpu.html")),
        Step("torch-sparse", ("torch-scatter==2.1.2", "torch-sparse==0.6.18"),
             ("--no-build-isolation",)),
    ),
}


class Environments:
    def __init__(self, folder, log=print):
        self._folder = pathlib.Path(folder)
        self._log = log
        self._failed = {}  # (environment, step) -> reason

    def python(self, name):
        return self._folder / name / "bin" / "python"

    def missing(self, name, step):
        """Installs the packages that are missing. Returns None if all are there, otherwise the
        reason."""
        wanted = [s for s in ENVIRONMENTS[name] if s.name in ("base", step)]
        for one in wanted:
            reason = self._install(name, one)
            if reason:
                return reason
        return None

    def _install(self, name, step):
        if (name, step.name) in self._failed:
            return self._failed[name, step.name]
        marker = self._folder / name / f".installed-{step.name}"
        text = " ".join(step.packages)
        if marker.exists() and marker.read_text() == text:
            return None
        reason = None
        if not self.python(name).exists():
            self._log(f"setting up {self._folder / name}")
            reason = self._run([sys.executable, "-m", "venv", str(self._folder / name)])
        if reason is None:
            self._log(f"installing {text}")
            reason = self._run([str(self.python(name)), "-m", "pip", "install",
                                "--disable-pip-version-check", *step.options, *step.packages])
        if reason is None:
            marker.write_text(text)
        else:
            self._failed[name, step.name] = reason
        return reason

    @staticmethod
    def _run(command):
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=STEP_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return f"not within {STEP_SECONDS} s"
        if done.returncode == 0:
            return None
        lines = [line for line in done.stdout.decode(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower()]
        return (errors or lines or ["no output"])[-1].strip()[:200]
