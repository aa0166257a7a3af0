"""PyTorch: batches as dicts of tensors.

    dataset = millrace.torch.IterableDataset(session)
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)

The session prefetches by itself: a loader takes no workers. Tensors share the batch's memory.
"""

import torch

from .errors import ConfigError


def tensors(batch, paths=None):
    """Tensors of a batch by path, over the same memory. Bytes of strings stay bytes, with splits."""
    return {path: batch[path].torch() for path in (paths or batch)}


class IterableDataset(torch.utils.data.IterableDataset):
    """Each iteration is an epoch, or what is left of one.

    paths: those wanted; None: all. map: called with each dict, its result is given instead. Has
    state_dict and load_state_dict as torchdata's StatefulDataLoader asks for them.
    """

    def __init__(self, session, paths=None, map=None):  # noqa: A002
        super().__init__()
        self.session = session
        self._paths = paths
        self._map = map

    def __iter__(self):
        if torch.utils.data.get_worker_info() is not None:
            raise ConfigError("a DataLoader over a session takes num_workers=0: the session's own "
                              "threads receive and expand batches ahead of the loop")
        for _, batch in self.session.next_epoch():
            parts = batch if type(batch) is tuple else (batch,)
            del batch
            for part in parts:
                given = tensors(part, self._paths)
                del part
                yield given if self._map is None else self._map(given)
                del given
            del parts

    def __len__(self):
        return len(self.session)

    def state_dict(self):
        return self.session.state_dict()

    def load_state_dict(self, state):
        self.session.load_state_dict(state)


def data_module(train, validation=None, **options):
    """A LightningDataModule over sessions; its state goes into Lightning's checkpoints."""
    try:
        from lightning.pytorch import LightningDataModule
    except ImportError:
        from pytorch_lightning import LightningDataModule

    class DataModule(LightningDataModule):
        def train_dataloader(self):
            return _loader(train, options)

        def val_dataloader(self):
            return [] if validation is None else _loader(validation, options)

        def state_dict(self):
            return train.state_dict()

        def load_state_dict(self, state_dict):
            train.load_state_dict(state_dict)

    return DataModule()


def _loader(session, options):
    return torch.utils.data.DataLoader(IterableDataset(session, **options), batch_size=None)
