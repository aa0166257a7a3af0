"""PyTorch: datasets, loaders, Lightning, and several ranks."""

import numpy
import pytest
from conftest import pipeline

import millrace

torch = pytest.importorskip("torch")


def test_torch_tensors_are_the_delivered_memory(connect):
    session = connect()
    _, batch = next(iter(session.next_epoch()))
    for path in ("edge_source", "node_label", "root"):
        tensor = batch[path].torch()
        assert tensor.data_ptr() == batch[path].data_ptr
        assert tensor.dtype == torch.int32
        assert torch.from_dlpack(batch[path]).data_ptr() == batch[path].data_ptr
        assert torch.as_tensor(batch[path].numpy()).data_ptr() == batch[path].data_ptr
    edges = batch.stack(["edge_source", "edge_target"]).torch()
    assert edges.shape[0] == 2 and edges.data_ptr() == batch["edge_source"].data_ptr
    assert (edges[1] == batch["edge_target"].torch()).all()


def test_a_loader_gives_an_epoch_an_iteration(connect, dataset):
    dataset_of = millrace.torch.IterableDataset(connect())
    loader = torch.utils.data.DataLoader(dataset_of, batch_size=None)
    expected = [[batch["tactic"].tolist() for _, batch in epoch]
                for epoch in millrace.reference(pipeline(), dataset).epochs(2)]
    for epoch in expected:
        assert [given["tactic"].tolist() for given in loader] == epoch
    assert len(loader) == len(expected[0])


def test_a_loader_with_workers_is_refused(connect):
    loader = torch.utils.data.DataLoader(millrace.torch.IterableDataset(connect()), batch_size=None,
                                         num_workers=1, multiprocessing_context="fork")
    with pytest.raises(Exception, match="num_workers=0"):
        next(iter(loader))


def test_a_stateful_loader_goes_on(connect):
    stateful = pytest.importorskip("torchdata.stateful_dataloader")
    whole = [t["tactic"].tolist()
             for t in millrace.torch.IterableDataset(connect(job="whole"), ["tactic"])]
    loader = stateful.StatefulDataLoader(
        millrace.torch.IterableDataset(connect(job="a"), ["tactic"]), batch_size=None)
    iterator = iter(loader)
    head = [next(iterator)["tactic"].tolist() for _ in range(4)]
    state = loader.state_dict()
    other = stateful.StatefulDataLoader(
        millrace.torch.IterableDataset(connect(job="b"), ["tactic"]), batch_size=None)
    other.load_state_dict(state)
    assert head + [t["tactic"].tolist() for t in other] == whole


def test_lightning_trains_and_keeps_the_place(connect, tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen = []

        def training_step(self, batch, _):
            self.seen.append(batch["example_id"].tolist())
            return (self.weight * batch["tactic"].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    session = connect()
    model = Model()
    trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", logger=False,
                                enable_progress_bar=False, enable_model_summary=False,
                                default_root_dir=tmp_path)
    trainer.fit(model, datamodule=millrace.torch.data_module(session))
    assert len(model.seen) == len(session)
    trainer.save_checkpoint(tmp_path / "checkpoint")
    saved = torch.load(tmp_path / "checkpoint", weights_only=False)
    assert session.state_dict() in saved.values() or any(
        session.state_dict() == value for value in saved.values())


def test_tqdm_knows_the_length(connect):
    tqdm = pytest.importorskip("tqdm").tqdm
    session = connect()
    with tqdm(session.next_epoch(), disable=True) as bar:
        assert bar.total is None or bar.total == len(session)
        assert sum(1 for _ in bar) == len(session)


def test_copies_after_expansion_are_none(connect):
    """What the model reads lies in the buffer that the batch was expanded into."""
    session = connect()
    for _, batch in session.next_epoch():
        begin = min(batch[path].data_ptr for path in batch)
        end = max(batch[path].data_ptr + batch[path].nbytes for path in batch)
        for path in batch:
            tensor = batch[path].torch()
            assert begin <= tensor.data_ptr() <= end
            assert numpy.asarray(batch[path]).ctypes.data == tensor.data_ptr()
        break
