"""Tensors: the delivered memory itself, for as long as anybody has it."""

import collections.abc
import gc
import hashlib

import numpy
import pytest
from conftest import pipeline

import millrace


@pytest.fixture
def batch(dataset):
    return next(iter(millrace.reference(pipeline(), dataset).next_epoch()))[1]


def test_every_view_points_at_the_delivered_bytes(batch):
    tensor = batch["edge_source"]
    assert tensor.data_ptr % 64 == 0
    array = numpy.asarray(tensor)
    assert array.__array_interface__["data"][0] == tensor.data_ptr
    assert tensor.numpy().__array_interface__["data"][0] == tensor.data_ptr
    assert numpy.from_dlpack(tensor).__array_interface__["data"][0] == tensor.data_ptr
    view = memoryview(tensor)
    assert numpy.frombuffer(view, "int32").__array_interface__["data"][0] == tensor.data_ptr
    assert batch["edge_source"].data_ptr == tensor.data_ptr


def test_dtypes_and_shapes(batch, dataset):
    labels = batch["node_label"]
    assert labels.dtype == "int32" and labels.numpy().dtype == numpy.int32
    assert labels.shape == labels.numpy().shape == (len(labels),)
    assert labels.splits == "node_splits" and labels.dimensions == ["nodes"]
    assert labels.tolist() == list(labels.numpy())
    assert batch["node_splits"].kind == "splits"
    wide = next(iter(millrace.reference(pipeline(), dataset, index_dtype="int64").next_epoch()))[1]
    assert wide["node_label"].numpy().dtype == numpy.int64
    assert (wide["node_label"].numpy() == labels.numpy()).all()


def test_two_tensors_are_rows_of_one_without_a_copy(batch):
    edges = batch.stack(["edge_source", "edge_target"])
    array = edges.numpy()
    assert array.shape == (2, len(batch["edge_source"]))
    assert edges.data_ptr == batch["edge_source"].data_ptr
    assert (array[1] == batch["edge_target"].numpy()).all()
    assert (numpy.from_dlpack(edges) == array).all()
    assert edges.nbytes == array.nbytes
    with pytest.raises(BufferError, match="rows"):
        hashlib.sha256(edges)  # needs bytes without gaps
    with pytest.raises(millrace.ConfigError, match="stack: node_label does not continue"):
        batch.stack(["edge_source", "node_label"])


def test_what_is_cut_from_a_tensor_is_the_same_memory(batch):
    tensor, array = batch["edge_source"], batch["edge_source"].numpy()
    assert tensor[3] == array[3] and (tensor[[1, 5]] == array[[1, 5]]).all()
    cut = tensor[2:9]
    assert (cut == array[2:9]).all() and len(cut) == 7
    assert cut.__array_interface__["data"][0] == tensor.data_ptr + 2 * cut.itemsize
    expected = array[2:9].copy()
    del batch, tensor, array
    gc.collect()
    assert (cut == expected).all()


def test_a_tensor_outlives_batch_and_session(dataset):
    session = millrace.reference(pipeline(), dataset)
    _, batch = next(iter(session.next_epoch()))
    array = batch["node_label"].numpy()
    capsule = numpy.from_dlpack(batch["edge_label"])
    expected, labels = array.copy(), capsule.copy()
    del batch
    for _ in session.next_epoch():
        pass
    session.close()
    del session
    gc.collect()
    assert (array == expected).all() and (capsule == labels).all()


def test_a_copy_is_made_where_dlpack_asks_for_one(batch):
    for tensor in (batch["edge_source"], batch.stack(["edge_source", "edge_target"]),
                   batch.stack(["edge_target", "edge_source"])):
        copy = numpy.from_dlpack(tensor, copy=True)
        assert (copy == tensor.numpy()).all() and copy.shape == tensor.shape
        assert not numpy.shares_memory(copy, tensor.numpy())
        assert numpy.shares_memory(numpy.from_dlpack(tensor, copy=False), tensor.numpy())
        expected = copy.copy()
        del copy
        gc.collect()
        assert (numpy.from_dlpack(tensor, copy=True) == expected).all()


def test_another_device_is_refused(batch):
    tensor = batch["edge_source"]
    assert tensor.__dlpack__(dl_device=(1, 0)) is not None
    with pytest.raises(BufferError, match=r"not moved by DLPack: expected dl_device \(1, 0\), got \(2, 0\)"):
        tensor.__dlpack__(dl_device=(2, 0))


def test_a_batch_is_read_as_a_dict_is(batch):
    assert batch.get("root").path == "root"
    assert batch.get("nodes") is None and batch.get(5, 7) == 7
    assert 5 not in batch and None not in batch and ("root",) not in batch
    with pytest.raises(KeyError, match="5: the batch has node"):
        batch[5]
    # Frameworks that move or pin a loader's output would rebuild a Mapping as a dict.
    assert not isinstance(batch, collections.abc.Mapping)


def test_a_batch_has_keys_values_and_items(batch):
    assert len(batch) == len(list(batch)) == len(batch.keys())
    assert "node_label" in batch and "nodes" not in batch
    assert dict(batch.items())["root"].path == "root"
    with pytest.raises(KeyError, match="nodes: the batch has node_splits|nodes: the batch has"):
        batch["nodes"]
    assert "graphs" in repr(batch) and "int32" in repr(batch["root"])


def test_a_row_is_one_example_with_its_own_node_numbers(batch, dataset):
    splits = {path: batch[path].numpy() for path in batch if batch[path].kind == "splits"}
    rows = [batch.row(i) for i in range(batch.num_graphs)]
    assert list(rows[0]) == [path for path in batch if path not in splits]
    for path in rows[0]:
        tensor = batch[path]
        parts = [row[path] for row in rows]
        assert all(part.dtype == tensor.numpy().dtype for part in parts)
        if tensor.splits:
            cut = splits[tensor.splits]
            assert [len(part) for part in parts] == numpy.diff(cut).tolist()
            values = numpy.concatenate(parts)
        else:
            values = numpy.stack(parts)
            assert values.shape == tensor.shape
        numbers = path in ("edge_source", "edge_target", "root", "local_context")
        assert numbers or (values == tensor.numpy()).all(), path
    for i, row in enumerate(rows):
        first = splits["node_splits"][i]
        begin, end = splits["edge_splits"][i:i + 2]
        assert (row["edge_source"] + first == batch["edge_source"].numpy()[begin:end]).all()
        assert row["root"] + first == batch["root"][i]
        assert row["edge_target"].max() < len(row["node_label"])
    assert numpy.shares_memory(rows[1]["node_label"], batch["node_label"].numpy())
    assert rows[0]["example_id"].shape == () and rows[0]["example_id"] == batch.example_ids[0]
    for wrong in (-1, batch.num_graphs):
        with pytest.raises(IndexError, match=f"row {wrong}: the batch has {batch.num_graphs} examples"):
            batch.row(wrong)


def test_text_comes_as_bytes_with_splits(dataset):
    session = millrace.reference(pipeline(fields={"text": True}), dataset, validate=True)
    assert session.spec["state_text"].expansion == "keep"
    _, batch = next(iter(session.next_epoch()))
    text, splits = batch["state_text"], batch["state_text_splits"].numpy()
    assert text.dtype == "uint8"
    assert bytes(batch.row(1)["state_text"]) == bytes(text.numpy()[splits[1]:splits[2]])
    first = bytes(text.numpy()[splits[0]:splits[1]]).decode()
    assert isinstance(first, str)
