"""Sessions: what is delivered, where it goes on, and how it ends."""

import dataclasses
import gc
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import numpy
import pytest
from conftest import digest, pipeline

import millrace
from millrace._epoch import parts


def taken(session, until):
    """(epoch, step, hash) of every batch as far as an epoch."""
    return [(epoch.number, step, batch.digest)
            for epoch in session.epochs(until) for step, batch in epoch]


def test_every_batch_is_that_of_the_reference(connect, dataset, tmp_path):
    session = connect(packed=True)
    expected = [(epoch, line["ordinal"], line["hash"])
                for epoch in (0, 1) for line in digest(dataset, pipeline(), epoch, folder=tmp_path)]
    assert taken(session, 2) == expected
    assert len(session) * 2 == len(expected)


def test_spec_and_length_are_known_before_any_batch(connect):
    session = connect()
    assert session.stats()["batches"] == 0
    assert len(session) == session.spec.steps_per_epoch > 10
    assert session.spec["edge_source"].dtype == "int32"
    assert session.spec.edges == (("edge_splits", "edge_source", "edge_target", "edge_label"),)
    batch = session.batch_at(0, 0)
    assert list(batch) == [tensor.path for tensor in session.spec.tensors]


def test_it_goes_on_in_the_middle_of_an_epoch(connect):
    session = connect(packed=True, job="first")
    whole = taken(session, 2)
    other = connect(packed=True, job="second")
    steps = iter(other.next_epoch())
    head = [next(steps)[1].digest for _ in range(5)]
    state = other.state_dict()
    assert state["epoch"] == 0 and state["step"] == 5
    other.close()
    resumed = connect(packed=True, job="third")
    resumed.load_state_dict(state)
    epoch = resumed.next_epoch()
    assert epoch.first_step == 5 and len(epoch) == len(resumed) - 5
    tail = taken(resumed, 2)
    assert head + [d for _, _, d in tail] == [d for _, _, d in whole]
    assert [s for _, s, _ in tail] == [s for _, s, _ in whole[5:]]


def test_epochs_until_counts_epochs_in_all(connect):
    session = connect()
    session.seek(3)
    assert [epoch.number for epoch in session.epochs(5) if list(epoch)] == [3, 4]
    assert list(session.epochs(5)) == []


def test_an_epoch_that_was_left_goes_on(connect):
    session = connect()
    steps = []
    for epoch in session.epochs(1):
        for step, _ in epoch:
            steps.append(step)
            if step == 3 and len(steps) == 4:
                break
    assert steps == list(range(len(session)))


def test_ranks_agree_on_steps_and_state(connect):
    ranks = [connect(pipeline(8), rank=rank, world_size=2) for rank in range(2)]
    given = [[], []]
    states = [[], []]

    def read(rank):
        for epoch in ranks[rank].epochs(1):
            for step, batch in epoch:
                given[rank].append((step, batch.example_ids))
                states[rank].append(ranks[rank].state_dict())

    threads = [threading.Thread(target=read, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [s for s, _ in given[0]] == [s for s, _ in given[1]] == list(range(len(ranks[0])))
    assert states[0] == states[1]
    ids = [i for rank in given for _, examples in rank for i in examples]
    assert len(ids) == len(set(ids)) > 0


def test_another_world_size_gets_the_rest_and_nothing_else(connect, dataset):
    of = pipeline(8)
    everything = {i for epoch in millrace.reference(of, dataset).epochs(1)
                  for _, batch in epoch for i in batch.example_ids}
    first = connect(of, job="one")
    steps = iter(first.next_epoch())
    seen = [i for _ in range(7) for i in next(steps)[1].example_ids]
    state = first.state_dict()
    first.close()
    three = [connect(of, job="three", rank=rank, world_size=3) for rank in range(3)]
    rest = []

    def read(session):
        session.load_state_dict(state)
        for epoch in session.epochs(1):
            for _, batch in epoch:
                rest.extend(batch.example_ids)

    threads = [threading.Thread(target=read, args=(session,)) for session in three]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen + rest) == sorted(everything)


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
    assert "(2 steps)" in session.report()  # the third was left, nobody knows when
    assert [step for step, _ in session.next_epoch()] == [0, 0, *range(1, len(session))]


def test_a_repeated_batch_is_validated(dataset):
    session = millrace.reference(pipeline(), dataset, repeat_first=3, validate=True)
    session.spec = dataclasses.replace(session.spec, edge_labels=0)
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
    with pytest.raises(millrace.DataError, match="step 0: tactic: no good; graph 1: .*definition.*file.*bin"):
        next(iter(connect(validate=True, job="wrong").next_epoch()))


# --- going on elsewhere ---


def test_a_state_that_cannot_be_leaves_the_session_where_it_is(connect, dataset):
    other = millrace.reference(pipeline(shuffle={"seed": 8}), dataset)
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        steps = iter(session.next_epoch())
        next(steps)
        with pytest.raises(millrace.JobError, match="another order"):
            session.load_state_dict(other.state_dict())
        for wrong in ("x", "v1,x", f"v1,{session.spec.order_fingerprint}:-1:0", 5):
            with pytest.raises(millrace.ConfigError, match="expected v1,FINGERPRINT:EPOCH:EXAMPLE"):
                session.load_state_dict({"version": 1, "cursor": wrong})
        for wrong in (None, {}, {"version": 2, "cursor": session.cursor}):
            with pytest.raises(millrace.ConfigError, match="state_dict: expected"):
                session.load_state_dict(wrong)
        with pytest.raises(millrace.ConfigError, match="epoch -1"):
            session.seek(-1)
        assert next(steps)[0] == 1
        assert session.state_dict()["step"] == 2


def test_a_session_that_could_not_go_on_elsewhere_goes_on_where_it_was(connect):
    session = connect()
    next(iter(session.next_epoch()))
    attach, refusals = session._attach, [millrace.JobError("no"), KeyboardInterrupt()]

    def refuse(cursor, peek=False):
        if refusals:
            raise refusals.pop()
        return attach(cursor, peek)

    session._attach = refuse
    with pytest.raises(KeyboardInterrupt):
        session.seek(3)
    with pytest.raises(millrace.JobError):
        session.seek(3)
    assert session.state_dict()["step"] == 1
    assert next(iter(session.next_epoch()))[0] == 1


def test_a_cancelled_session_goes_on_where_its_state_says(connect):
    session = connect()
    next(iter(session.next_epoch()))
    session.cancel()
    with pytest.raises(millrace.Cancelled):
        next(iter(session.next_epoch()))
    session.load_state_dict(session.state_dict())
    assert next(iter(session.next_epoch()))[0] == 1


def test_a_session_that_was_taken_over_goes_on_where_its_state_says(connect):
    old = connect(job="same")
    steps = iter(old.next_epoch())
    next(steps)
    new = connect(job="same")
    with pytest.raises(millrace.JobError, match="taken over"):
        for _ in range(100000):
            next(steps)
    new.close()
    step = old.state_dict()["step"]
    old.load_state_dict(old.state_dict())
    assert next(iter(old.next_epoch()))[0] == step


def test_sessions_that_nobody_named_are_of_jobs_of_their_own(connect, monkeypatch):
    for name in ("MILLRACE_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    sessions = [connect(of, job=None, attach_timeout=20)
                for of in (pipeline(), pipeline(), pipeline(8))]
    for session in sessions:
        assert sum(1 for _ in session.next_epoch()) == len(session)


@pytest.mark.parametrize("remainder", ["keep", "drop"])
def test_an_epoch_has_the_length_that_is_given_for_any_world_size(dataset, remainder):
    of = pipeline(16, remainder)
    three = millrace.reference(of, dataset, world_size=3)
    next(iter(three.next_epoch()))
    for world_size in (1, 2, 4, 5, 7):
        session = millrace.reference(of, dataset, world_size=world_size)
        session.load_state_dict(three.state_dict())
        epoch = session.next_epoch()
        assert len(epoch) == sum(1 for _ in epoch), world_size


def ids_by_part(given):
    return [tuple(part.example_ids) for part in given]


@pytest.mark.parametrize("after", [0, 5, 6, "last"])
def test_a_state_between_parts_of_a_batch_loses_none(connect, dataset, after):
    def open_session(name):
        return connect(micro=3, job=f"{name} {after}") if name else \
            millrace.reference(pipeline(), dataset, micro=3)

    expected = ids_by_part(parts(open_session("")))
    count = len(expected) - 1 if after == "last" else after
    for name, other in (("a", "b"), ("", "")):
        session = open_session(name)
        head = ids_by_part(itertools.islice(parts(session), count))
        state = session.state_dict()
        assert state["step"] == count // 3 and state.get("parts_given", 0) == count % 3
        rest = expected[count:]
        if count % 3:
            cut = millrace.reference(pipeline(), dataset, micro=2)
            with pytest.raises(millrace.ConfigError, match="after 2 parts of a batch"):
                cut.load_state_dict(state)
        resumed = open_session(other)
        resumed.load_state_dict(state)
        assert resumed.state_dict() == state
        assert len(resumed.next_epoch()) == len(session.next_epoch()) == len(session) - count // 3
        assert head + ids_by_part(parts(resumed)) == expected
        assert ids_by_part(parts(session)) == rest  # a loop that was left goes on, too
        assert resumed.state_dict() == session.state_dict()
        assert resumed.state_dict()["epoch"] == 1
        resumed.load_state_dict(state)  # by batches: the first is what is left of it
        given = [batch for _, batch in resumed.next_epoch()]
        assert len(given[0]) == 3 - count % 3
        assert [tuple(p.example_ids) for batch in given for p in batch] == rest


# --- errors ---


def test_errors_are_a_tree_with_codes(connect, server, tmp_path):
    with pytest.raises(millrace.JobError, match="did you mean shuffle") as caught:
        connect({**pipeline(), "shufle": {}})
    assert caught.value.code == "FAILED_PRECONDITION" and isinstance(caught.value, millrace.Error)
    with pytest.raises(millrace.ConfigError, match="did you mean shuffle") as caught:
        millrace.reference({**pipeline(), "shufle": {}}, "/nowhere")
    assert caught.value.code == "INVALID_ARGUMENT" and isinstance(caught.value, ValueError)
    with pytest.raises(millrace.ConfigError, match="missing.yaml") as caught:
        millrace.connect(server.address, pipeline=tmp_path / "missing.yaml")
    assert caught.value.code == "NOT_FOUND"
    with pytest.raises(millrace.ConfigError, match="rank 2 of world size 2"):
        connect(rank=2, world_size=2)
    with pytest.raises(millrace.ConnectionError) as caught:
        millrace.connect("127.0.0.1:1", pipeline=pipeline(), job="none", connect_timeout=0.3)
    assert isinstance(caught.value, ConnectionError)
    with pytest.raises(millrace.ConfigError, match="option|unexpected|not known"):
        from millrace._core import SessionReader
        SessionReader({"adress": "x", "pipeline": "x", "job": "x"})


def test_a_newer_session_takes_the_rank_over(connect):
    old = connect(job="taken")
    iterator = iter(old.next_epoch())
    next(iterator)
    connect(job="taken")
    with pytest.raises(millrace.JobError, match="taken over"):
        for _ in range(100000):
            next(iterator)


def test_a_closed_session_says_so(connect):
    session = connect()
    session.close()
    session.close()
    with pytest.raises(millrace.Cancelled, match="closed"):
        next(iter(session.next_epoch()))


def test_what_a_session_did_is_known_after_its_end(connect, dataset):
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        for _ in session.next_epoch():
            pass
        stats = session.stats()
        session.close()
        assert f"{len(session)} steps" in session.report()
        assert session.stats().get("batches") == stats.get("batches")
        assert session.held() == []


def test_cancel_ends_a_wait_of_another_thread(server):
    # No dispatcher is asked twice: this job waits for a rank that is never there.
    session = millrace.connect(server.address, pipeline=pipeline(), job="cancelled")
    threading.Timer(0.2, session.cancel).start()
    with pytest.raises(millrace.Cancelled):
        while True:
            for epoch in session.epochs():
                for _ in epoch:
                    pass
    session.close()


_WAITS = """
import sys, millrace
print("waiting", flush=True)
millrace.connect({address!r}, pipeline={pipeline!r}, job="x", connect_timeout=60)
"""


def test_ctrl_c_ends_a_wait_at_once():
    code = _WAITS.format(address="127.0.0.1:1", pipeline=json.dumps(pipeline()))
    waits = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert waits.stdout.readline() == "waiting\n"
    time.sleep(0.5)
    began = time.monotonic()
    waits.send_signal(signal.SIGINT)
    _, err = waits.communicate(timeout=30)
    assert "KeyboardInterrupt" in err
    assert time.monotonic() - began < 20


def stand_still(pid):
    """Returns when the process has stopped: a signal is only sent when kill returns."""
    os.kill(pid, signal.SIGSTOP)
    threads = pathlib.Path(f"/proc/{pid}/task")
    while any(t.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "T"
              for t in threads.iterdir()):
        time.sleep(0.01)


def test_signals_are_handled_while_the_vocabulary_is_waited_for(dataset):
    """The handler wakes the server: without it there would be no vocabulary."""
    with millrace.LocalServer({"data": dataset}) as server:
        session = millrace.connect(server.address, pipeline=pipeline(), job="vocabulary")
        next(iter(session.next_epoch()))  # so that a worker is known
        old = signal.signal(signal.SIGALRM, lambda *_: os.kill(server.pid, signal.SIGCONT))
        try:
            stand_still(server.pid)
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            assert len(session.vocabulary["node_label_names"]) == session.spec.node_labels
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
            os.kill(server.pid, signal.SIGCONT)
        session.close()


def test_a_wait_for_the_vocabulary_ends_with_the_session(dataset):
    with millrace.LocalServer({"data": dataset}) as server:
        session = millrace.connect(server.address, pipeline=pipeline(), job="vocabulary")
        next(iter(session.next_epoch()))  # so that a worker is known
        try:
            stand_still(server.pid)
            threading.Timer(0.3, session.cancel).start()
            with pytest.raises(millrace.Cancelled, match="cancelled"):
                session.context(0)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        session.close()


def in_a_fork(work):
    """Exit code of a forked process that ends with what `work` gives, whatever happens."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    pytest.fail("the forked process hangs")


def test_a_forked_process_is_refused_and_ends(connect):
    session = connect()
    iterator = iter(session.next_epoch())
    held = list(next(iterator))
    held.append(held[1]["node_label"])

    def work():
        try:
            next(iterator)
            return 1
        except millrace.JobError as error:
            held.clear()
            gc.collect()
            session.close()
            return 0 if "forked" in str(error) else 2

    assert in_a_fork(work) == 0
    assert next(iterator)[0] == 1  # the parent goes on


def test_a_forked_process_cannot_connect_after_its_parent_did(connect):
    connect()

    def work():
        try:
            connect(job="child")
            return 1
        except millrace.JobError as error:
            return 0 if "spawn" in str(error) else 2

    assert in_a_fork(work) == 0


def test_a_greedy_loop_does_not_grow(connect):
    """Steady memory: malloc may take a step now and then, a leak shows in every stretch of epochs."""
    session = connect(pipeline(64))

    def resident():
        """Bytes of its own: what it has mapped of the worker's memory is the worker's."""
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
