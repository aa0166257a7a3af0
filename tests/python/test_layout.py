"""Batches written from docs/formats/batch.md alone, with every type, for data without nodes."""

import struct

import numpy
import pytest

import millrace
from millrace._spec import Spec, TensorSpec
from millrace._validate import check

xxhash = pytest.importorskip("xxhash")

DTYPES = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool",
          "float16", "bfloat16", "float32", "float64"]
DENSE, RAGGED, SPLITS = 0, 1, 2
WIDEN, KEEP = 0, 6
NONE = 0xFFFFFFFF


def pad(data, multiple=64):
    return data + bytes(-len(data) % multiple)


def record(path, kind, array, dtype, expansion, splits, offset):
    """A tensor's record."""
    bits = 8 * array.itemsize
    low, high = 0, 0
    if dtype.startswith("uint"):
        high = 2**bits - 1
    elif dtype.startswith("int"):
        low, high = -2**(bits - 1), 2**(bits - 1) - 1
    inner = array.shape[1:]
    names = b"".join(bytes([len(n)]) + n.encode() for n in (path, path if splits != NONE else "batch"))
    body = struct.pack("<IIqQQQQ", splits, NONE, low, high, offset, array.nbytes, len(array))
    body += struct.pack(f"<{len(inner)}Q", *inner) + names
    size = (8 + len(body) + 7) // 8 * 8
    head = struct.pack("<BBBBI", kind, DTYPES.index(dtype), expansion, len(inner), size)
    return pad(head + body, 8)


def batch_bytes(tensors, graphs, version=2):
    """A packed batch. tensors: (path, kind, array, dtype, expansion, number of splits)."""
    records, payload = b"", b""
    for path, kind, array, dtype, expansion, splits in tensors:
        records += record(path, kind, array, dtype, expansion, splits, len(payload))
        payload = pad(payload + array.tobytes())
    examples = struct.pack(f"<{graphs}Q", *range(100, 100 + graphs))
    fixed = 104 + len(examples) + len(records)
    header_bytes = (fixed + 8 + 63) // 64 * 64
    header = b"MILLBTCH" + struct.pack("<IIQQ", version, len(tensors), header_bytes, len(payload))
    header += bytes(range(32)) + struct.pack("<QQIIIIBB6x", 3, 0, graphs, graphs, 0, 0, 0, 0)
    header = (header + examples + records).ljust(header_bytes - 8, b"\0")
    return header + struct.pack("<Q", xxhash.xxh3_64_intdigest(header)) + payload


def numpy_type(dtype):
    return "uint16" if dtype == "bfloat16" else dtype


def values(dtype, shape):
    """Values that fill all bits of the type."""
    random = numpy.random.default_rng(7)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    size = numpy.dtype(numpy_type(dtype)).itemsize
    raw = random.integers(0, 256, (*shape, size), numpy.uint8)
    return raw.view(numpy_type(dtype)).reshape(shape)


@pytest.fixture(scope="module")
def sent():
    """Per type a dense tensor, and one that splits cut; each with rows of 2 × 3 values."""
    splits = numpy.array([0, 2, 2, 5], numpy.uint8)
    tensors = [("cut", SPLITS, splits, "uint8", WIDEN, NONE)]
    for dtype in DTYPES:
        tensors.append((f"dense/{dtype}", DENSE, values(dtype, (3, 2, 3)), dtype, KEEP, NONE))
        tensors.append((f"ragged/{dtype}", RAGGED, values(dtype, (5, 2, 3)), dtype, KEEP, 0))
        tensors.append((f"row/{dtype}", DENSE, values(dtype, (3,)), dtype, KEEP, NONE))
    small = numpy.arange(6, dtype=numpy.int8).reshape(3, 2) - 3
    tensors.append(("widened", DENSE, small, "int8", WIDEN, NONE))
    return tensors


@pytest.fixture
def batch(sent, tmp_path):
    (tmp_path / "batch").write_bytes(batch_bytes(sent, 3))
    return millrace.load_batch(tmp_path / "batch")


def equal(a, b):
    """Whether two arrays have one type, one shape and the same bits."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_kept_tensors_have_their_own_types_and_extents(sent, batch):
    assert list(batch) == [tensor[0] for tensor in sent]
    for path, kind, array, dtype, expansion, _ in sent:
        if expansion != KEEP:
            continue
        tensor = batch[path]
        assert tensor.dtype == dtype and tensor.shape == array.shape, path
        assert equal(tensor.numpy(), array), path
        assert equal(numpy.asarray(memoryview(tensor)), array), path
        assert tensor.numpy().ctypes.data == tensor.data_ptr
        if dtype != "bfloat16":  # numpy has none
            assert equal(numpy.from_dlpack(tensor), array), path
            assert equal(numpy.from_dlpack(tensor, copy=True), array), path
        assert tensor.dimensions == [path if kind == RAGGED else "batch", *map(str, array.shape[1:])]
        assert str(tensor.tolist()) == str(array.tolist()), path
    assert batch["widened"].dtype == "int32"
    assert batch["widened"].tolist() == [[-3, -2], [-1, 0], [1, 2]]


def test_a_row_has_an_examples_values(sent, batch):
    cut = [0, 2, 2, 5]
    for i in range(3):
        row = batch.row(i)
        assert list(row) == [tensor[0] for tensor in sent if tensor[1] != SPLITS]
        for path, kind, array, _, expansion, _ in sent:
            if expansion == KEEP:
                own = array[cut[i]:cut[i + 1]] if kind == RAGGED else array[i]
                assert equal(row[path], numpy.asarray(own)), path
        assert row["widened"].tolist() == [2 * i - 3, 2 * i - 2]


def test_a_batch_without_nodes_keeps_to_its_spec(sent, batch):
    tensors = tuple(
        TensorSpec(path=path, kind=("dense", "ragged_values", "splits")[kind],
                   dtype=dtype if expansion == KEEP else "int32", packed_dtype=dtype,
                   dimension="batch", inner=array.shape[1:], splits="cut" if splits == 0 else "",
                   node_splits="", expansion="keep" if expansion == KEEP else "widen",
                   min=-2**63, max=2**64 - 1)
        for path, kind, array, dtype, expansion, splits in sent)
    others = {name: None for name in Spec.__dataclass_fields__ if name != "tensors"}
    spec = Spec(tensors=tensors, **others)
    assert spec.edges == () and spec.node_splits is None and spec.node_values == ()
    assert spec["dense/float16"].dimensions == ("batch", "2", "3")
    assert check(batch, spec) is None
    with pytest.raises(millrace.ConfigError, match="a drawing shows one kind of edges, the spec has 0"):
        millrace.viz.graph(batch, 0, tables={}, spec=spec)


def test_jax_has_every_type_of_at_most_32_bits(sent, batch):
    """JAX makes 32 bits of 64, unless it is told otherwise."""
    pytest.importorskip("jax")
    arrays = millrace.jax.arrays(batch)
    for path, _, array, dtype, expansion, _ in sent:
        assert arrays[path].shape == array.shape
        if expansion == KEEP and array.itemsize < 8:
            assert arrays[path].dtype == dtype
            assert numpy.asarray(arrays[path]).tobytes() == array.tobytes(), path


def test_torch_has_every_type(sent, batch):
    torch = pytest.importorskip("torch")
    for path, _, array, dtype, expansion, _ in sent:
        if expansion == KEEP:
            tensor = batch[path].torch()
            assert tensor.dtype == getattr(torch, dtype) and tensor.shape == array.shape
            assert tensor.data_ptr() == batch[path].data_ptr
            assert tensor.view(torch.uint8).numpy().tobytes() == array.tobytes(), path
    dense, lengths = millrace.torch.padded(batch, "ragged/float32")
    assert dense.shape == (3, 3, 2, 3) and lengths.tolist() == [2, 0, 3]


def test_a_bool_of_another_value_is_data_loss(tmp_path):
    wrong = numpy.array([1, 2], numpy.uint8)
    (tmp_path / "batch").write_bytes(batch_bytes([("flag", DENSE, wrong, "bool", KEEP, NONE)], 2))
    with pytest.raises(millrace.DataError, match="flag: value 2 at element 1 of a bool"):
        millrace.load_batch(tmp_path / "batch")


def test_a_batch_of_an_older_version_is_refused_by_name(sent, tmp_path):
    (tmp_path / "batch").write_bytes(batch_bytes(sent, 3, version=1))
    with pytest.raises(millrace.Error, match="format version 1 at offset 8: expected 2"):
        millrace.load_batch(tmp_path / "batch")
