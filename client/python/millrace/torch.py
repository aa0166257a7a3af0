"""PyTorch: batches as dicts of tensors.

    dataset = millrace.torch.IterableDataset(session)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)

The session prefetches by itself, so a loader takes no workers. Tensors share the batch's memory.

With Accelerate, prepare the model and the optimizer, and call register_for_checkpointing(session).
Never prepare the loader: it would then cut the first rank's batches into pieces and deal these out
to all ranks.
"""

import sys

import torch

from ._epoch import micro_batches
from .errors import ConfigError


def tensors(batch, paths=None):
    """Tensors of a batch by path, over the same memory. Strings stay bytes with their splits."""
    return {path: batch[path].torch() for path in (paths or batch)}


def nested(batch, path):
    """A tensor that splits cut, as a nested tensor (layout torch.jagged) over the same memory: one
    part for each example."""
    values, splits = _ragged(batch, path)
    return torch.nested.nested_tensor_from_jagged(values, splits.long())


def padded(batch, path, value=0):
    """A tensor that splits cut, as (dense, lengths): dense[i, :lengths[i]] are the rows of example i,
    and `value` is after them."""
    values, splits = _ragged(batch, path)
    lengths = splits.diff()
    longest = int(lengths.max()) if len(lengths) else 0
    dense = values.new_full((len(lengths), longest, *values.shape[1:]), value)
    dense[torch.arange(longest, device=values.device) < lengths[:, None]] = values
    return dense, lengths


def varlen(batch):
    """(cu_seqlens, max_seqlen) of packed rows, as flash-attention's varlen functions take them: the
    int32 tensor pack.cu_seqlens, on its device, and the elements of the longest piece as an int,
    padding included. The int waits for the device; the pipeline's pack.size, or pad.pack.to, is a
    max_seqlen that waits for nothing.

    batch: a batch, one of its parts, or a dict of tensors as `tensors` gives it.
    """
    if _SEQLENS not in batch:
        raise ConfigError(f"{_SEQLENS}: the batch has no such tensor; name it in the pipeline's "
                          "`output`, beside the stage `pack`")
    offsets = batch[_SEQLENS]
    if not isinstance(offsets, torch.Tensor):
        offsets = offsets.torch()
    longest = int(offsets.diff().max()) if len(offsets) > 1 else 0
    return offsets, longest


_SEQLENS = "pack.cu_seqlens"


def _ragged(batch, path):
    splits = batch[path].splits
    if not splits:
        raise ConfigError(f"{path}: it has one row for each example, nothing cuts it")
    return batch[path].torch(), batch[splits].torch()


_WORKERS = ("a DataLoader over a session takes num_workers=0: the session's own threads receive "
            "and expand batches ahead of the loop")
_BATCHES = ("a DataLoader over a session takes batch_size=None: the session gives whole batches, "
            "of which the loader would make batches again")


class IterableDataset(torch.utils.data.IterableDataset):
    """Each iteration is an epoch, or what is left of one.

    paths: the tensors wanted; None: all. map: a function that is called with each dict; its result
    is given instead. whole: for validation; each iteration begins with the epoch's first batch,
    even if the last one was broken off. state_dict and load_state_dict are there for torchdata's
    StatefulDataLoader.
    """

    def __init__(self, session, paths=None, map=None, whole=False):  # noqa: A002
        super().__init__()
        self.session = session
        self._paths = paths
        self._map = map
        self._whole = whole

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise ConfigError(_WORKERS)
        # The loader tells a dataset nothing. What fetches for it begins the iteration.
        if sys._getframe(1).f_locals.get("auto_collation"):
            raise ConfigError(_BATCHES)
        return self._epoch()

    def __reduce__(self):
        raise ConfigError(_WORKERS)  # it is on its way to a worker

    def _epoch(self):
        if self._whole and not self.session.at_end:
            self.session.seek(self.session.epoch)
        for batch in micro_batches(self.session):
            given = tensors(batch, self._paths)
            del batch
            yield given if self._map is None else self._map(given)
            del given

    def __len__(self):
        return len(self.session) * self.session.micro

    def state_dict(self):
        return self.session.state_dict()

    def load_state_dict(self, state):
        self.session.load_state_dict(state)


def data_module(train, validation=None, **options):
    """A LightningDataModule over sessions. The training's place goes into Lightning's checkpoints.

    train, validation: sessions, or functions that open them. With several ranks, give functions:
    Lightning tells a process its rank only when it fits. options: those of IterableDataset.
    """
    try:
        from lightning.pytorch import LightningDataModule
    except ImportError:
        from pytorch_lightning import LightningDataModule

    class DataModule(LightningDataModule):
        def __init__(self):
            super().__init__()
            self.session = None
            self.validation_session = None

        def setup(self, stage=None):
            del stage
            if self.session is None:
                self.session = train() if callable(train) else train
                self.validation_session = validation() if callable(validation) else validation

        def train_dataloader(self):
            return _loader(self.session, options)

        def val_dataloader(self):
            if self.validation_session is None:
                return []
            return _loader(self.validation_session, {**options, "whole": True})

        def state_dict(self):
            return self.session.state_dict()

        def load_state_dict(self, state_dict):
            self.session.load_state_dict(state_dict)

    return DataModule()


def _loader(session, options):
    return torch.utils.data.DataLoader(IterableDataset(session, **options), batch_size=None)
