"""Tensors that a pipeline defines: what the loop gets of them."""

import numpy
import pytest
from conftest import pipeline

import millrace

OWN = {
    "tensors": {
        "label": {"cast": "node_label", "dtype": "float32"},
        "hot": {"one_hot": "faithful", "depth": 2, "at": "consumer"},
        "first": {"slice": "global_args", "range": [0, 1], "at": "consumer"},
    },
    "output": ["label", "hot", "first", "local_args", "edge_source"],
    "pad": {"local_args": {"value": -1, "multiple": 4}},
}


def check(batch, plain, spec):
    """Whether a batch has what OWN defines, of what a batch without it has."""
    assert list(batch) == [tensor.path for tensor in spec.tensors]
    assert "tactic" not in batch and "node_label" not in batch
    assert batch.example_ids == plain.example_ids
    assert batch["label"].numpy().tolist() == plain["node_label"].numpy().tolist()
    assert batch["hot"].numpy().tolist() == [[1 - f, f] for f in plain["faithful"].tolist()]
    padded = batch["local_args"].numpy()
    assert padded.dtype == numpy.int32 and padded.shape[1] % 4 == 0
    for i in range(batch.num_graphs):
        row, whole = batch.row(i), plain.row(i)
        assert row["label"].tolist() == whole["node_label"].tolist()
        assert row["first"].tolist() == whole["global_args"][:1].tolist()
        assert row["hot"].shape == (2,)
        length = row["local_args.length"]
        assert length == len(whole["local_args"])
        assert row["local_args"][:length].tolist() == whole["local_args"].tolist()
        assert (row["local_args"][length:] == -1).all()
        assert row["edge_source"].tolist() == whole["edge_source"].tolist()


def test_a_session_gives_what_its_pipeline_defines(connect, dataset):
    for session in (connect(pipeline(**OWN), validate=True),
                    millrace.reference(pipeline(**OWN), dataset, validate=True)):
        plain = millrace.reference(pipeline(), dataset)
        assert session.spec["hot"].computed and session.spec["hot"].dtype == "uint8"
        assert session.spec["first"].splits == "first_splits"
        assert session.spec["local_args"].inner == (None,)
        assert session.spec["local_args"].dimensions == ("batch", "*")
        assert session.spec["label"].splits == "node_splits"
        for (_, batch), (_, whole) in zip(session.next_epoch(), plain.next_epoch(), strict=True):
            check(batch, whole, session.spec)


def test_what_a_pipeline_computes_is_nested_and_padded_in_torch(dataset):
    torch = pytest.importorskip("torch")
    session = millrace.reference(pipeline(**OWN), dataset)
    _, batch = next(iter(session.next_epoch()))
    lengths = batch["first_splits"].torch().diff()
    assert [len(row) for row in millrace.torch.nested(batch, "first").unbind()] == lengths.tolist()
    assert millrace.torch.padded(batch, "first")[1].tolist() == lengths.tolist()
    assert batch["hot"].torch().dtype == torch.uint8


@pytest.mark.parametrize("place", ["worker", "consumer"])
def test_a_value_that_cannot_be_computed_is_a_data_error(connect, dataset, place):
    wrong = pipeline(tensors={"hot": {"one_hot": "node_label", "depth": 1, "at": place}},
                     output=["hot"])
    for session in (connect(wrong, job=f"wrong at {place}"), millrace.reference(wrong, dataset)):
        with pytest.raises(millrace.DataError, match="tensor hot: one_hot: expected numbers from "
                                                     "-1.*the values do not suit the pipeline"):
            next(iter(session.next_epoch()))
