"""A daemon of one's own, for notebooks and tests."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from collections.abc import Mapping

from . import _binaries
from ._open import connect
from ._reader import Wrapped
from ._server import Server
from ._session import Session
from .errors import Cancelled, ConfigError, ConnectionError, Error, InternalError  # noqa: A004

_PATIENCE = 60  # seconds until the daemon listens; indexing goes on behind
_LOOK_APART = 0.2  # seconds between two looks at whether the daemon is there


class LocalServer(Server):
    """`millraced serve` as a child of this process. It ends with close, with this process, or when
    nobody has it or a session of it any more.

    datasets: folders by dataset id. state: folder that is kept; by default one that is not.
    skip_bad: bad files, and those that need them, are left out as if they did not exist.
    A session that is connected with the server itself as its address says so when it has ended.
    """

    def __init__(self, datasets: Mapping[str, str | os.PathLike], *,
                 state: str | os.PathLike | None = None, threads: int | None = None,
                 skip_bad: bool = False, log_level: str = "warning"):
        if not isinstance(datasets, Mapping):
            raise ConfigError(f"datasets={datasets!r}: expected folders by dataset id, such as "
                              f"{{'data': '/folder'}}")
        command = [_binaries.path("millraced"), "serve", "--listen", "127.0.0.1:0",
                   "--batch-listen", "127.0.0.1:0", "--log-level", log_level, "--grace", "1",
                   "--stop-with-stdin"]
        for name, folder in datasets.items():
            command += ["--dataset", f"{name}={os.fspath(folder)}"]
        if skip_bad:
            command += ["--skip-bad"]
        if threads is not None:
            command += ["--threads", str(threads)]
        kept = None if state is None else os.fspath(state)
        self._child = _Child()
        self._end = weakref.finalize(self, self._child.end)
        self._folder = self._child.folder
        try:
            port_file = self._folder / "port"
            self._child.start([*command, "--port-file", str(port_file),
                               "--state", kept or str(self._folder / "state")])
            self.address = self._wait_for(port_file)
        except BaseException:
            self.close()
            raise

    def _wait_for(self, port_file):
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if port_file.exists() and (text := port_file.read_text().strip()):
                return text.splitlines()[0]
            if self._child.process.poll() is not None:
                raise ConfigError(f"the local daemon ended with {self._child.process.returncode}: "
                                  f"{self.log().strip()[-2000:]}")
            time.sleep(0.002)
        raise InternalError(f"the local daemon does not listen after {_PATIENCE} s: {self.log()}")

    @property
    def pid(self) -> int:
        return self._child.process.pid

    def log(self) -> str:
        """What the daemon wrote."""
        return self._child.log()

    def close(self) -> None:
        """Ends the daemon and removes what it left."""
        self._end()

    def watch(self, reader: object) -> object:
        """A reader whose calls fail once the daemon has ended, instead of waiting for another."""
        return self._child.watch(reader)

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Child:
    """The daemon's process and its folder, apart from the LocalServer, so that both end with it."""

    def __init__(self):
        self.process = None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-"))
        self._creator = os.getpid()
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._watched = weakref.WeakSet()
        self._watcher = None

    def start(self, command):
        with open(self.folder / "log", "wb") as log:
            # In a session of its own: Ctrl-C in a terminal is meant for this process, and goes to
            # all of the terminal's.
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                            start_new_session=True)

    def log(self):
        path = self.folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def end(self):
        """Ends the daemon, waits for it, and removes the folder; nothing in a forked process, whose
        parent goes on with both."""
        if os.getpid() != self._creator:
            return
        self._ending.set()
        for watched in self._readers():  # what is left at the end of the process says good-bye
            watched.close_if_open()
        if self.process is not None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def watch(self, reader):
        watched = _Watched(reader, self)
        with self._lock:
            self._watched.add(watched)
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, daemon=True,
                                                 name="millrace-local")
                self._watcher.start()
        if self.ended() is not None:
            reader.cancel()
        return watched

    def _watch(self):
        while not self._ending.wait(_LOOK_APART):
            if self.ended() is None:
                continue
            for watched in self._readers():
                watched.cancel_if_open()
            return

    def _readers(self):
        with self._lock:
            return list(self._watched)

    def ended(self):
        """The error that says how the daemon ended, where it has and nobody here asked for it."""
        if os.getpid() != self._creator or self._ending.is_set() or self.process.poll() is None:
            return None
        code = self.process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        said = self.log().strip()[-2000:]
        return ConnectionError(f"the local daemon (process {self.process.pid}) {how}"
                               f"{': ' + said if said else ', and wrote nothing'}; open another "
                               "session, with this one's state_dict where it shall go on")


class _Watched(Wrapped):
    """A reader over a local daemon: its calls say so when the daemon has ended."""

    def __init__(self, reader, child):
        super().__init__(reader)
        self._child = child

    def call(self, method, *arguments):
        try:
            return method(*arguments)
        except (Cancelled, ConnectionError):
            ended = self._child.ended()
            if ended is None:
                raise
            raise ended from None

    def cancel_if_open(self):
        """Ends what waits in the reader, on another thread."""
        with contextlib.suppress(Error):
            self.reader.cancel()

    def close_if_open(self):
        with contextlib.suppress(Error):
            self.reader.close()


def local(datasets: Mapping[str, str | os.PathLike], pipeline: str | os.PathLike | dict, *,
          threads: int | None = None, state: str | os.PathLike | None = None,
          skip_bad: bool = False, **options: object) -> Session:
    """A Session over a daemon of its own, which ends with the session, or with this process.

    datasets: folders by dataset id, {"stdlib": "/data/stdlib"}. threads, state, skip_bad: as of
    LocalServer. Other options are connect's.
    """
    server = LocalServer(datasets, state=state, threads=threads, skip_bad=skip_bad)
    try:
        session = connect(server, pipeline=pipeline, **options)
    except BaseException:
        server.close()
        raise
    session.own(server)
    return session
