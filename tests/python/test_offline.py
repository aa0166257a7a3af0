"""Batches without a server, and from files."""

import subprocess
import sys

import numpy
import pytest
from conftest import digest, pipeline

import millrace


def test_the_reference_is_the_tools(dataset, tmp_path):
    for world_size in (1, 3):
        of = pipeline(8)
        expected = digest(dataset, of, 2, world_size, tmp_path)
        for rank in range(world_size):
            session = millrace.reference(of, dataset, rank=rank, world_size=world_size)
            session.seek(2)
            got = [(batch.ordinal, batch.digest) for _, batch in session.next_epoch()]
            assert got == [(line["ordinal"], line["hash"]) for line in expected
                           if line["rank"] == rank]


def test_a_saved_batch_comes_back(dataset, tmp_path):
    _, batch = next(iter(millrace.reference(pipeline(), dataset).next_epoch()))
    batch.save(tmp_path / "batch")
    loaded = millrace.load_batch(str(tmp_path / "batch"))
    assert loaded.example_ids == batch.example_ids and loaded.digest == batch.digest
    for path in batch:
        assert (loaded[path].numpy() == batch[path].numpy()).all()
    packed = batch.packed_bytes()
    assert loaded.packed_bytes() == packed == (tmp_path / "batch").read_bytes()[:-32]
    with pytest.raises(millrace.ConfigError, match="missing") as caught:
        millrace.load_batch(str(tmp_path / "missing"))
    assert caught.value.code == "NOT_FOUND"
    (tmp_path / "cut").write_bytes(batch.packed_bytes()[:-1])
    with pytest.raises(millrace.DataError):
        millrace.load_batch(str(tmp_path / "cut"))


def test_a_saved_batch_that_was_changed_is_refused(dataset, tmp_path):
    batch = millrace.reference(pipeline(), dataset).batch_at(0, 0)
    batch.save(tmp_path / "batch")
    changed = bytearray((tmp_path / "batch").read_bytes())
    changed[len(changed) // 2] ^= 1
    (tmp_path / "changed").write_bytes(changed)
    with pytest.raises(millrace.DataError, match="changed since it was saved: expected digest"):
        millrace.load_batch(tmp_path / "changed")


def test_a_batch_that_was_saved_without_its_digest_comes_back(dataset, tmp_path):
    batch = millrace.reference(pipeline(), dataset).batch_at(0, 0)
    (tmp_path / "bare").write_bytes(batch.packed_bytes())
    assert millrace.load_batch(tmp_path / "bare").digest == batch.digest


def test_a_part_of_a_batch_does_not_pass_for_the_whole(dataset, tmp_path):
    for part in millrace.reference(pipeline(), dataset, micro=4).batch_at(0, 0):
        for ask in (lambda: part.digest, part.packed_bytes, lambda: part.save(tmp_path / "part")):
            with pytest.raises(millrace.JobError, match="one of 4 parts .* open the session with micro=1"):
                ask()
    assert not (tmp_path / "part").exists()


def test_a_pipeline_is_a_path_a_text_or_a_dict(dataset, tmp_path):
    text = "millrace: 1\ndataset: data\nsource: proof_states\nbatch: {size: 4}\n"
    (tmp_path / "p.yaml").write_text(text)
    of = {"millrace": 1, "dataset": "data", "source": "proof_states", "batch": {"size": 4}}
    prints = {millrace.reference(one, dataset).spec.fingerprint
              for one in (text, of, tmp_path / "p.yaml", str(tmp_path / "p.yaml"))}
    assert len(prints) == 1
    changed = millrace.reference(of, dataset, set={"batch.size": 8})
    assert changed.spec.batch_size == 8 and changed.spec.fingerprint not in prints


def test_a_cursor_of_another_order_is_refused(dataset):
    cursor = millrace.reference(pipeline(), dataset).cursor
    with pytest.raises(millrace.JobError, match="another order"):
        millrace.reference(pipeline(shuffle={"seed": 8}), dataset, cursor=cursor)


def test_the_vocabulary_names_labels(dataset):
    session = millrace.reference(pipeline(), dataset)
    names = session.vocabulary["node_label_names"]
    assert len(names) == session.spec.tables["node_labels"].rows
    assert len(session.vocabulary["edge_label_names"]) == session.spec.base_edge_labels
    _, batch = next(iter(session.next_epoch()))
    context = session.context(int(batch["global_context"].numpy()[0]))
    assert all(session.spec.tables["node_classes"].rows <= label < len(names) for label in context)


def test_tables_say_what_numbers_refer_to(dataset):
    session = millrace.reference(pipeline(), dataset)
    assert set(session.tables) == set(session.spec.tables) >= {"node_labels", "tactics"}
    for spec in session.spec.tables.values():
        table = session.tables[spec.name]
        assert list(table) == list(spec.columns)
        assert all(len(column) == spec.rows for column in table.values())
        assert len(spec.digest) == 32
    _, batch = next(iter(session.next_epoch()))
    tactics = session.tables[session.spec["tactic"].table]
    assert max(batch["tactic"].numpy()) < len(tactics["text"])
    assert session.tables["node_labels"]["name"] == session.vocabulary["node_label_names"]
    assert session.tables["node_labels"] is session.tables["node_labels"]  # made once
    with pytest.raises(KeyError, match="labels: there are the tables node_classes"):
        session.tables["labels"]


def test_only_coq_datasets_have_a_vocabulary(tmp_path):
    millrace.write_graph(tmp_path, indptr=[0, 1, 2], indices=[1, 0], node_label=[0, 1],
                         node_labels=["red", "blue"])
    session = millrace.reference({"millrace": 1, "dataset": "g", "source": {"roots": "all"},
                                  "batch": {"size": 2}}, tmp_path)
    assert dict(session.tables) == {"node_labels": {"name": ["red", "blue"]}}
    assert session.spec["node_label"].table == "node_labels"
    for ask in (lambda: session.vocabulary, lambda: session.context(0)):
        with pytest.raises(millrace.Error, match="only Coq datasets"):
            ask()


def test_the_package_needs_no_framework():
    code = ("import sys, millrace; "
            "bad = {'numpy', 'torch', 'tensorflow', 'jax', 'yaml'} & set(sys.modules); "
            "assert not bad, bad; print(millrace.__version__)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_definitions_are_a_source_like_any(dataset):
    session = millrace.reference({"millrace": 1, "dataset": "data", "source": "definitions",
                                  "batch": {"size": 4, "remainder": "keep"}}, dataset)
    _, batch = next(iter(session.next_epoch()))
    counts = batch["num_definitions"].numpy()
    firsts = batch["node_splits"].numpy()[:-1]
    labels = batch["node_label"].numpy()
    for first, count in zip(firsts, counts):
        assert (labels[first:first + count] >= session.spec.tables["node_classes"].rows).all()
    assert numpy.all(counts > 0)
