"""Sessions: one rank's batches, in order, each exactly once."""

from __future__ import annotations

import bisect
import itertools
import json
import os
import time
import typing
from collections.abc import Iterator

from . import _place, _ranks, _repeat, _report, _spec
from ._core import Batch, PlanReader, SessionReader
from ._epoch import Epoch
from ._host import values
from .errors import Cancelled, ConfigError, Error, JobError

if typing.TYPE_CHECKING:
    from ._local import LocalServer

_STATE_VERSION = 1


def connect(address: str | LocalServer = "127.0.0.1:7700", *, pipeline: str | os.PathLike | dict,
            job: str | None = None, variant: str | None = None,
            set: dict | list[str] | None = None,  # noqa: A002
            rank: int | str | None = None, world_size: int | None = None, mesh: object = None,
            replica: int | None = None, cursor: str | None = None, any_start: bool = False,
            priority: int = 1, index_dtype: str = "int32", micro: int = 1,
            prefetch_bytes: int = 256 << 20, packed: bool = False, shared_memory: bool = True,
            validate: bool = False, repeat_first: bool | int = False, device: str | None = None,
            expanded_batches: int = 2, expanded_bytes: int = 1 << 30,
            connect_timeout: float = 30.0, attach_timeout: float = 0.0,
            log_level: str = "warning") -> Session:
    """Attaches one rank of a job to a dispatcher and gives its Session.

    address: host:port of the dispatcher's control port, of several dispatchers all, with commas
        between them; or a LocalServer.
    pipeline: a path, the YAML text itself, or a dict of it. `variant` names one of its variants,
        `set` changes single keys: {"batch.size": 64}.
    job: the same on all ranks, and of no other training that runs now. By default MILLRACE_JOB,
        torchrun's or Slurm's id, or a name of this session's own where there is one rank.
    rank, world_size: by default torch.distributed's, JAX's, or RANK and WORLD_SIZE; rank="slurm" or
        "mpi" asks for theirs. mesh: a DeviceMesh, whose data-parallel axis counts; ranks that
        differ on its other axes read the same batches.
    cursor: where to go on (Session.cursor); by default the start of epoch 0. any_start: ranks may
        start at different places.
    priority: workers divide their time between jobs that wait by it, 1 (the least, the default)
        to 1,000.
    index_dtype: "int32" or "int64". micro: parts that each batch comes in, as a tuple.
    prefetch_bytes: of packed batches that are received ahead. packed: batches keep their packed
        form, to be saved.
    device: where tensors are delivered: "cpu", or "cuda:0", a GPU of this machine.
        expanded_batches, expanded_bytes: batches that lie there ahead of the loop.
    validate: holds every batch against the spec, in the host's memory. repeat_first: gives the
        first batch again and again (True), or so often (a number): what the training does by itself.
    """
    server = address if hasattr(address, "watch") else None
    if server is not None:
        address = server.address
    place = _ranks.find(rank, world_size, mesh, replica)
    options = {
        "address": address, "pipeline": pipeline_text(pipeline), "variant": variant or "",
        "overrides": overrides(set), "job": job or _default_job(place.world_size),
        "rank": place.rank, "world_size": place.world_size, "replica": place.replica,
        "any_start": any_start, "priority": priority, "index_dtype": index_dtype, "micro": micro,
        "prefetch_bytes": prefetch_bytes, "packed": packed, "shared_memory": shared_memory,
        "device": str(device or "cpu"), "expanded_batches": expanded_batches,
        "expanded_bytes": expanded_bytes,
        "connect_timeout": connect_timeout, "attach_timeout": attach_timeout,
        "log_level": log_level,
    }
    _refuse_forked()
    if validate and options["device"] not in ("cpu", "host"):
        raise ConfigError(f"device={options['device']!r}: validate reads batches in the host's memory")
    import logging  # a tenth of the package's import time

    logging.getLogger("millrace").info(
        "job %s: rank %d of %d (%s), replica %d, dispatcher %s", options["job"], place.rank,
        place.world_size, place.source, place.replica, address)

    def attach(at, peek=False):
        changed = {"cursor": at or ""}
        if peek:  # one batch, by a job of its own
            name = f"{_shortened(options['job'])}/peek-{os.getpid()}-{time.monotonic_ns()}"
            changed.update(job=name, prefetch_bytes=1)
        reader = SessionReader({**options, **changed})
        if server is not None:
            reader = server.watch(reader)
        reader.attach()
        return reader

    return Session(attach, cursor, {"address": address, "job": options["job"], "rank": place.rank,
                                    "world_size": place.world_size, "replica": place.replica,
                                    "micro": micro},
                   validate=validate, repeat_first=repeat_first)


def reference(pipeline: str | os.PathLike | dict, dataset: str | os.PathLike | dict, *,
              variant: str | None = None, set: dict | list[str] | None = None,  # noqa: A002
              rank: int = 0, world_size: int = 1, cursor: str | None = None,
              index_dtype: str = "int32", micro: int = 1,
              index_file: str | os.PathLike | None = None, validate: bool = False,
              repeat_first: bool | int = False) -> Session:
    """A Session without a server: the same batches, built in this process, one after another.

    dataset: the folder of the pipeline's dataset, or a dict of folders by dataset id.
    """
    folders = dataset if isinstance(dataset, dict) else {"": dataset}
    options = {
        "pipeline": pipeline_text(pipeline), "variant": variant or "", "overrides": overrides(set),
        "datasets": {name: os.fspath(folder) for name, folder in folders.items()},
        "index_file": os.fspath(index_file) if index_file else "", "rank": rank,
        "world_size": world_size, "micro": micro, "index_dtype": index_dtype,
    }

    def attach(at):
        return PlanReader({**options, "cursor": at or ""})

    return Session(attach, cursor, {"address": "", "job": "", "rank": rank,
                                    "world_size": world_size, "replica": 0, "micro": micro},
                   validate=validate, repeat_first=repeat_first)


class Session:
    """One rank's batches, in order, each exactly once. Made by connect, local or reference.

    One thread reads; all else may be called from any thread.
    """

    def __init__(self, attach, cursor, about, *, validate=False, repeat_first=False, on_close=None):
        self._attach = attach
        self._about = about
        self._validate = validate
        self._repeat_times = _repeat.times(repeat_first)
        self._on_close = on_close
        self._vocabulary = None
        self._last_labels = None  # by file: definitions with a label in it and those before it
        self._timer = _report.Timer()
        self._begun = None  # a batch of which only some parts were given
        self._broken = False  # what was cancelled or failed gives no more batches
        self._closed = False
        self._last_stats = {}  # of a session that is closed
        self._go_on_at = cursor  # where the reader attaches, while there is none
        self._open = None
        self._attach_reader()

    # --- batches ---

    def __len__(self) -> int:
        """Steps of a whole epoch."""
        return self.spec.steps_per_epoch

    def epochs(self, until: int | None = None) -> Iterator[Epoch]:
        """Epochs from where the session is, as far as number `until` (without it); None: no end.

        A session that goes on in the middle of epoch 3 gives 3, …, until - 1: a loop over
        `epochs(10)` trains ten epochs in all, however often it was interrupted.
        """
        while True:
            epoch = self.next_epoch()
            if until is not None and epoch.number >= until:
                return
            yield epoch

    def next_epoch(self) -> Epoch:
        """What is left of the epoch at hand; the next one where nothing is."""
        if self.at_end:
            try:
                self._reader.next_epoch()
            except Error:
                self._broken = True
                raise
        return Epoch(self, self._reader)

    @property
    def at_end(self) -> bool:
        """Whether all batches of the epoch at hand have been taken."""
        return self._reader.epoch() != self._position()[0]

    @property
    def epoch(self) -> int:
        """The epoch that is being read."""
        return self._reader.epoch()

    @property
    def micro(self) -> int:
        """Parts that each batch comes in."""
        return self._about["micro"]

    @property
    def cursor(self) -> str:
        """What follows the last batch taken, as one line of text; the same on all ranks."""
        return _place.cursor(self.spec.order_fingerprint, *self._position())

    def state_dict(self) -> dict:
        """Where the loop is: small, equal on all ranks after the same step. Batches that were only
        prefetched do not count."""
        return self._state_at(self._position(), self._parts_given())

    def load_state_dict(self, state: dict) -> None:
        """Goes on where `state` was taken; the world size may be another one."""
        self._go_on(*self._read_state(state))

    def seek(self, epoch: int, step: int = 0) -> None:
        """Goes on at a step of an epoch, counted from the epoch's start."""
        self._go_on(self._cursor_of(epoch, step))

    def batch_at(self, epoch: int, step: int) -> Batch | typing.Any:
        """This rank's batch of any step, built for this call; the session's own place stays."""
        at = getattr(self._reader, "at", None)
        if at is not None:  # a plan of this process gives any batch without moving
            return at(epoch, step)
        reader = self._attach(self._cursor_of(epoch, step), peek=True)
        try:
            return reader.next()
        finally:
            reader.close()

    # --- what batches refer to ---

    @property
    def vocabulary(self) -> dict:
        """Names of labels and tactics: node_label_names, edge_label_names, tactics, …"""
        if self._vocabulary is None:
            self._vocabulary = self._reader.vocabulary()
        return self._vocabulary

    def context(self, number: int) -> list[int]:
        """The node labels of a global context, whose number batches hold."""
        return self._reader.context(number)

    def provenance(self, batch: Batch, row: int) -> dict:
        """What row `row` of a batch is, and where it comes: a dict for a person."""
        ids = batch.example_ids
        if not 0 <= row < len(ids):
            raise IndexError(f"row {row}: the batch has {len(ids)} graphs")
        told = {"example": ids[row], "epoch": batch.epoch, "step": batch.step, "rank": batch.rank,
                "row": row}
        describe = getattr(self._reader, "describe", None)
        if describe is not None:
            return {**told, **describe(ids[row])}
        if "definition" in batch:
            label = values(batch["definition"])[row]
        else:  # a cluster's first definition is its first node
            first = values(batch[self.spec.node_splits])[row]
            label = values(batch[self.spec.node_values[0]])[first]
        told["definition"] = self.vocabulary["node_label_names"][label]
        told["file"] = self._file_of(label)
        if "proof_step" in batch:
            told["step_of_proof"] = values(batch["proof_step"])[row]
        return told

    # --- what it did ---

    def stats(self) -> dict:
        """Counts, and seconds waited by cause, since the session was opened; also once it is
        closed."""
        stats = getattr(self._open, "stats", None)
        return stats() if stats is not None else self._last_stats

    def report(self) -> str:
        """Step time, waits by cause and the training's own limit, as text."""
        return _report.text(self._timer, self.stats(), self.held())

    def held(self) -> list[tuple[int, int, list[str]]]:
        """Batches that the program holds: (epoch, step, paths of tensors held)."""
        held = getattr(self._open, "held", None)
        return held() if held is not None else []

    def describe(self) -> dict[str, str | int | float | bool]:
        """Everything that tells one run from another, as a flat dict of numbers and strings."""
        flat = {f"millrace/{name}": value for name, value in self._about.items()}
        for name in ("source", "examples_per_epoch", "batch_size", "global_batch_size", "remainder",
                     "steps_per_epoch", "symmetrization", "edge_labels", "node_labels", "tactics",
                     "fingerprint", "order_fingerprint"):
            flat[f"millrace/{name}"] = getattr(self.spec, name)
        flat["millrace/cursor"] = self.cursor
        return flat

    # --- its end ---

    def cancel(self) -> None:
        """Ends a blocked read of another thread with Cancelled, at once."""
        self._refuse_closed()
        self._broken = True
        cancel = getattr(self._open, "cancel", None)
        if cancel is not None:
            cancel()

    def close(self) -> None:
        """Says good-bye; batches that were taken stay good."""
        self._closed = True
        self._detach()
        if self._on_close is not None:
            self._on_close()
            self._on_close = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- its own ---

    def _file_of(self, label):
        """The file that a definition lies in: labels go from file to file."""
        if self._last_labels is None:
            self._last_labels = list(itertools.accumulate(self.vocabulary["labels_of_file"]))
        file = bisect.bisect_right(self._last_labels, label - self.spec.base_node_labels)
        return self.vocabulary["files"][file]

    @property
    def _reader(self):
        """What batches come from. Attached again where going on elsewhere has failed."""
        self._refuse_closed()
        if self._open is None:
            self._attach_reader()
        return self._open

    def _refuse_closed(self):
        if self._closed:
            raise Cancelled("the session is closed")

    def _attach_reader(self):
        reader = self._attach(self._go_on_at)
        self.spec = _spec.from_dict(reader.spec())
        if self._repeat_times:
            reader = _repeat.Repeating(reader, self._repeat_times, self.spec)
        self._open = reader
        self._broken = False

    def _detach(self):
        reader, self._open = self._open, None
        if reader is None:
            return
        try:
            self._last_stats = reader.stats() if hasattr(reader, "stats") else {}
        except Error:
            pass  # in a forked process
        if self._repeat_times:
            self._repeat_times = reader.left
        reader.close()

    def _position(self):
        """Where the loop is: a batch counts when all of its parts have been given."""
        at = self._reader_position()
        begun = self._begun_if_at(at)
        return begun.before if begun is not None else at

    def _reader_position(self):
        """Where the reader is, or where it will attach."""
        self._refuse_closed()
        reader = self._open
        return reader.position() if reader is not None else _place.position(self._go_on_at)

    def _parts_given(self):
        begun = self._begun_if_at(self._reader_position())
        return begun.given if begun is not None else 0

    def _begun_if_at(self, position):
        """The batch that was given in part, unless the loop has gone past it."""
        begun = self._begun
        return begun if begun is not None and begun.after == position else None

    def _state_at(self, position, parts_given=0):
        """The state of a loop at `position` that was given some parts of the batch there."""
        epoch, example = position
        state = {"version": _STATE_VERSION,
                 "cursor": _place.cursor(self.spec.order_fingerprint, epoch, example),
                 "epoch": epoch, "step": example // self.spec.stride}
        if parts_given:
            state.update(parts_given=parts_given, micro=self._about["micro"],
                         world_size=self._about["world_size"])
        return state

    def _read_state(self, state):
        """The cursor of a state and the parts given of the batch there; raises what is wrong."""
        if not isinstance(state, dict):
            raise ConfigError(f"state_dict: expected what state_dict() gave, got {state!r}")
        if state.get("version") != _STATE_VERSION or "cursor" not in state:
            raise ConfigError(f"state_dict: expected version {_STATE_VERSION} with a cursor, got "
                              f"{sorted(state)} of version {state.get('version')}")
        parts = state.get("parts_given", 0)
        if parts:
            taken = {name: state.get(name) for name in ("micro", "world_size")}
            here = {name: self._about[name] for name in taken}
            if taken != here:
                raise ConfigError(f"state_dict: taken after {parts} parts of a batch with {taken}, "
                                  f"and this session has {here}: open it as the other one was, or "
                                  "take the state between two batches")
        _place.check_cursor(state["cursor"], self.spec.order_fingerprint)
        return state["cursor"], parts

    def _cursor_of(self, epoch, step):
        if epoch < 0:
            raise ConfigError(f"epoch {epoch}: expected a number from 0 on")
        if not 0 <= step < max(1, self.spec.steps_per_epoch):
            raise ConfigError(f"step {step}: an epoch has the steps 0 to "
                              f"{self.spec.steps_per_epoch - 1}")
        return _place.cursor(self.spec.order_fingerprint, epoch, step * self.spec.stride)

    def _go_on(self, cursor, parts_given=0):
        self._refuse_closed()
        begun = self._begun
        if self._open is not None:
            here, given_here = self.cursor, self._parts_given()
            if (cursor, parts_given) == (here, given_here) and not self._broken:
                return
            self._go_on_at = here
            begun = self._begun_at(self._position(), given_here)
        self._begun = None
        self._detach()
        before, self._go_on_at = self._go_on_at, cursor
        try:
            self._attach_reader()
        except BaseException:
            # The session stays where it was: it attaches there when it is asked for more.
            self._go_on_at, self._begun = before, begun
            raise
        self._begun = self._begun_at(self._open.position(), parts_given)

    @staticmethod
    def _begun_at(position, parts_given):
        """A batch that the reader has yet to give, and whose first parts shall be left out."""
        return _place.Begun(position, position, parts_given, None) if parts_given else None


def pipeline_text(pipeline):
    """The YAML text of a path, a text or a dict."""
    if isinstance(pipeline, dict):
        return json.dumps(pipeline)  # JSON is YAML
    if isinstance(pipeline, str) and ("\n" in pipeline or pipeline.lstrip().startswith("{")):
        return pipeline
    try:
        with open(pipeline, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"pipeline {pipeline}: {error.strerror}", "NOT_FOUND") from error


def overrides(changes):
    """{"batch.size": 64} or ["batch.size=64"], as the compiled part takes them."""
    if changes is None:
        return []
    if isinstance(changes, dict):
        return [f"{key}={_yaml(value)}" for key, value in changes.items()]
    if isinstance(changes, str) or not all(isinstance(change, str) for change in changes):
        raise ConfigError("set=: expected a dict of keys, {'batch.size': 64}, or a list of "
                          f"'key=value', got {changes!r}")
    return list(changes)


def _shortened(job):
    """As much of a job's name as leaves room for more: the dispatcher takes 128 bytes."""
    return job.encode()[:80].decode(errors="ignore")


def _yaml(value):
    return value if isinstance(value, str) else json.dumps(value)


_network_of = []  # the process whose threads the network library has started, once it has


def _refuse_forked():
    """gRPC does not survive a fork: a child of a process that used it would hang."""
    if not _network_of:
        _network_of.append(os.getpid())
    elif _network_of[0] != os.getpid():
        raise JobError(f"this process was forked from process {_network_of[0]}, which has used "
                       "millrace: start it with the method 'spawn', or connect after the fork only")


_nameless = itertools.count(1)  # sessions of this process that nobody gave a job's name


def _default_job(world_size):
    for name in ("MILLRACE_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        if os.environ.get(name) not in (None, "", "none"):
            return os.environ[name]
    if world_size == 1:
        return f"{os.uname().nodename}-{os.getpid()}-{next(_nameless)}"
    raise ConfigError("job=: all ranks need one name, and no other training that runs now has it")
