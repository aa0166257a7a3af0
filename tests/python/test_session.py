"""Sessions: the batches that they deliver, and what they tell about them."""

import dataclasses
import gc
import time
import types

import numpy
import pytest
from conftest import digest, pipeline, taken

import millrace
from millrace import _coq


def test_every_batch_is_that_of_the_reference(connect, dataset, tmp_path):
    session = connect(packed=True)
    expected = [(epoch, line["ordinal"], line["hash"])
                for epoch in (0, 1) for line in digest(dataset, pipeline(), epoch, folder=tmp_path)]
    assert taken(session, 2) == expected
    assert len(session) * 2 == len(expected)


@pytest.mark.parametrize("compression", ["off", "lz4", "zstd"])
def test_compressed_batches_are_those_of_the_reference(connect, dataset, tmp_path, compression):
    session = connect(packed=True, compression=compression, shared_memory=False)
    expected = [(0, line["ordinal"], line["hash"])
                for line in digest(dataset, pipeline(), 0, folder=tmp_path)]
    assert taken(session, 1) == expected
    stats = session.stats()
    if compression == "off":
        assert stats["wire_bytes"] == stats["bytes"]
    else:
        assert 0 < stats["wire_bytes"] < stats["bytes"]


@pytest.mark.parametrize("ahead", [0, 1])
def test_batches_are_the_same_with_few_expanded_ahead(connect, dataset, tmp_path, ahead):
    expected = [(0, line["ordinal"], line["hash"])
                for line in digest(dataset, pipeline(), 0, folder=tmp_path)]
    assert taken(connect(packed=True, expanded_batches=ahead), 1) == expected


def test_spec_and_length_are_known_before_any_batch(connect):
    session = connect()
    assert session.stats()["batches"] == 0
    assert len(session) == session.spec.steps_per_epoch > 10
    assert session.spec["edge_source"].dtype == "int32"
    assert session.spec.edges == (("edge_splits", "edge_source", "edge_target", "edge_label",
                                   "node_splits"),)
    batch = session.batch_at(0, 0)
    assert list(batch) == [tensor.path for tensor in session.spec.tensors]


def test_epochs_until_counts_epochs_in_all(connect):
    session = connect()
    session.seek(3)
    assert [epoch.number for epoch in session.epochs(5) if list(epoch)] == [3, 4]
    assert list(session.epochs(5)) == []


def test_an_epoch_that_is_passed_over_is_passed_over(connect, dataset):
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        given = []
        for epoch in session.epochs(4):
            if epoch.number % 2:
                given += [(batch.epoch, step) for step, batch in epoch]
        assert given == [(n, step) for n in (1, 3) for step in range(len(session))]
        assert (session.state_dict()["epoch"], session.state_dict()["step"]) == (4, 0)
        assert [epoch.number for epoch in list(session.epochs(7))] == [4, 5, 6]


def test_a_place_that_the_loop_moves_to_is_not_passed_over(dataset):
    session = millrace.reference(pipeline(), dataset)
    begun = []
    for epoch in session.epochs(3):
        begun.append((epoch.number, epoch.first_step))
        if len(begun) == 2:
            session.seek(0, 5)
        else:
            assert len(list(epoch)) == len(epoch)
    assert begun == [(0, 0), (1, 0), (0, 5), (1, 0), (2, 0)]


def test_an_epoch_that_is_over_gives_no_batches_of_another(connect, dataset):
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        old = session.next_epoch()
        steps = iter(old)
        next(steps)
        session.load_state_dict(session.state_dict())  # moves nothing
        assert [step for step, _ in steps] == [*range(1, len(session))]
        assert list(old) == []  # it is still the present one
        steps = iter(old)
        present = session.next_epoch()
        for late in (steps, iter(old)):
            with pytest.raises(millrace.Cancelled, match="epoch 0 is no longer being read: the "
                                                         "session has gone on to epoch 1, step 0"):
                next(late)
        step, batch = next(iter(present))
        assert (batch.epoch, step) == (1, 0)


def test_parts_of_a_batch_are_the_batch(connect):
    whole = connect(job="whole")
    parts = connect(job="parts", micro=3)
    for (step, batch), (other_step, micro) in zip(whole.next_epoch(), parts.next_epoch()):
        assert step == other_step
        assert len(micro) == 3
        assert sum((list(part.example_ids) for part in micro), []) == batch.example_ids
        for path in ("node_label", "edge_label", "tactic", "local_args"):
            joined = numpy.concatenate([part[path].numpy() for part in micro])
            assert (joined == batch[path].numpy()).all()
        # Each part counts its nodes and its splits from 0.
        nodes = numpy.cumsum([0] + [len(part["node_label"]) for part in micro])
        for path in ("edge_source", "edge_target", "root", "local_context"):
            joined = numpy.concatenate([part[path].numpy() + first
                                        for part, first in zip(micro, nodes)])
            assert (joined == batch[path].numpy()).all()
        for part in micro:
            for splits in ("node_splits", "edge_splits", "local_args_splits"):
                if splits in part:
                    assert part[splits][0] == 0
                    assert len(part[splits]) == part.num_graphs + 1
    assert parts.stats()["batches"] == len(parts)


def test_more_parts_than_graphs_leave_some_empty(connect):
    session = connect(pipeline(2), micro=5)
    _, parts = next(iter(session.next_epoch()))
    assert [part.num_graphs for part in parts].count(0) == 3
    assert sum(part.num_graphs for part in parts) == 2


def test_any_step_can_be_had_beside_the_loop(connect):
    session = connect(packed=True)
    steps = [(step, batch.digest) for step, batch in session.next_epoch()]
    cursor = session.cursor
    for step, expected in steps[::7]:
        assert session.batch_at(0, step).digest == expected
    assert session.cursor == cursor
    with pytest.raises(millrace.ConfigError, match="an epoch has the steps 0 to"):
        session.batch_at(0, len(session))


def test_a_repeated_batch_shows_the_limit(connect):
    session = connect(repeat_first=5)
    steps = [step for step, _ in session.next_epoch()]
    assert steps[:6] == [0, 0, 0, 0, 0, 1] and steps[-1] == len(session) - 1
    assert "the training's own limit (5 steps)" in session.report()
    always = connect(repeat_first=True, job="always")
    assert [step for step, _ in always.next_epoch()] == [0] * len(always)


def test_an_endless_first_batch_ends_its_epochs(dataset):
    session = millrace.reference(pipeline(), dataset, repeat_first=True)
    given = [(epoch.number, step, batch.example_ids) for epoch in session.epochs(2)
             for step, batch in epoch]
    first = millrace.reference(pipeline(), dataset).batch_at(0, 0).example_ids
    assert given == [(number, 0, first) for number in (0, 1) for _ in range(len(session))]
    assert f"({len(given)} steps)" in session.report()


def test_a_loop_left_early_goes_on_with_the_first_batch(dataset):
    session = millrace.reference(pipeline(), dataset, repeat_first=5)
    for _, (step, _) in zip(range(3), session.next_epoch()):
        assert step == 0
    assert "(2 steps)" in session.report()  # the third step has no known end
    assert [step for step, _ in session.next_epoch()] == [0, 0, *range(1, len(session))]


def test_a_repeated_batch_is_validated(dataset):
    session = millrace.reference(pipeline(), dataset, repeat_first=3, validate=True)
    session.reading.spec = dataclasses.replace(session.spec, edge_labels=0)
    with pytest.raises(millrace.DataError, match="is no label below 0"):
        next(iter(session.next_epoch()))


@pytest.mark.parametrize("wrong", [-1, 2.5, "50"])
def test_what_a_first_batch_is_repeated_is_a_number(dataset, wrong):
    with pytest.raises(millrace.ConfigError, match="repeat_first=.*expected True, or how often"):
        millrace.reference(pipeline(), dataset, repeat_first=wrong)


def test_the_report_names_waits_and_the_loops_own_time(connect):
    session = connect()
    for _, _ in session.next_epoch():
        time.sleep(0.0005)
    report = session.report()
    assert f"{len(session)} steps" in report and "waiting for batches" in report
    assert "the loop's own" in report and "waited, by cause" in report


def test_describe_is_flat(connect):
    flat = connect().describe()
    assert all(isinstance(value, (str, int, float, bool)) for value in flat.values())
    assert flat["millrace/world_size"] == 1 and flat["millrace/fingerprint"]


def test_provenance_names_example_and_definition(connect, dataset):
    session = connect()
    _, batch = next(iter(session.next_epoch()))
    told = session.provenance(batch, 3)
    assert told["example"] == batch.example_ids[3]
    offline = millrace.reference(pipeline(), dataset)
    assert len({session.provenance(batch, row)["file"] for row in range(batch.num_graphs)}) > 1
    for row in range(batch.num_graphs):
        told = session.provenance(batch, row)
        assert told["file"].endswith(".bin")
        assert {**offline.provenance(batch, row), **told} == offline.provenance(batch, row)


def test_provenance_of_a_cluster_names_its_first_definition(connect, dataset):
    of = pipeline(source="definitions")
    session = connect(of)
    offline = millrace.reference(of, dataset)
    _, batch = next(iter(session.next_epoch()))
    for row in range(batch.num_graphs):
        told, expected = session.provenance(batch, row), offline.provenance(batch, row)
        assert (told["definition"], told["file"]) == (expected["definition"], expected["file"])


def test_the_file_of_a_label_is_the_one_that_has_it():
    """Labels are numbered file by file, after the classes; a file may have none."""
    class Labels(numpy.ndarray):
        device = "cpu"  # as a tensor says it

    classes = types.SimpleNamespace(rows=1)
    spec = types.SimpleNamespace(tables={"files": classes, "node_classes": classes})
    tables = {"files": {"name": ["a", "b", "c"], "labels": [2, 0, 3]},
              "node_labels": {"name": ["class", "u", "v", "x", "y", "z"]}}
    for label, file in ((1, "a"), (2, "a"), (3, "c"), (5, "c")):
        batch = {"definition": numpy.array([0, label]).view(Labels)}
        assert _coq.origin(batch, 1, spec, tables) == {
            "definition": tables["node_labels"]["name"][label], "file": file}
    for other in ({"files": classes}, {"node_classes": classes}, {}):
        assert _coq.origin({}, 0, types.SimpleNamespace(tables=other), {}) == {}


def test_held_tensors_are_named(connect):
    session = connect(prefetch_bytes=1)
    steps = iter(session.next_epoch())
    first = next(steps)[1]["edge_source"]
    second = next(steps)[1]["node_label"].numpy()
    held = [entry for entry in session.held() if entry[2]]
    assert held == [(0, 0, ["edge_source"]), (0, 1, ["node_label"])]
    del first
    assert [entry for entry in session.held() if entry[2]] == [(0, 1, ["node_label"])]
    del second
    gc.collect()
    assert [entry for entry in session.held() if entry[2]] == []


def test_an_epoch_keeps_no_batch_that_the_loop_let_go_of(connect):
    session = connect()
    steps = iter(session.next_epoch())
    _, batch = next(steps)
    assert [entry[1] for entry in session.held()] == [0]
    del batch, _
    gc.collect()
    assert session.held() == []


def test_a_shortage_of_slots_is_named_with_who_holds_them(connect):
    session = connect(pipeline(4), prefetch_bytes=1)
    steps = iter(session.next_epoch())
    kept = [next(steps)[1]["root"].numpy() for _ in range(40)]
    assert session.stats()["waited_seconds"]["slot"] > 0
    report = session.report()
    assert "slot" in report and "epoch 0, step 3: root" in report
    del kept


def test_validation_passes_what_is_right_and_names_what_is_not(connect, monkeypatch):
    session = connect(validate=True)
    assert sum(1 for _ in session.next_epoch()) == len(session)
    from millrace import _validate

    batch = session.batch_at(0, 2)
    batch["edge_label"].numpy()[-1] = 9999
    row, what = _validate.check(batch, session.spec)
    assert row == batch.num_graphs - 1 and "edge_label: 9999" in what
    batch["edge_label"].numpy()[-1] = 0
    batch["root"].numpy()[1] = batch["node_splits"].numpy()[2]
    row, what = _validate.check(batch, session.spec)
    assert row == 1 and "root" in what
    monkeypatch.setattr(_validate, "check", lambda batch, spec: (1, "tactic: no good"))
    with pytest.raises(millrace.DataError, match="step 0: tactic: no good; row 1: .*definition.*file.*bin"):
        next(iter(connect(validate=True, job="wrong").next_epoch()))


# --- going on elsewhere ---


def test_sessions_that_nobody_named_are_of_jobs_of_their_own(connect, monkeypatch):
    for name in ("MILLRACE_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    sessions = [connect(of, job=None, attach_timeout=600)
                for of in (pipeline(), pipeline(), pipeline(8))]
    for session in sessions:
        assert sum(1 for _ in session.next_epoch()) == len(session)


def test_a_greedy_loop_does_not_grow(connect):
    """Memory stays steady. malloc may take more now and then, but a leak would show in every
    stretch of epochs."""
    session = connect(pipeline(64))

    def resident():
        """Bytes of this process alone, without the memory of the worker that it has mapped."""
        gc.collect()
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))

    def epochs(until):
        for epoch in session.epochs(until):
            for _, batch in epoch:
                batch["node_label"].numpy()

    sizes = []
    for until in range(300, 1501, 150):
        epochs(until)
        sizes.append(resident())
    assert min(after - before for before, after in zip(sizes, sizes[1:])) < 1 << 19, sizes
