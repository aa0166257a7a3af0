"""Two sources side by side."""

import pytest
from conftest import pipeline

import millrace
from millrace._reader import Wrapped

DEFINITIONS = {"millrace": 1, "dataset": "data", "source": "definitions",
               "batch": {"size": 16, "remainder": "keep"}}


def pair(dataset, cursors=(None, None), **options):
    return millrace.zip(proof=millrace.reference(pipeline(), dataset, cursor=cursors[0]),
                        definition=millrace.reference(DEFINITIONS, dataset, cursor=cursors[1]),
                        **options)


def test_the_shorter_one_repeats(dataset):
    both = pair(dataset, repeat="definition")
    steps = [(step, batches["proof"].step, batches["definition"].epoch, batches["definition"].step)
             for epoch in both.epochs(2) for step, batches in epoch]
    proof, definition = both.sessions["proof"], both.sessions["definition"]
    assert [s for s, *_ in steps] == [p for _, p, *_ in steps] == list(range(len(proof))) * 2
    each = len(definition)
    assert [(e, s) for *_, e, s in steps] == [(i // each, i % each) for i in range(2 * len(proof))]


def test_an_epoch_is_one_of_the_longest(dataset):
    """Without `repeat`, and whichever of the two is named first."""
    for order in (1, -1):
        both = pair(dataset)
        both = millrace.zip(**dict([*both.sessions.items()][::order]))
        shorter, longer = sorted(both.sessions, key=lambda name: len(both.sessions[name]))
        each, whole = len(both.sessions[shorter]), len(both.sessions[longer])
        assert each < whole
        epochs = [[(step, b[longer].step, b[shorter].epoch, b[shorter].step) for step, b in epoch]
                  for epoch in both.epochs(2)]
        assert epochs == [[(i, i, n // each, n % each)
                           for i, n in enumerate(range(first, first + whole))]
                          for first in (0, whole)]


def test_sessions_of_one_length_end_together(dataset):
    both = millrace.zip(a=millrace.reference(pipeline(), dataset),
                        b=millrace.reference(pipeline(shuffle={"seed": 8}), dataset))
    given = [(step, b["a"].epoch, b["b"].epoch, b["b"].step) for epoch in both.epochs(2)
             for step, b in epoch]
    assert given == [(step, n, n, step) for n in (0, 1) for step in range(len(both.sessions["a"]))]


def test_an_epoch_that_is_passed_over_is_passed_over_in_all_sessions(dataset):
    both = pair(dataset)
    expected = [[ids_of(b) for _, b in epoch] for epoch in both.epochs(3)]
    both = pair(dataset)
    given = []
    for number, epoch in enumerate(both.epochs(3)):
        if number != 1:
            given.append([ids_of(b) for _, b in epoch])
    assert given == [expected[0], expected[2]]
    stale = list(pair(dataset).epochs(3))
    assert len(stale) == 3
    with pytest.raises(millrace.Cancelled, match="epoch 0 is no longer being read"):
        next(stale[0])


def test_an_epoch_that_is_left_goes_on_in_all_sessions(dataset):
    expected = [ids_of(b) for epoch in pair(dataset).epochs(1) for _, b in epoch]
    given = []
    for epoch in pair(dataset).epochs(1):
        for _, b in epoch:
            given.append(ids_of(b))
            if len(given) == 3:
                break
    assert given == expected


def test_one_state_for_all(dataset):
    both = pair(dataset, repeat="definition")
    steps = next(iter(both.epochs()))
    for _ in range(7):
        next(steps)
    state = both.state_dict()
    expected = [(b["proof"].example_ids, b["definition"].example_ids) for _, b in steps]
    other = pair(dataset, repeat="definition")
    other.load_state_dict(state)
    assert [(b["proof"].example_ids, b["definition"].example_ids)
            for _, b in next(iter(other.epochs()))] == expected
    with pytest.raises(millrace.ConfigError, match="expected"):
        other.load_state_dict({"proof": state["proof"]})
    with pytest.raises(millrace.ConfigError, match="repeat"):
        pair(dataset, repeat="definitions")


def test_a_state_that_one_session_cannot_take_moves_none(dataset):
    both = pair(dataset, repeat="definition")
    steps = next(iter(both.epochs()))
    next(steps)
    before = both.state_dict()
    next(steps)
    here = both.state_dict()
    with pytest.raises(millrace.JobError, match="another order"):
        both.load_state_dict({"proof": before["proof"], "definition": before["proof"]})
    with pytest.raises(millrace.ConfigError, match="expected a dict with"):
        both.load_state_dict(None)
    assert both.state_dict() == here


class Interrupted(Wrapped):
    """A reader that Ctrl-C interrupts once, when it is asked for its batch number `at`."""

    def __init__(self, reader, at):
        super().__init__(reader)
        self._left = at

    def next(self):
        self._left -= 1
        if self._left == -1:
            raise KeyboardInterrupt
        return self.reader.next()


def ids_of(batches):
    return batches["proof"].example_ids, batches["definition"].example_ids


@pytest.mark.parametrize("name", ["proof", "definition"])
@pytest.mark.parametrize("at", [0, 3, "last", "between epochs"])
def test_a_step_that_is_broken_off_is_given_whole_the_next_time(dataset, name, at):
    repeat = "definition"
    expected = [ids_of(b) for epoch in pair(dataset, repeat=repeat).epochs(2) for _, b in epoch]
    both = pair(dataset, repeat=repeat)
    session = both.sessions[name]
    if isinstance(at, str):
        at = len(both.sessions["proof"]) - (at == "last")
    session.reading.open = Interrupted(session.reading.open, at)
    given = []
    state = None
    for _ in range(2):
        try:
            given += [ids_of(b) for epoch in both.epochs(2) for _, b in epoch]
        except KeyboardInterrupt:
            state = both.state_dict()
    # The comprehension that was interrupted gave nothing, but `at` batches had come to it.
    assert given == expected[at:]
    resumed = pair(dataset, repeat=repeat)
    resumed.load_state_dict(state)
    assert [ids_of(b) for epoch in resumed.epochs(2) for _, b in epoch] == expected[at:]
