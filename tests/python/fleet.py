"""A dispatcher and workers with plugins, as processes."""

import json
import pathlib
import signal
import subprocess
import sys

from patience import tries

import millrace
from millrace import _binaries


def config_of(folder, plugins, **keys):
    """Writes the configuration of a daemon that lists plugins, with keys such as processes=3."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = {name: {"path": str(path), "python": sys.executable, **keys}
              for name, path in plugins.items()}
    config = folder / "daemon.json"
    config.write_text(json.dumps({"plugins": listed}))
    return config


class Fleet:
    """Each worker has its own configuration, and the dispatcher `of_dispatcher` or the first."""

    def __init__(self, folder, configs, datasets=None, of_dispatcher=None):
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._datasets = [f"--dataset={name}={path}" for name, path in (datasets or {}).items()]
        self._processes = []
        port = folder / "port"
        dispatcher = self._start(of_dispatcher or configs[0], "dispatcher", "--listen", "127.0.0.1:0", "--state",
                                 folder / "state", "--port-file", port)
        for _ in tries(pause=0.01):
            assert dispatcher.poll() is None, self.log()
            if port.exists() and port.read_text().strip():
                break
        else:
            raise AssertionError(self.log())
        self.address = port.read_text().split()[0]
        self.workers = [(self._worker(config), config) for config in configs]

    def _worker(self, config):
        return self._start(config, "worker", "--dispatcher", self.address, "--batch-listen",
                           "127.0.0.1:0", "--threads", 2)

    def _start(self, config, *arguments):
        with open(self._folder / f"{len(self._processes)}.log", "wb") as log:
            process = subprocess.Popen(
                [_binaries.path("millraced"), *map(str, arguments), *self._datasets, "--config",
                 str(config), "--grace", "1"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def log(self):
        return "\n".join(path.read_text(errors="replace")
                         for path in sorted(self._folder.glob("*.log")))

    def connect(self, pipeline, **options):
        options = {"job": "plugins", "packed": True, "attach_timeout": 600, **options}
        return millrace.connect(self.address, pipeline=pipeline, **options)

    def replace_a_worker(self):
        """Kills a worker, sees its plugins' processes end, and starts another one."""
        worker, config = self.workers.pop(0)
        family = family_of(worker.pid)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        assert gone(family)
        self.workers.append((self._worker(config), config))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self._processes:
            process.kill()
            process.wait()


def _parent(pid):
    """The parent of a process; None if the process has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[1])


def family_of(pid):
    """The processes that a process has started, and those that these have started."""
    parents = {int(path.name): _parent(int(path.name))
               for path in pathlib.Path("/proc").glob("[0-9]*")}
    found, todo = [], [pid]
    while todo:
        one = todo.pop()
        children = [child for child, parent in parents.items() if parent == one]
        found += children
        todo += children
    return found


def gone(pids):
    """Waits until none of the processes is left; false if that takes too long."""
    return any(all(_parent(pid) is None for pid in pids) for _ in tries())
