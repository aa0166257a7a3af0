"""Sessions: one rank's batches, in order, each exactly once."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence

from . import _coq, _packed, _report
from ._core import Batch
from ._epoch import Epoch, micro_batches_of
from ._host import values
from ._pickling import OfThisProcess
from ._reading import Place, Reading
from ._server import Server
from ._spec import Spec
from ._tables import Tables
from .errors import ConfigError, DataError


class Session(OfThisProcess):
    """One rank's batches, in order, each exactly once. Made by connect, local or reference.

    Only one thread may read. Everything else may be called from any thread.
    """

    def __init__(self, attach, cursor, about, *, validate=False, repeat_first=False,
                 alone=True):
        self._about = about
        self._validate = validate
        self._vocabulary = None
        self._own_server = None
        # For the package's own modules: the loop's place, and the reader.
        self.reading = Reading(attach, cursor, about, repeat_first, alone)
        self._tables = Tables(self.reading)

    @property
    def spec(self) -> Spec:
        """The spec that every batch keeps to."""
        return self.reading.spec

    # --- batches ---

    def __len__(self) -> int:
        """Steps of a whole epoch."""
        return self.spec.steps_per_epoch

    def epochs(self, until: int | None = None) -> Iterator[Epoch]:
        """Epochs from the session's place up to number `until` (without it); None: without end.

        A session that goes on in the middle of epoch 3 gives 3, …, until - 1: a loop over
        `epochs(10)` trains ten epochs in all, however often it was interrupted. If the loop leaves
        an epoch in its middle, the rest comes next. If it takes nothing of an epoch, the session
        goes on to the next one.
        """
        while True:
            epoch = self.next_epoch()
            if until is not None and epoch.number >= until:
                return
            turn, place = self.reading.turn, self.reading.place()
            yield epoch
            if self.reading.untouched(turn, place):
                self.reading.skip(len(epoch))

    def next_epoch(self) -> Epoch:
        """The rest of the current epoch, or the next epoch if nothing is left."""
        self.reading.next_epoch()
        return Epoch(self)

    @property
    def at_end(self) -> bool:
        """Whether all batches of the current epoch have been taken."""
        return self.reading.at_end()

    @property
    def epoch(self) -> int:
        """The epoch that is being read."""
        return self.reading.reader.epoch()

    @property
    def micro(self) -> int:
        """Parts that each batch comes in."""
        return self._about["micro"]

    @property
    def cursor(self) -> str:
        """The place after the last batch taken, as one line of text; the same on all ranks."""
        return self.reading.cursor()

    def state_dict(self) -> dict:
        """The loop's place, as a small dict that is equal on all ranks after the same step. Batches
        that were only prefetched do not count."""
        return self.reading.state_at(self.reading.place())

    def load_state_dict(self, state: dict) -> None:
        """Goes on where `state` was taken. The world size may be another one, unless the state was
        taken between two parts of a batch. A training of several ranks that starts gives the state
        to connect, as its cursor: a rank that moves before another one has attached locks that one
        out."""
        self.reading.go_on(self.reading.read_state(state))

    def seek(self, epoch: int, step: int = 0) -> None:
        """Goes on at a step of an epoch, counted from the epoch's start."""
        self.reading.go_on(Place(self.reading.places.at(epoch, step)))

    def batch_at(self, epoch: int, step: int) -> Batch | typing.Any:
        """This rank's batch of any step, built for this call. The session does not move."""
        return self.reading.reader.at(epoch, step)

    def batch_of(self, examples: Sequence[int], epoch: int = 0) -> Batch:
        """One batch of the examples with these ids, in this order, built outside the order of
        epochs, with the draws of this epoch. The pipeline's filters and split do not matter. If the
        pipeline packs documents, its examples are rows: ids are numbers of rows, of documents that
        split and filter select. Only a session of millrace.reference can do it; it does not move.
        """
        reader = self.reading.reader
        if not hasattr(reader, "of_examples"):
            raise ConfigError("batch_of: expected a session that builds its batches itself: "
                              "millrace.reference(pipeline, dataset)")
        return reader.of_examples(list(examples), epoch)

    # --- what batches refer to ---

    @property
    def tables(self) -> Mapping[str, dict[str, list]]:
        """What numbers in batches refer to, such as the names of labels: table → column → values.
        `spec.tables` says which there are, and `spec[path].table` the one of a tensor."""
        return self._tables

    @property
    def vocabulary(self) -> dict:
        """Names of a kind of datasets that has a vocabulary: node_label_names, edge_label_names, …"""
        if self._vocabulary is None:
            self._vocabulary = self.reading.reader.vocabulary()
        return self._vocabulary

    def context(self, number: int) -> list[int]:
        """The node labels of a global context, whose number batches hold."""
        return self.reading.reader.context(number)

    def provenance(self, batch: Batch, row: int) -> dict:
        """The example in row `row` of a batch and its origin, as a dict for a person to read. If the
        pipeline cuts examples, it has the number of the chunk, which the tensor `chunk` says.

        If the pipeline packs documents, `example` is the number of the packed row, and `pieces`
        lists what lies in it, in order: {"document": id, "begin": first element in the document,
        "length": elements}. Pieces of documents that were dropped are not there, as they are not in
        the batch. A session with a dispatcher reads them from the batch, and has no `pieces` unless
        `output` of the pipeline names pack.documents, pack.begins and pack.lengths. A session of
        millrace.reference always has them.
        """
        ids = batch.example_ids
        if not 0 <= row < len(ids):
            raise IndexError(f"row {row}: the batch has {len(ids)} examples")
        told = {"example": ids[row], "epoch": batch.epoch, "step": batch.step, "rank": batch.rank,
                "row": row}
        if "chunk" in batch:
            chunk = values(batch["chunk"])
            if chunk.ndim == 1 and chunk.format in "bBhHiIlLqQ":
                told["chunk"] = chunk[row]
        reader = self.reading.reader
        origin = reader.describe(ids[row])
        pieces = _packed.pieces(batch, row)
        if pieces is None and hasattr(reader, "pieces"):
            pieces = reader.pieces(ids[row], batch.epoch)
        if pieces is not None:
            return {**told, **_packed.without_planned(origin or {}), "pieces": pieces}
        if origin is not None:
            return {**told, **origin}
        return {**told, **_coq.origin(batch, row, self.spec, self.tables)}

    # --- what it did ---

    def stats(self) -> dict:
        """Counts, and seconds waited by cause, since the session was opened or last went on
        elsewhere. `tokens` are those of packed rows, or of datasets of tokens; `pieces_lost` counts
        pieces of packed documents that rows lack, by the reason for which the documents are dropped.
        A closed session still has the counts."""
        return self.reading.stats()

    def report(self) -> str:
        """Step time, waits by cause and the training's own limit, as text."""
        return _report.text(self.reading.timer, self.stats(), self.held())

    def held(self) -> list[tuple[int, int, list[str]]]:
        """Batches that the program holds: (epoch, step, paths of tensors held)."""
        return self.reading.held()

    def describe(self) -> dict[str, str | int | float | bool]:
        """Everything that tells one run from another, as a flat dict of numbers and strings."""
        flat = {f"millrace/{name}": value for name, value in self._about.items()}
        spec = vars(self.spec)
        for name in ("source", "examples_per_epoch", "batch_size", "global_batch_size", "remainder",
                     "steps_per_epoch", "symmetrization", "edge_labels", "fingerprint",
                     "order_fingerprint"):
            flat[f"millrace/{name}"] = spec[name]
        for table in self.spec.tables.values():
            flat[f"millrace/rows/{table.name}"] = table.rows
        flat["millrace/cursor"] = self.cursor
        return flat

    # --- its end ---

    def cancel(self) -> None:
        """Ends a blocked read of another thread at once. That read raises Cancelled."""
        self.reading.cancel()

    def close(self) -> None:
        """Ends the session and tells the dispatcher. Batches that were taken stay valid."""
        self.reading.close()
        if self._own_server is not None:
            self._own_server.close()
            self._own_server = None

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- for the package's own modules ---

    def own(self, server: Server) -> None:
        """Takes over `server`: the session closes it when it is closed itself."""
        self._own_server = self.server = server

    def validator(self):
        """A function that raises DataError for a wrong batch; None if batches are not validated."""
        if not self._validate:
            return None
        from ._validate import check  # needs numpy

        def run(batch):
            for one in micro_batches_of(batch):
                problem = check(one, self.spec)
                if problem is None:
                    continue
                row, what = problem
                where = self.provenance(one, row) if row is not None else {}
                raise DataError(f"batch of epoch {one.epoch}, step {one.step}: {what}"
                                + (f"; row {row}: {where}" if where else ""))
        return run
