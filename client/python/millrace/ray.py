"""Ray: daemons as actors, and a session for each worker of ray.train.

    fleet = millrace.ray.start({"papers": "/data/papers"}, workers=4, tls="/shared/tls")

    def train(config):
        with millrace.ray.connect(config["fleet"], pipeline="train.yaml") as session:
            for epoch in session.epochs(10): ...

    TorchTrainer(train, train_loop_config={"fleet": fleet.address}, ...).fit()

An actor that ends, or whose daemon ends, is started again by Ray, on another node if its node is
gone. Trainings go on meanwhile, with the same bytes. docs/guides/ray.md has the rest.
"""

from __future__ import annotations

import errno
import os
import pathlib
import socket
import subprocess
import threading
import time
import typing
from collections.abc import Mapping

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from . import _binaries, _open
from ._own_folder import OwnFolder
from ._session import Session
from .errors import ConfigError, ConnectionError, JobError  # noqa: A004

_PATIENCE = 60  # seconds until a daemon must listen


class Daemon:
    """One `millraced`, and the actor's only work: the actor ends when the daemon does, and the
    daemon when the actor does. Ray starts actors of this class again."""

    def __init__(self, role: str, arguments: list[str], host: str | None, port: int):
        """host: where to listen; None: at this node's address. port: 0 for any."""
        self._folder = OwnFolder()
        folder = self._folder.path
        host = host or ray.util.get_node_ip_address()
        if port:
            _wait_until_free(host, port)  # by the daemon of the actor before this one
        listen = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        flag = "--listen" if role == "dispatcher" else "--batch-listen"
        command = [_binaries.path("millraced"), role, flag, listen, "--port-file",
                   str(folder / "port"), "--stop-with-parent", str(os.getpid()), *arguments]
        if role == "dispatcher" and "--state" not in arguments:
            command += ["--state", str(folder / "state")]
        with open(folder / "log", "wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log,
                                             stderr=log)
        self._log = folder / "log"
        self._stopping = threading.Event()
        self._address = self._wait_for(folder / "port")
        threading.Thread(target=self._watch, daemon=True, name="millrace-daemon").start()

    def _wait_for(self, port_file):
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            if port_file.exists() and (text := port_file.read_text().strip()):
                return text.splitlines()[0]
            if self._process.poll() is not None:
                raise ConfigError(f"millraced ended with {self._process.returncode}: {self.log()}")
            time.sleep(0.01)
        self._process.kill()
        raise ConnectionError(f"millraced does not listen after {_PATIENCE} s: {self.log()}")

    def _watch(self):
        code = self._process.wait()
        if not self._stopping.is_set():
            print(f"millraced ended with {code}: {self.log()}", flush=True)
            self._folder.remove()
            os._exit(1)

    def address(self) -> str:
        """Where the daemon listens."""
        return self._address

    def log(self) -> str:
        """The end of the daemon's log."""
        return self._log.read_text(errors="replace").strip()[-4000:]

    def pid(self) -> int:
        """The process of the daemon."""
        return self._process.pid

    def stop(self) -> None:
        """Ends the daemon as SIGTERM does: a worker first finishes what it owes."""
        self._stopping.set()
        self._process.terminate()
        self._process.wait()
        self._folder.remove()


class Fleet:
    """Daemons that this program has started. They end on close(), or with the program."""

    def __init__(self, address: str, dispatcher: typing.Any, new_worker, workers: int):
        self._dispatcher = dispatcher
        self._new_worker = new_worker
        self._address = address
        self._workers: list[typing.Any] = []
        self.resize(workers)

    @property
    def address(self) -> str:
        """The dispatcher's address, which `connect` takes. A training may be given it as text."""
        return self._address

    @property
    def dispatcher(self) -> typing.Any:
        """The dispatcher's actor; None if the fleet joined another's dispatcher."""
        return self._dispatcher

    @property
    def workers(self) -> list[typing.Any]:
        """The workers' actors."""
        return list(self._workers)

    def resize(self, workers: int) -> None:
        """Starts workers, or ends those that came last, which finish first what they owe."""
        if workers < 0:
            raise ConfigError(f"workers={workers}: expected 0 or more")
        added = [self._new_worker() for _ in range(workers - len(self._workers))]
        gone = self._workers[workers:]
        self._workers = self._workers[:workers] + added
        _end(gone)
        ray.get([worker.address.remote() for worker in added])

    def close(self) -> None:
        """Ends all daemons of the fleet: workers first."""
        _end(self._workers)
        self._workers = []
        if self._dispatcher is not None:
            _end([self._dispatcher])
            self._dispatcher = None

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _end(actors):
    stopped = [actor.stop.remote() for actor in actors]
    if stopped:
        ray.wait(stopped, num_returns=len(stopped), timeout=30)
    for actor in actors:
        ray.kill(actor)


def start(datasets: Mapping[str, str | os.PathLike], *, workers: int = 1,
          dispatcher: str | None = None, tls: str | os.PathLike | None = None,
          insecure: bool = False, worker_cpus: float = 1, port: int = 0,
          state: str | os.PathLike | None = None, worker_options: list[str] | tuple[str, ...] = (),
          actor_options: Mapping[str, object] | None = None) -> Fleet:
    """Starts a dispatcher and workers as actors of Ray, and gives their Fleet.

    datasets: folders by dataset id, the same on all nodes. dispatcher: the address of one that runs
    already; by default one is started on this node. port: of that dispatcher; 0: a free one.
    state: its state folder, by default a temporary one.
    worker_cpus: CPUs of Ray's that each worker takes, and the threads that it builds with.
    worker_options: further options of `millraced worker`, such as ["--memory-limit", "8GiB"].
    actor_options: further options of the workers' actors, such as {"resources": {"cpu_host": 1}}.

    tls: a folder that `millrace certs` has made, the same on all nodes; trainers then need
    tls=FOLDER/trainer. insecure: whether to do without; everybody who reaches the daemons can then
    read the datasets. Without either, all daemons run on this node, and serve this node only.
    """
    if not isinstance(datasets, Mapping) or not datasets:
        raise ConfigError(f"datasets={datasets!r}: expected folders by dataset id, such as "
                          "{'data': '/folder'}")
    if tls is not None and insecure:
        raise ConfigError("insecure=True: expected without tls, which is given too")
    if not ray.is_initialized():
        ray.init()
    common = [word for name, folder in datasets.items()
              for word in ("--dataset", f"{name}={os.fspath(folder)}")]
    if insecure:
        common += ["--insecure"]
    near = tls is None and not insecure
    host = "127.0.0.1" if near else None
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)

    def actor(role, arguments, options, at_port=0):
        secured = ["--tls", str(pathlib.Path(tls) / role)] if tls is not None else []
        remote = ray.remote(Daemon).options(max_restarts=-1, max_task_retries=-1, **options)
        return remote.remote(role, [*common, *secured, *arguments], host, at_port)

    lead = None
    if dispatcher is None:
        # A dispatcher that is started again has to listen where the first one did.
        at_port = port or _bind(host or ray.util.get_node_ip_address(), 0)
        kept = [] if state is None else ["--state", os.fspath(state)]
        lead = actor("dispatcher", kept, {"num_cpus": 0, "scheduling_strategy": here}, at_port)
        dispatcher = ray.get(lead.address.remote())
    threads = max(1, int(worker_cpus))

    def new_worker():
        options = {"num_cpus": worker_cpus, **({"scheduling_strategy": here} if near else
                                               {"scheduling_strategy": "SPREAD"}),
                   **(actor_options or {})}
        return actor("worker", ["--dispatcher", dispatcher, "--threads", str(threads),
                                *worker_options], options)

    return Fleet(dispatcher, lead, new_worker, workers)


def _bind(host, port):
    """Takes a port for a moment, and says which."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tried.bind((host, port))
        return tried.getsockname()[1]


def _wait_until_free(host, port):
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return _bind(host, port)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > end:
                raise ConnectionError(f"port {port} of {host}: {error.strerror}") from error
            time.sleep(0.1)


def connect(fleet: str | Fleet, *, pipeline: str | os.PathLike | dict, job: str | None = None,
            **options: typing.Any) -> Session:
    """Attaches a worker of ray.train to a fleet: its rank and the world size are ray.train's.

    job: by default the name of ray.train's run. All other options are those of millrace.connect.
    """
    from ray import train

    given = [name for name in ("rank", "world_size", "mesh") if options.get(name) is not None]
    if given:
        raise ConfigError(f"{given[0]}=: ray.train says which rank this worker is; use "
                          "millrace.connect to say it yourself")
    try:
        context = train.get_context()
        rank, size = context.get_world_rank(), context.get_world_size()
        if rank is None or size is None:
            raise RuntimeError("no rank")
        name = job or context.get_experiment_name()
    except (RuntimeError, AttributeError) as error:
        raise JobError("millrace.ray.connect: expected to be called in a worker of ray.train "
                       f"({error})") from error
    return _open.connect(fleet.address if isinstance(fleet, Fleet) else fleet, pipeline=pipeline,
                         job=name, rank=rank, world_size=size, **options)
