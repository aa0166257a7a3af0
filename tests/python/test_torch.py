"""PyTorch: datasets, loaders, Lightning, and several ranks."""

import io
import json
import pathlib
import subprocess
import sys
import warnings

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


def test_what_splits_cut_is_padded_or_nested(dataset):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    rows = [batch.row(i)["node_label"] for i in range(batch.num_graphs)]
    dense, lengths = millrace.torch.padded(batch, "node_label", value=-7)
    assert dense.shape == (batch.num_graphs, max(map(len, rows)))
    assert lengths.tolist() == [len(row) for row in rows]
    for given, row in zip(dense, rows):
        assert given[:len(row)].tolist() == row.tolist()
        assert (given[len(row):] == -7).all()
    nested = millrace.torch.nested(batch, "node_label")
    assert [part.tolist() for part in nested.unbind()] == [row.tolist() for row in rows]
    assert nested.values().data_ptr() == batch["node_label"].data_ptr
    with pytest.raises(millrace.ConfigError, match="root: it has one row for each example"):
        millrace.torch.padded(batch, "root")


class Offsets:
    """A tensor of a batch, as far as varlen knows it."""

    def __init__(self, values):
        self.values = torch.tensor(values, dtype=torch.int32)

    def torch(self):
        return self.values


@pytest.mark.parametrize("offsets, longest", [([0], 0), ([0, 5], 5), ([0, 5, 8, 16, 20], 8)])
def test_varlen_gives_offsets_and_the_longest_piece(offsets, longest):
    held = Offsets(offsets)
    for batch in ({"pack.cu_seqlens": held}, {"pack.cu_seqlens": held.values}):
        given, most = millrace.torch.varlen(batch)
        assert given.data_ptr() == held.values.data_ptr()
        assert given.dtype == torch.int32 and given.tolist() == offsets
        assert type(most) is int and most == longest


def test_varlen_of_a_batch_without_offsets_says_what_to_name(connect):
    _, batch = next(iter(connect().next_epoch()))
    with pytest.raises(millrace.ConfigError, match="pack.cu_seqlens: .*name it in the pipeline's"):
        millrace.torch.varlen(batch)


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


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_loader_with_started_workers_is_refused(connect, method):
    loader = torch.utils.data.DataLoader(millrace.torch.IterableDataset(connect()), batch_size=None,
                                         num_workers=1, multiprocessing_context=method)
    with pytest.raises(millrace.ConfigError, match="num_workers=0"):
        next(iter(loader))


@pytest.mark.parametrize("options", [{}, {"batch_size": 4}, {"batch_size": 4, "collate_fn": list}])
def test_a_loader_that_would_batch_again_is_refused(connect, options):
    session = connect()
    for mapped in (None, lambda given: given["tactic"]):
        loader = torch.utils.data.DataLoader(millrace.torch.IterableDataset(session, map=mapped),
                                             **options)
        with pytest.raises(millrace.ConfigError, match="batch_size=None"):
            next(iter(loader))
    assert session.state_dict()["step"] == 0


def test_a_loader_counts_the_parts_of_batches(dataset):
    session = millrace.reference(pipeline(), dataset, micro=3)
    loader = torch.utils.data.DataLoader(millrace.torch.IterableDataset(session), batch_size=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # torch warns if a dataset gives more than its length
        given = sum(1 for _ in loader)
    assert given == len(loader) == 3 * len(session)


def test_a_state_between_parts_of_a_batch_loses_none(dataset):
    def open_dataset():
        return millrace.torch.IterableDataset(millrace.reference(pipeline(), dataset, micro=4),
                                              ["example_id"])

    expected = [given["example_id"].tolist() for given in open_dataset()]
    first, other = open_dataset(), open_dataset()
    head = [given["example_id"].tolist() for _, given in zip(range(6), first)]
    other.load_state_dict(first.state_dict())
    assert head + [given["example_id"].tolist() for given in other] == expected


def test_a_broken_off_epoch_goes_on_unless_it_is_wanted_whole(connect):
    for whole in (False, True):
        session = connect(job=f"broken off {whole}")
        loader = torch.utils.data.DataLoader(
            millrace.torch.IterableDataset(session, ["example_id"], whole=whole), batch_size=None)
        first = [given["example_id"].tolist() for _, given in zip(range(3), loader)]
        again = [given["example_id"].tolist() for given in loader]
        assert len(again) == len(session) - (0 if whole else 3)
        assert (again[:3] == first) == whole
        assert sum(1 for _ in loader) == len(session)  # the next epoch
        assert session.epoch == 1


def test_the_map_is_what_is_given(connect):
    mapped = millrace.torch.IterableDataset(connect(), ["tactic", "example_id"],
                                            map=lambda given: (sorted(given), given["tactic"] + 1))
    paths, tactic = next(iter(torch.utils.data.DataLoader(mapped, batch_size=None)))
    assert paths == ["example_id", "tactic"] and tactic.min() >= 1


@pytest.mark.parametrize("taken", [0, 4, None])
def test_a_stateful_loader_goes_on(connect, taken):
    """It goes on from the start, the middle and the end of an epoch, and into the next one."""
    stateful = pytest.importorskip("torchdata.stateful_dataloader")

    def loader(job):
        return stateful.StatefulDataLoader(
            millrace.torch.IterableDataset(connect(job=f"{job} {taken}"), ["tactic"]),
            batch_size=None)

    whole = loader("whole")
    expected = [[t["tactic"].tolist() for t in whole] for _ in range(2)]
    first = loader("a")
    count = len(expected[0]) if taken is None else taken
    iterator = iter(first)
    head = [next(iterator)["tactic"].tolist() for _ in range(count)]
    assert taken is not None or next(iterator, None) is None
    other = loader("b")
    other.load_state_dict(first.state_dict())
    rest = [t["tactic"].tolist() for t in other]
    if count == len(expected[0]):
        assert head == expected[0] and rest == expected[1]
    else:
        assert head + rest == expected[0]
    if rest != expected[1]:
        assert [t["tactic"].tolist() for t in other] == expected[1]


def lightning_model():
    lightning = pytest.importorskip("lightning.pytorch")

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen = []
            self.validated = []

        def training_step(self, batch, _):
            self.seen.append(batch["example_id"].tolist())
            return (self.weight * batch["tactic"].float()).mean()

        def on_validation_epoch_start(self):
            self.validated.append([])

        def validation_step(self, batch, _):
            self.validated[-1].append(batch["example_id"].tolist())

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    return Model()


def trainer(tmp_path, **options):
    from lightning.pytorch import Trainer
    return Trainer(accelerator="cpu", logger=False, enable_progress_bar=False,
                   enable_model_summary=False, default_root_dir=tmp_path, **options)


def ids(dataset, epochs):
    """The example ids of each step."""
    session = millrace.reference(pipeline(), dataset)
    return [batch.example_ids for epoch in session.epochs(epochs) for _, batch in epoch]


def test_lightning_goes_on_where_a_checkpoint_is(connect, dataset, tmp_path):
    """The checkpoints are in the middle of an epoch and at its end."""
    model = lightning_model()
    from lightning.pytorch.callbacks import ModelCheckpoint

    module = millrace.torch.data_module(connect(job="whole"))
    steps = len(millrace.reference(pipeline(), dataset))
    trainer(tmp_path, max_epochs=2, callbacks=[
        ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=5, save_top_k=-1),
        ModelCheckpoint(tmp_path, "end", every_n_epochs=1, save_on_train_epoch_end=True,
                        monitor="step", mode="min"),
    ]).fit(model, datamodule=module)
    assert model.seen == ids(dataset, 2)
    second = steps // 5 * 5 + 5
    for name, done in (("step=5", 5), (f"step={second}", second), ("end", steps)):
        other = lightning_model()
        trainer(tmp_path, max_epochs=2).fit(
            other, datamodule=millrace.torch.data_module(lambda: connect(job=f"from {name}")),
            ckpt_path=tmp_path / f"{name}.ckpt")
        assert other.seen == model.seen[done:], name


def test_lightning_validates_on_all_of_it_each_time(connect, dataset, tmp_path):
    """Each validation has all batches, even after the sanity check, which takes only two."""
    model = lightning_model()
    module = millrace.torch.data_module(connect(job="train"), connect(job="validate"))
    trainer(tmp_path, max_epochs=2, num_sanity_val_steps=2).fit(model, datamodule=module)
    sanity, first, second = model.validated
    steps = ids(dataset, 2)
    assert sanity == steps[:2]
    assert first + second == model.seen == steps


def start_ranks(tmp_path, name, launcher, *arguments):
    """Runs a script of the folder scripts. Returns {"ids", "weight"} of each rank, by rank."""
    done = subprocess.run(
        [sys.executable, *launcher, str(pathlib.Path(__file__).parent / "scripts" / name),
         str(tmp_path), *map(str, arguments)], capture_output=True, text=True,
        check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((tmp_path / str(rank)).read_text()) for rank in range(2)]


TORCHRUN = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
            "--rdzv-endpoint", "127.0.0.1:0"]


@pytest.mark.parametrize("name", ["accelerate", "lightning"])
def test_two_ranks_share_an_epoch(server, dataset, tmp_path, name):
    """The ranks take each example once. Their models stay equal, because gradients are averaged."""
    pytest.importorskip(name)
    script = f"{name}_ranks.py"
    # Lightning starts its second rank by itself.
    ranks = start_ranks(tmp_path, script, TORCHRUN if name == "accelerate" else [], server.address,
                        json.dumps(pipeline(8, "drop")))
    session = [millrace.reference(pipeline(8, "drop"), dataset, rank=rank, world_size=2)
               for rank in range(2)]
    expected = [[batch.example_ids for _, batch in s.next_epoch()] for s in session]
    assert [rank["ids"] for rank in ranks] == expected
    assert len(expected[0]) == len(expected[1]) == len(session[0])
    assert ranks[0]["weight"] == ranks[1]["weight"] != 0


def test_accelerate_keeps_the_place(connect, dataset, tmp_path):
    """The model and the optimizer are prepared, and the session is registered for checkpoints."""
    accelerate = pytest.importorskip("accelerate")

    def run(job, steps, load=None, save=None):
        accelerator = accelerate.Accelerator(cpu=True)
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
        session = connect(job=job)
        accelerator.register_for_checkpointing(session)
        if load:
            accelerator.load_state(load)
        seen = []
        for _, given in zip(range(steps), millrace.torch.IterableDataset(session)):
            seen.append(given["example_id"].tolist())
            loss = model(given["tactic"].float()[:, None] / 100).mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        if save:
            accelerator.save_state(save)
        return seen, model.weight.item()

    whole, weight = run("whole", 7)
    head, _ = run("a", 3, save=str(tmp_path / "state"))
    rest, resumed_weight = run("b", 4, load=str(tmp_path / "state"))
    assert head + rest == whole == ids(dataset, 1)[:7]
    assert resumed_weight == weight != 0


def test_tqdm_knows_the_length(connect):
    tqdm = pytest.importorskip("tqdm").tqdm
    session = connect()
    with tqdm(session.next_epoch(), file=io.StringIO()) as bar:
        assert bar.total == len(session)
        assert sum(1 for _ in bar) == bar.n == len(session)


def test_copies_after_expansion_are_none(connect):
    """The model reads its tensors from the buffer that the batch was expanded into."""
    session = connect()
    for _, batch in session.next_epoch():
        begin = min(batch[path].data_ptr for path in batch)
        end = max(batch[path].data_ptr + batch[path].nbytes for path in batch)
        for path in batch:
            tensor = batch[path].torch()
            assert begin <= tensor.data_ptr() <= end
            assert numpy.asarray(batch[path]).ctypes.data == tensor.data_ptr()
        break
