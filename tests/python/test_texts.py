"""Lists of texts: features of records that hold any number of texts (`str[*]`)."""

import json

from conftest import run
from records import example, frame

import millrace

LISTS = [["a", "", "bc"], ["müller"], [], ["", ""], ["tail"] * 3]
PIPELINE = {"millrace": 1, "dataset": "texts", "batch": {"size": 4, "remainder": "keep"},
            "source": {"records": {"n": "int64", "tags": "str[*]"}}}


def write(folder, lists=LISTS):
    """A dataset with a record for each list. An empty list is a feature that the record lacks."""
    folder.mkdir()
    features = [{"n": [n], **({"tags": [text.encode("utf-8", "surrogateescape") for text in texts]}
                              if texts else {})} for n, texts in enumerate(lists)]
    (folder / "a.tfrecord").write_bytes(b"".join(map(frame, map(example, features))))
    return {"texts": str(folder)}


def rows(session):
    return [batch.row(row) for _, batch in session.next_epoch() for row in range(batch.num_graphs)]


def test_a_row_has_the_texts_of_its_list(tmp_path):
    with millrace.local(write(tmp_path / "texts"), PIPELINE, validate=True) as session:
        examples = rows(session)
    assert [example["n"] for example in examples] == [0, 1, 2, 3, 4]
    assert [example["tags"] for example in examples] == LISTS
    assert [example["tags.lengths"].tolist() for example in examples] == [
        [len(text.encode()) for text in texts] for texts in LISTS]


def test_a_batch_has_all_bytes_and_the_length_of_each_text(tmp_path):
    with millrace.local(write(tmp_path / "texts"), PIPELINE) as session:
        _, batch = next(iter(session.next_epoch()))
        assert batch["tags"].numpy().tobytes() == "abcmüller".encode()
        assert batch["tags_splits"].numpy().tolist() == [0, 3, 10, 10, 10]
        assert batch["tags.lengths"].numpy().tolist() == [1, 0, 2, 7, 0, 0]
        assert batch["tags.lengths"].dtype == "int32"
        assert batch["tags.lengths_splits"].numpy().tolist() == [0, 3, 4, 4, 6]


def test_a_chosen_list_brings_its_lengths(tmp_path):
    pipeline = {**PIPELINE, "output": ["tags"], "tensors": {"many": {"length": "tags.lengths"}}}
    data = write(tmp_path / "texts")
    with millrace.local(data, pipeline) as session:
        assert [set(example) for example in rows(session)] == [{"tags", "tags.lengths"}] * 5
    with millrace.local(data, {**pipeline, "output": ["many"]}) as session:
        assert [example["many"] for example in rows(session)] == [3, 1, 0, 2, 3]
    with millrace.local(data, {**pipeline, "pad": {"tags": {}}}) as session:
        padded = rows(session)
    assert padded[0]["tags"].tobytes() == b"abc".ljust(padded[0]["tags"].size, b"\0")


def test_inspect_suggests_lists_and_batch_prints_their_texts(tmp_path):
    data = write(tmp_path / "texts")["texts"]
    assert 'source: {records: {n: int64, tags: "str[*]"}}\n' in run("inspect", data)
    (tmp_path / "p.json").write_text(json.dumps(PIPELINE))
    values = run("batch", tmp_path / "p.json", "--dataset", f"texts={data}", "--values")
    lines = [line.split(maxsplit=2) for line in values.splitlines() if line.startswith("  tags ")]
    assert [line[2] for line in lines[:4]] == ['["a", "", "bc"]', '["müller"]', "[]", '["", ""]']


def test_texts_that_are_no_utf8_keep_their_bytes(tmp_path):
    lists = [["\udcff\udc80x", "y"]]
    with millrace.local(write(tmp_path / "texts", lists), PIPELINE) as session:
        (row,) = rows(session)
    assert row["tags"] == lists[0]
    assert row["tags"][0].encode("utf-8", "surrogateescape") == b"\xff\x80x"


def test_parts_of_a_batch_have_their_own_texts(tmp_path):
    with millrace.local(write(tmp_path / "texts"), PIPELINE, micro=2) as session:
        texts = [part.row(row)["tags"] for _, parts in session.next_epoch() for part in parts
                 for row in range(part.num_graphs)]
    assert texts == LISTS
