"""Examples that are cut into chunks, and tensors that are padded to the bounds of buckets."""

import collections
import json

import pytest
from conftest import pipeline, run

import millrace

SIZE, STEP = 60, 45
CUT = {"fields": {"text": True}, "chunk": {"tensor": "state_text", "size": SIZE, "step": STEP},
       "output": ["state_text", "chunk", "example_id", "tactic"]}
BUCKETS = {"batch": {"bucket": {"by": "state_text.length", "bounds": [20, 40, 60], "size": 8},
                     "remainder": "keep"}}
BALANCE = {"balance": {"by": "state_text.length", "group": 8}}
BLOCKS = {"shuffle": {"seed": 3, "block": 32}}
TO_BOUND = {"pad": {"state_text": {"to": "bound", "value": 32}}}


# Closures of 64 nodes cut off the context of two examples. These are one chunk each, and dropped.
DROPPED = 2


@pytest.fixture(scope="module")
def texts(dataset):
    """The whole texts, by example; without those that are dropped."""
    session = millrace.reference(pipeline(fields={"text": True}, output=["state_text"]), dataset)
    found = {}
    for _, batch in session.next_epoch():
        values, splits = batch["state_text"].numpy(), batch["state_text_splits"].numpy()
        for row, example in enumerate(batch.example_ids):
            found[example] = values[splits[row]:splits[row + 1]].tobytes()
    assert session.spec.examples_per_epoch == len(found) + DROPPED
    return found


def chunks_of(text):
    starts = range(0, max(0, len(text) - SIZE) + STEP, STEP)
    count = 1 + -(-max(0, len(text) - SIZE) // STEP)
    return [text[start:start + SIZE] for start in starts][:count]


def rows_of(batch):
    """(example, chunk, text) of every row."""
    values, splits = batch["state_text"].numpy(), batch["state_text_splits"].numpy()
    assert batch["example_id"].numpy().tolist() == batch.example_ids
    return [(example, chunk, values[splits[row]:splits[row + 1]].tobytes()) for row, (example, chunk)
            in enumerate(zip(batch.example_ids, batch["chunk"].numpy().tolist(), strict=True))]


def all_rows(texts):
    return sorted((example, number, chunk) for example, text in texts.items()
                  for number, chunk in enumerate(chunks_of(text)))


@pytest.mark.parametrize("order", [{}, BUCKETS, BALANCE, BLOCKS])
def test_the_daemon_delivers_every_chunk_once(connect, dataset, texts, order):
    wanted = all_rows(texts)
    assert len(wanted) > 1.5 * len(texts)
    session = connect(pipeline(**CUT | order), validate=True, packed=True)
    assert session.spec.examples_per_epoch == len(wanted) + DROPPED
    epoch = [batch for _, batch in session.next_epoch()]
    assert sorted(row for batch in epoch for row in rows_of(batch)) == wanted
    expected = [b.digest for _, b in millrace.reference(pipeline(**CUT | order), dataset).next_epoch()]
    assert [batch.digest for batch in epoch] == expected


def test_parts_replicas_and_other_world_sizes_have_the_same_chunks(connect, dataset, texts):
    of = pipeline(**CUT | BUCKETS)
    whole = [rows_of(batch) for _, batch in millrace.reference(of, dataset).next_epoch()]
    parts = connect(of, micro=3)
    for (_, batch), rows in zip(parts.next_epoch(), whole, strict=True):
        assert [row for part in batch for row in rows_of(part)] == rows
    replicas = [connect(of, replica=i, job="replicas") for i in range(2)]
    for replica in replicas:
        assert [rows_of(batch) for _, batch in replica.next_epoch()] == whole
    session = millrace.reference(of, dataset)
    seen = []
    for step, batch in session.next_epoch():
        seen += rows_of(batch)
        if step == 5:
            break
    for rank in range(3):
        rest = millrace.reference(of, dataset, cursor=session.cursor, rank=rank, world_size=3)
        for _, batch in rest.next_epoch():
            seen += rows_of(batch)
    assert sorted(seen) == all_rows(texts)


def test_any_batch_says_of_which_chunk_a_row_is(connect, dataset):
    session = connect(pipeline(**CUT), packed=True)
    batch = session.batch_at(1, 4)
    offline = millrace.reference(pipeline(**CUT), dataset)
    assert batch.digest == offline.batch_at(1, 4).digest
    for of in (session, offline):
        told = of.provenance(batch, 3)
        assert told["example"] == batch.example_ids[3]
        assert told["chunk"] == batch["chunk"].numpy()[3]
    assert "chunk" not in offline.provenance(
        millrace.reference(pipeline(), dataset).batch_at(0, 0), 0)


def test_an_excluded_example_is_dropped_with_all_of_its_chunks(connect, texts):
    example = max(texts, key=lambda example: len(texts[example]))
    chunks = len(chunks_of(texts[example]))
    assert chunks > 2
    session = connect(pipeline(**CUT, exclude={"examples": [example]}))
    dropped = collections.Counter(one for _, batch in session.next_epoch() for one in batch.dropped)
    assert dropped.pop((example, "excluded")) == chunks
    assert list(dropped.values()) == [1] * DROPPED


@pytest.mark.parametrize("micro", [1, 2])
def test_all_batches_of_a_bucket_have_one_shape(connect, dataset, micro):
    of = pipeline(**CUT | BUCKETS | TO_BOUND)
    plain = millrace.reference(pipeline(**CUT | BUCKETS), dataset, micro=micro)
    extents = collections.Counter()
    for session in (connect(of, validate=True, micro=micro),
                    millrace.reference(of, dataset, validate=True, micro=micro)):
        for (_, batch), (_, whole) in zip(session.next_epoch(), plain.next_epoch(), strict=True):
            parts = [(batch, whole)] if micro == 1 else list(zip(batch, whole, strict=True))
            rows = [row for _, own in parts for row in rows_of(own)]
            bound = next(b for b in (20, 40, 60) if max(len(text) for _, _, text in rows) <= b)
            for part, own in parts:
                if part.num_graphs == 0:
                    continue
                padded = part["state_text"].numpy()
                assert padded.shape == (part.num_graphs, bound)
                lengths = part["state_text.length"].numpy()
                for array, length, (_, _, text) in zip(padded, lengths, rows_of(own), strict=True):
                    assert array[:length].tobytes() == text and (array[length:] == 32).all()
            extents[bound] += 1
        plain = millrace.reference(pipeline(**CUT | BUCKETS), dataset, micro=micro)
    assert set(extents) == {20, 40, 60}


def test_the_tools_show_all_chunks_of_an_example(dataset, texts, tmp_path):
    file = tmp_path / "chunks.json"
    file.write_text(json.dumps(pipeline(**CUT)))
    example = max(texts, key=lambda example: len(texts[example]))
    chunks = chunks_of(texts[example])
    plan = [file, "--dataset", f"data={dataset}"]
    out = run("inspect", *plan)
    examples, count = len(texts) + DROPPED, len(all_rows(texts)) + DROPPED
    assert f"examples       {examples}\n  chunks       {count}, which count as examples" in out
    lines = run("where", *plan, "--example", example, "--world-size", 3).splitlines()[2:]
    assert [int(line.split("chunk ")[1]) for line in lines] == list(range(len(chunks)))
    sessions = [millrace.reference(pipeline(**CUT), dataset, rank=rank, world_size=3)
                for rank in range(3)]
    for number, line in enumerate(lines):
        epoch, step, rank, row = (int(word) for word in line.split()[:4])
        batch = sessions[rank].batch_at(epoch, step)
        assert rows_of(batch)[row] == (example, number, chunks[number])
    lines = run("where", *plan, "--example", example, "--set",
                f"filter={{where: state_text.length == {SIZE}}}").splitlines()[2:]
    assert ["a filter leaves it out" in line for line in lines] == [len(c) < SIZE for c in chunks]
    assert len(chunks[-1]) < SIZE
    out = run("batch", *plan, "--example", example).splitlines()
    assert [line.split()[2] for line in out[1:-1]] == [str(n) for n in range(len(chunks))]
    header = json.loads(run("digest", *plan).splitlines()[0])
    assert header["proof_states"] == examples
