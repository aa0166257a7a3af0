"""A daemon of one's own, for notebooks and tests."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

from . import _binaries
from ._session import Session, connect
from .errors import ConfigError, InternalError

_PATIENCE = 60  # seconds until the daemon listens; indexing goes on behind


class LocalServer:
    """`millraced serve` as a child of this process, which ends with it.

    datasets: folders by dataset id. state: folder that is kept; by default one that is not.
    """

    def __init__(self, datasets: dict[str, str | os.PathLike], *,
                 state: str | os.PathLike | None = None, threads: int | None = None,
                 log_level: str = "warning"):
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-"))
        self._log = self._folder / "log"
        port_file = self._folder / "port"
        command = [_binaries.path("millraced"), "serve", "--listen", "127.0.0.1:0",
                   "--batch-listen", "127.0.0.1:0", "--port-file", str(port_file),
                   "--state", str(state or self._folder / "state"), "--log-level", log_level,
                   "--grace", "1", "--stop-with-stdin"]
        for name, folder in datasets.items():
            command += ["--dataset", f"{name}={os.fspath(folder)}"]
        if threads is not None:
            command += ["--threads", str(threads)]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            self.address = self._wait_for(port_file)
        except BaseException:
            self.close()
            raise

    def _wait_for(self, port_file):
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if port_file.exists() and (text := port_file.read_text().strip()):
                return text.splitlines()[0]
            if self._process.poll() is not None:
                raise ConfigError(f"the local daemon ended with {self._process.returncode}: "
                                  f"{self.log().strip()[-2000:]}")
            time.sleep(0.002)
        raise InternalError(f"the local daemon does not listen after {_PATIENCE} s: {self.log()}")

    @property
    def pid(self) -> int:
        return self._process.pid

    def log(self) -> str:
        """What the daemon wrote."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def close(self) -> None:
        """Ends the daemon and removes what it left."""
        if self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def local(datasets: dict[str, str | os.PathLike], pipeline: str | os.PathLike | dict, *,
          threads: int | None = None, state: str | os.PathLike | None = None,
          **options: object) -> Session:
    """A Session over a daemon of its own, which ends with the session, or with this process.

    datasets: folders by dataset id, {"stdlib": "/data/stdlib"}. Other options are connect's.
    """
    server = LocalServer(datasets, state=state, threads=threads)
    try:
        session = connect(server.address, pipeline=pipeline, **options)
    except BaseException:
        server.close()
        raise
    session._on_close = server.close
    session.server = server
    return session
