"""A daemon of one's own, for notebooks and tests."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence

from . import _binaries
from ._open import connect
from ._own_folder import OwnFolder
from ._reader import Wrapped
from ._server import Server
from ._session import Session
from .errors import Cancelled, ConfigError, ConnectionError, Error, InternalError  # noqa: A004

_PATIENCE = 60  # seconds until the daemon must listen; it may still index its datasets then
_LOOK_APART = 0.2  # seconds between two checks that the daemon still runs


class LocalServer(Server):
    """`millraced serve` as a child of this process. It ends on close(), with this process, or when
    nothing refers to it or to one of its sessions any more.

    datasets: folders by dataset id. state: a state folder, which is kept; by default a temporary
    one. skip_bad: leaves out bad files, and files that need them, as if they did not exist.
    cache_bytes, cache_dir, cache_dir_bytes: memory and folder of pipelines with `cache`, as the
    options of millraced; sizes are numbers of bytes, or texts such as "4GiB".
    in_memory: ids of graph datasets that are copied into memory first.
    plugins: folders by the names of the Python modules in them that pipelines may name. Their
    processes run this interpreter (sys.executable).
    Give connect() the server itself as the address. If the daemon ends, calls of the session then
    raise an error that says so.
    """

    def __init__(self, datasets: Mapping[str, str | os.PathLike], *,
                 state: str | os.PathLike | None = None, threads: int | None = None,
                 skip_bad: bool = False, cache_bytes: int | str | None = None,
                 cache_dir: str | os.PathLike | None = None,
                 cache_dir_bytes: int | str | None = None,
                 in_memory: Sequence[str] = (),
                 plugins: Mapping[str, str | os.PathLike] | None = None,
                 log_level: str = "warning"):
        if not isinstance(datasets, Mapping):
            raise ConfigError(f"datasets={datasets!r}: expected folders by dataset id, such as "
                              f"{{'data': '/folder'}}")
        command = [_binaries.path("millraced"), "serve", "--listen", "127.0.0.1:0",
                   "--batch-listen", "127.0.0.1:0", "--log-level", log_level, "--grace", "1",
                   "--stop-with-parent", str(os.getpid())]
        for name, folder in datasets.items():
            command += ["--dataset", f"{name}={os.fspath(folder)}"]
        if skip_bad:
            command += ["--skip-bad"]
        for flag, value in (("--threads", threads), ("--cache-bytes", cache_bytes),
                            ("--cache-dir-bytes", cache_dir_bytes)):
            if value is not None:
                command += [flag, str(value)]
        if in_memory:
            command += ["--in-memory", ",".join(in_memory)]
        if cache_dir is not None:
            command += ["--cache-dir", os.fspath(cache_dir)]
        kept = None if state is None else os.fspath(state)
        self._child = _Child()
        self._end = weakref.finalize(self, self._child.end)
        self._folder = self._child.folder.path
        try:
            port_file = self._folder / "port"
            if plugins:
                command += ["--config", str(self._write_plugins(plugins))]
            self._child.start([*command, "--port-file", str(port_file),
                               "--state", kept or str(self._folder / "state")])
            self.address = self._wait_for(port_file)
        except BaseException:
            self.close()
            raise

    def _write_plugins(self, plugins):
        listed = {name: {"path": os.path.abspath(os.fspath(folder)), "python": sys.executable}
                  for name, folder in plugins.items()}
        config = self._folder / "plugins.yaml"
        config.write_text(json.dumps({"plugins": listed}))  # JSON is YAML
        return config

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
        """Everything that the daemon has written to its log."""
        return self._child.log()

    def close(self) -> None:
        """Ends the daemon and removes its temporary folder."""
        self._end()

    def watch(self, reader: object) -> object:
        """A reader whose calls fail once the daemon has ended; they do not wait for another one."""
        return self._child.watch(reader)

    def __reduce__(self):
        raise ConfigError("a LocalServer cannot be pickled, because it ends with this process: "
                          "give its address to other processes")

    def __enter__(self) -> LocalServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Child:
    """The daemon's process and its folder. This is not the LocalServer itself, so that both can be
    ended when the LocalServer is gone."""

    def __init__(self):
        self.process = None
        self.folder = OwnFolder()
        self._creator = os.getpid()
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._watched = weakref.WeakSet()
        self._watcher = None

    def start(self, command):
        with open(self.folder.path / "log", "wb") as log:
            # The daemon gets a session of its own. Ctrl-C is meant for this process only, but a
            # terminal sends it to the whole foreground process group.
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, start_new_session=True)

    def log(self):
        path = self.folder.path / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def end(self):
        """Ends the daemon, waits for it, and removes the folder. Does nothing in a forked process,
        because the parent still uses both."""
        if os.getpid() != self._creator:
            return
        self._ending.set()
        for watched in self._readers():  # open sessions say good-bye to the daemon first
            watched.close_if_open()
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.remove()

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
        """The error that says how the daemon ended. None if it still runs, if this process ended
        it, or in a forked process."""
        if os.getpid() != self._creator or self._ending.is_set() or self.process.poll() is None:
            return None
        code = self.process.returncode
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        said = self.log().strip()[-2000:]
        return ConnectionError(f"the local daemon (process {self.process.pid}) {how}"
                               f"{': ' + said if said else ', and wrote nothing'}; open another "
                               "session; load this one's state_dict into it to go on")


class _Watched(Wrapped):
    """A reader over a local daemon. Once the daemon has ended, its calls say how."""

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
        """Ends a call of another thread that waits in the reader."""
        with contextlib.suppress(Error):
            self.reader.cancel()

    def close_if_open(self):
        with contextlib.suppress(Error):
            self.reader.close()


def local(datasets: Mapping[str, str | os.PathLike], pipeline: str | os.PathLike | dict, *,
          threads: int | None = None, state: str | os.PathLike | None = None,
          skip_bad: bool = False, cache_bytes: int | str | None = None,
          cache_dir: str | os.PathLike | None = None, cache_dir_bytes: int | str | None = None,
          in_memory: Sequence[str] = (),
          plugins: Mapping[str, str | os.PathLike] | None = None, **options: object) -> Session:
    """Opens a Session over a daemon of its own. The daemon ends with the session, or with this
    process.

    datasets: folders by dataset id, such as {"stdlib": "/data/stdlib"}. threads, state, skip_bad,
    cache_bytes, cache_dir, cache_dir_bytes, in_memory, plugins: as in LocalServer. All other options
    are those of connect().
    """
    server = LocalServer(datasets, state=state, threads=threads, skip_bad=skip_bad,
                         cache_bytes=cache_bytes, cache_dir=cache_dir,
                         cache_dir_bytes=cache_dir_bytes, in_memory=in_memory, plugins=plugins)
    try:
        session = connect(server, pipeline=pipeline, **options)
    except BaseException:
        server.close()
        raise
    session.own(server)
    return session
