"""Packed rows: where their elements are from, their numbers, and what parts of batches have."""

import numpy
import pytest
from token_files import some_documents, write_pairs

import millrace

DOCUMENTS = some_documents(60)
OF_PIECES = ["pack.documents", "pack.begins", "pack.lengths"]
EXCLUDED = [1, 2, 3, 4, 30]


def pipeline(outputs=(), **more):
    return {"millrace": 1, "dataset": "texts", "source": "tokens", "shuffle": {"seed": 4},
            "pack": {"tensor": "tokens", "size": 64, "method": "fit"},
            "batch": {"size": 4, "remainder": "keep"},
            "output": ["tokens", "example_id", *outputs], **more}


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("packed") / "texts", DOCUMENTS)


@pytest.fixture(scope="module")
def daemon(texts):
    with millrace.LocalServer({"texts": texts}) as server:
        yield server


@pytest.fixture
def connect(daemon, request):
    opened = []

    def open_session(of, **options):
        options.setdefault("job", f"{request.node.name}-{len(opened)}")
        opened.append(millrace.connect(daemon, pipeline=of, **options))
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


def all_batches(session):
    return [batch for _, batch in session.next_epoch()]


def elements_of(pieces):
    return [token for piece in pieces for token in
            DOCUMENTS[piece["document"]][piece["begin"]:piece["begin"] + piece["length"]]]


def check_provenance(session, batch):
    """The pieces of each row are the elements that it has. Returns the documents."""
    documents = []
    for row in range(batch.num_examples):
        told = session.provenance(batch, row)
        assert told["example"] == batch.example_ids[row] and told["row"] == row
        assert not {"elements", "documents", "begins", "lengths"} & told.keys()
        assert elements_of(told["pieces"]) == batch.row(row)["tokens"].tolist() != []
        documents += [piece["document"] for piece in told["pieces"]]
    return documents


@pytest.mark.parametrize("method", ["fit", "concat"])
@pytest.mark.parametrize("excluded", [[], EXCLUDED])
def test_provenance_lists_the_pieces_that_a_row_has(connect, texts, method, excluded):
    pack = {"tensor": "tokens", "size": 64, "method": method}
    more = {"pack": pack, "exclude": {"examples": excluded}}
    plain, told = pipeline(**more), pipeline(OF_PIECES, **more)
    expected = {i for i, document in enumerate(DOCUMENTS) if document and i not in excluded}
    for session in (millrace.reference(plain, texts), millrace.reference(told, texts),
                    millrace.reference(told, texts, packed=True), connect(told)):
        found = [document for batch in all_batches(session)
                 for document in check_provenance(session, batch)]
        assert set(found) == expected
        assert method == "concat" or len(found) == len(expected)


def test_a_remote_session_lists_pieces_only_if_batches_have_them(connect):
    for outputs in ([], OF_PIECES[:2], OF_PIECES[1:]):
        session = connect(pipeline(outputs))
        batch = all_batches(session)[0]
        told = session.provenance(batch, 1)
        assert "pieces" not in told and told["example"] == batch.example_ids[1]
        with pytest.raises(IndexError, match="row 4: the batch has 4 examples"):
            session.provenance(batch, 4)


def test_padded_tensors_of_pieces_are_read_too(connect, texts):
    of = pipeline(OF_PIECES, pad={"pack": {}, **{name: {"value": 9} for name in OF_PIECES}})
    for session in (millrace.reference(of, texts), connect(of, validate=True)):
        for batch in all_batches(session):
            assert batch["pack.documents"].shape[1] > 1
            for row in range(batch.num_examples):
                tokens = batch["tokens"].numpy()[row].tolist()
                pieces = session.provenance(batch, row)["pieces"]
                elements = elements_of(pieces)
                assert sum(piece["length"] for piece in pieces) == len(elements)
                assert tokens[:len(elements)] == elements and not any(tokens[len(elements):])


def test_branches_have_documents_of_their_own(tmp_path, texts):
    few = write_pairs(tmp_path / "few", [[1] * 5, [2] * 64, [3] * 7], files=1)
    pack = {"tensor": "tokens", "size": 64, "method": "fit"}
    of = {"millrace": 1, "branches": {
              "many": {"dataset": "texts", "source": "tokens", "pack": pack},
              "few": {"dataset": "few", "source": "tokens", "pack": pack}},
          "mix": {"weights": {"many": 1, "few": 1}, "epoch": {"of": "many"}}, "batch": {"size": 4},
          "output": ["tokens", "pack.label"]}
    session = millrace.reference(of, {"texts": texts, "few": few})
    first = session.spec.branches[1].first_example
    batch = session.batch_of([first + 1, 0, first])
    told = [session.provenance(batch, row) for row in range(3)]
    assert [one["branch"] for one in told] == ["few", "many", "few"]
    assert told[0]["pieces"] == [{"document": 1, "begin": 0, "length": 64}]
    assert told[2]["pieces"] == [{"document": 0, "begin": 0, "length": 5},
                                 {"document": 2, "begin": 0, "length": 7}]
    assert elements_of(told[1]["pieces"]) == batch.row(1)["tokens"].tolist()
    assert batch.row(2)["pack.label"].tolist() == [1] * 4 + [-100] + [3] * 6 + [-100]


def test_rows_are_asked_for_by_their_numbers(texts):
    session = millrace.reference(pipeline(OF_PIECES), texts)
    rows = session.spec.examples_per_epoch
    batch = session.batch_of([rows - 1, 0, 3])
    assert batch.example_ids == batch["example_id"].numpy().tolist() == [rows - 1, 0, 3]
    check_provenance(session, batch)
    assert batch.row(0)["example_id"] == rows - 1
    with pytest.raises(millrace.Error, match=f"^row 999: there are {rows}"):
        session.batch_of([0, 999])
    assert sorted(i for one in all_batches(session) for i in one.example_ids) == list(range(rows))


def test_a_row_whose_documents_are_all_excluded_is_dropped_by_its_number(texts):
    whole = millrace.reference(pipeline(OF_PIECES), texts)
    batch = whole.batch_of([2])
    lost = [piece["document"] for piece in whole.provenance(batch, 0)["pieces"]]
    session = millrace.reference(pipeline(exclude={"examples": lost}), texts)
    batch = session.batch_of([1, 2, 0])
    assert batch.example_ids == [1, 0] and batch.dropped == [(2, "excluded")]
    check_provenance(session, batch)


@pytest.mark.parametrize("pad", [{}, {"pad": {"pack": {"to": 70}}}])
def test_each_part_of_a_batch_has_its_own_offsets_and_a_row_has_none(connect, texts, pad):
    of = pipeline(["pack.cu_seqlens", "pack.lengths", "pack.position", "pack.label"], **pad)
    for session in (millrace.reference(of, texts, micro=3, validate=True),
                    connect(of, micro=3, validate=True)):
        for _, parts in session.next_epoch():
            for part in parts:
                ends = [0]
                for row in range(part.num_examples):
                    one = part.row(row)
                    assert "pack.cu_seqlens" not in one
                    begin = ends[-1]
                    for length in one["pack.lengths"]:
                        ends.append(ends[-1] + int(length))
                    if pad and ends[-1] < begin + 70:
                        ends.append(begin + 70)
                given = part["pack.cu_seqlens"].numpy()
                assert given.dtype == numpy.int32 and given.tolist() == ends
                assert ends[-1] == part["tokens"].numpy().size


def test_offsets_that_do_not_ascend_are_seen(texts):
    from millrace import _validate

    session = millrace.reference(pipeline(["pack.cu_seqlens"]), texts)
    batch = session.batch_of([0, 1])
    assert _validate.check(batch, session.spec) is None
    batch["pack.cu_seqlens"].numpy()[1] = 0
    assert _validate.check(batch, session.spec) == (None, "pack.cu_seqlens does not ascend")
