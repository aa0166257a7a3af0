"""Sessions that go on: epochs, states, other world sizes, parts of batches."""

import itertools
import threading

import pytest
from conftest import pipeline, taken

import millrace
from millrace._epoch import micro_batches


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


def test_ranks_that_attach_one_after_another_begin_at_one_state(connect, dataset):
    whole = [batch.example_ids for _, batch in next(millrace.reference(
        pipeline(), dataset).epochs(1))]
    first = connect(job="one")
    steps = iter(first.next_epoch())
    for _ in range(4):
        next(steps)
    state = first.state_dict()
    first.close()
    ranks = []
    for rank in range(2):  # rank 0 reads before rank 1 is there
        ranks.append(connect(job="two", rank=rank, world_size=2, cursor=state))
        assert ranks[rank].state_dict() == {**state, "step": 2}
        _, batch = next(iter(ranks[rank].next_epoch()))
        assert list(batch.example_ids) == list(whole[4 + rank])


def test_a_rank_that_passes_over_an_epoch_locks_no_other_out(connect):
    """Rank 0 has passed over all its epochs before rank 1 begins."""
    ranks = [connect(pipeline(8), rank=rank, world_size=2) for rank in range(2)]
    for session in ranks:
        given = [(batch.epoch, step) for epoch in session.epochs(4) if epoch.number == 2
                 for step, batch in epoch]
        assert given == [(2, step) for step in range(len(session))]
        assert session.state_dict()["epoch"] == 4


@pytest.mark.parametrize("alone", [True, False])
def test_an_epoch_is_passed_over_from_between_the_parts_of_a_batch(dataset, alone):
    session = millrace.reference(pipeline(), dataset, micro=3)
    session.reading._alone = alone
    ids_of_each(itertools.islice(micro_batches(session), 7))
    assert session.state_dict()["parts_given"] == 1
    assert [epoch.number for epoch in session.epochs(2) if epoch.number == 1 and list(epoch)] == [1]


def test_connect_refuses_what_is_no_state(connect, dataset):
    other = millrace.reference(pipeline(shuffle={"seed": 8}), dataset)
    state = other.state_dict()
    for opens in (connect, lambda cursor: millrace.reference(pipeline(), dataset, cursor=cursor)):
        with pytest.raises(millrace.JobError, match="another order"):
            opens(cursor=state)
        with pytest.raises(millrace.ConfigError, match="expected a cursor as text, got 5"):
            opens(cursor={**state, "cursor": 5})
        with pytest.raises(millrace.ConfigError, match="state_dict: expected version 1"):
            opens(cursor={})
        with pytest.raises(millrace.ConfigError, match="after 1 parts of a batch"):
            opens(cursor={**state, "parts_given": 1, "micro": 3, "world_size": 1})


def test_a_state_that_cannot_be_leaves_the_session_where_it_is(connect, dataset):
    other = millrace.reference(pipeline(shuffle={"seed": 8}), dataset)
    for session in (connect(), millrace.reference(pipeline(), dataset)):
        steps = iter(session.next_epoch())
        next(steps)
        with pytest.raises(millrace.JobError, match="another order"):
            session.load_state_dict(other.state_dict())
        for wrong in ("x", "v2,x", f"v2,{session.spec.order_fingerprint}:-1:0", 5):
            with pytest.raises(millrace.ConfigError, match="expected v2,FINGERPRINT:EPOCH:EXAMPLE"):
                session.load_state_dict({"version": 1, "cursor": wrong})
        for wrong in (None, {}, {"version": 2, "cursor": session.cursor}):
            with pytest.raises(millrace.ConfigError, match="state_dict: expected"):
                session.load_state_dict(wrong)
        with pytest.raises(millrace.ConfigError, match="epoch: expected .* got -1"):
            session.seek(-1)
        assert next(steps)[0] == 1
        assert session.state_dict()["step"] == 2


def test_a_session_that_could_not_go_on_elsewhere_goes_on_where_it_was(connect):
    session = connect()
    next(iter(session.next_epoch()))
    attach, refusals = session.reading.attach, [millrace.JobError("no"), KeyboardInterrupt()]

    def refuse(cursor):
        if refusals:
            raise refusals.pop()
        return attach(cursor)

    session.reading.attach = refuse
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
    next(iter(old.next_epoch()))
    new = connect(job="same")
    with pytest.raises(millrace.JobError, match="taken over"):
        # The epoch at hand may be over before the session hears of it.
        for _ in range(100000):
            for _ in old.next_epoch():
                pass
    new.close()
    step = old.state_dict()["step"]
    old.load_state_dict(old.state_dict())
    assert next(iter(old.next_epoch()))[0] == step


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


def ids_of_each(given):
    return [tuple(part.example_ids) for part in given]


@pytest.mark.parametrize("after", [0, 5, 6, "last"])
def test_a_state_between_parts_of_a_batch_loses_none(connect, dataset, after):
    def open_session(name):
        return connect(micro=3, job=f"{name} {after}") if name else \
            millrace.reference(pipeline(), dataset, micro=3)

    expected = ids_of_each(micro_batches(open_session("")))
    count = len(expected) - 1 if after == "last" else after
    for name, other in (("a", "b"), ("", "")):
        session = open_session(name)
        head = ids_of_each(itertools.islice(micro_batches(session), count))
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
        assert head + ids_of_each(micro_batches(resumed)) == expected
        assert ids_of_each(micro_batches(session)) == rest  # the first session goes on, too
        assert resumed.state_dict() == session.state_dict()
        assert resumed.state_dict()["epoch"] == 1
        resumed.load_state_dict(state)  # batch by batch now; the first has only the parts left
        began_there = connect(micro=3, job=f"c {after}", cursor=state) if other else \
            millrace.reference(pipeline(), dataset, micro=3, cursor=state)
        for going_on in (resumed, began_there):
            assert going_on.state_dict() == state
            given = [batch for _, batch in going_on.next_epoch()]
            assert len(given[0]) == 3 - count % 3
            assert [tuple(p.example_ids) for batch in given for p in batch] == rest


# --- errors ---
