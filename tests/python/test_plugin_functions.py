"""Functions of plugins among the tensors of a pipeline: what they get and give, what they drop, and
the same bytes from any fleet."""

import numpy
import pytest
from conftest import run
from fleet import Fleet, config_of
from plugin_files import all_rows, digests, rows_of, write

import millrace

FUNCTIONS = """
import numpy as np

__all__ = ["Numbers", "halves", "stats", "noise", "batch_rank", "picky", "wide", "again", "chosen",
           "of_id", "of_board", "draw", "draw_all", "unseeded"]


class Numbers:
    '''Example i has i % 5 numbers.'''

    def __init__(self, size=40):
        self.size = size

    def __len__(self):
        return self.size

    def spec(self):
        return {"x": "float32[*]", "n": "int32"}

    def __getitem__(self, i):
        return {"x": np.arange(i % 5, dtype=np.float32) + i, "n": i}


def halves(x):
    return x / 2


def again(halves, by):
    return np.concatenate([halves] * by)


def stats(values, n):
    return {"sum": np.float64(values.sum() + n), "pair": np.array([n, len(values)], np.int16)}


def noise(x, rng):
    return x + rng.standard_normal(len(x)).astype(np.float32)


def batch_rank(n):
    return np.argsort(np.argsort(n)).astype(np.int64)


def draw(n, rng):
    return rng.integers(1 << 62)


def draw_all(n, rngs):
    return np.array([rng.integers(1 << 62) for rng in rngs])


def unseeded(n):
    import random

    return np.array([random.random(), np.random.random()])


def picky(x, n, bad):
    if n % bad == 3:
        raise ValueError("example %d is picked out" % n)
    return x


def chosen(x, rngs):
    return [row[rng.permutation(len(row))] for row, rng in zip(x, rngs)]


def wide(x):
    return x.astype(np.float64)


def of_id(example_id):
    if example_id % 7 == 0:
        raise ValueError(example_id)
    return np.arange(example_id % 3)


def of_board(d, s):
    return {"ones": int(np.unpackbits(d).sum()), "sign": int(np.sign(s))}
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory):
    return {"maths": write(tmp_path_factory.mktemp("maths"), "maths", FUNCTIONS)}


def pipeline(tensors, output=None, **more):
    text = {"millrace": 1, "source": {"python": "maths:Numbers"}, "shuffle": {"seed": 3},
            "batch": {"size": 8, "remainder": "keep"}, "tensors": tensors, **more}
    return text if output is None else {**text, "output": output}


def use(name, inputs, returns, **more):
    types = {"types": returns} if isinstance(returns, dict) else {"type": returns}
    return {"python": f"maths:{name}", "inputs": inputs, **types, **more}


def numbers(i):
    return numpy.arange(i % 5, dtype=numpy.float32) + i


def test_a_function_gets_the_tensors_of_its_example_and_gives_others(plugins):
    tensors = {"halves": use("halves", ["x"], "float32[*]"),
               "stats": use("stats", {"values": "doubled", "n": "n"},
                            {"sum": "float64", "pair": "int16[2]"}),
               "doubled": {"expr": "x * 2"},
               "less": {"expr": "stats.sum - 1"}}
    with millrace.local({}, pipeline(tensors), plugins=plugins, validate=True) as session:
        rows = all_rows(session, "halves", "stats/pair", "less")
    assert sorted(row[0] for row in rows) == list(range(40))
    for i, halves, pair, less in rows:
        assert halves == (numbers(i) / 2).tolist()
        assert pair == [i, i % 5]
        assert less == 2 * float(numbers(i).sum()) + i - 1


def test_functions_read_what_others_made_and_steps_follow_them(plugins):
    tensors = {"halves": use("halves", ["x"], "float32[*]"),
               "again": use("again", ["halves"], "float32[*]", args={"by": 3}, scale=4,
                            dtype="float64")}
    reference = millrace.reference(pipeline(tensors, ["again"]), plugins=plugins)
    for i, again in all_rows(reference, "again"):
        assert again == [2.0 * value for value in numbers(i).tolist()] * 3


def test_the_length_of_what_a_function_made_orders_and_pads(plugins):
    tensors = {"again": use("again", {"halves": "x"}, "float32[*]", args={"by": 2})}
    text = pipeline(tensors, ["again"], pad={"again": {"to": "bound"}},
                    batch={"bucket": {"by": "again.length", "bounds": [2, 8], "size": 5},
                           "remainder": "keep"})
    reference = millrace.reference(text, plugins=plugins)
    seen = []
    for _, batch in reference.next_epoch():
        again = batch["again"].numpy()
        assert again.shape[1] in (2, 8)
        for row, i in enumerate(batch.example_ids):
            own = numpy.concatenate([numbers(i)] * 2)
            assert (again[row, :len(own)] == own).all() and (again[row, len(own):] == 0).all()
            assert (len(own) > 2) == (again.shape[1] == 8)
            seen.append(i)
    assert sorted(seen) == list(range(40))


def test_what_a_function_drops_is_dropped_in_its_place(plugins):
    drop = {"drop": ["ValueError"], "args": {"bad": 10}}
    tensors = {"picked": use("picky", ["x", "n"], "float32[*]", **drop),
               "after": use("halves", {"x": "picked"}, "float32[*]")}
    for output in (["after"], ["picked"]):
        with millrace.local({}, pipeline(tensors, output), plugins=plugins) as session:
            dropped, rows = [], []
            for _, batch in session.next_epoch():
                dropped += batch.dropped
                rows += rows_of(batch, *output)
        assert sorted(row[0] for row in rows) == [i for i in range(40) if i % 10 != 3]
        assert sorted(dropped) == [(i, "plugin") for i in (3, 13, 23, 33)]


def test_an_error_of_a_function_has_its_traceback_and_the_way_out(plugins):
    tensors = {"picked": use("picky", ["x", "n"], "float32[*]", args={"bad": 100})}
    with millrace.local({}, pipeline(tensors), plugins=plugins, packed=True) as session:
        with pytest.raises(millrace.DataError) as error:
            digests(session)
    text = str(error.value)
    assert 'maths.py", line' in text and "ValueError: example 3 is picked out" in text
    assert "tensors.picked" in text and "exclude: {examples: [3]}" in text


@pytest.mark.parametrize("definition, says", [
    (use("wide", ["x"], "float32[*]"), "float64"),
    (use("gone", ["x"], "float32[*]"), "gone"),
    (use("halves", ["y"], "float32[*]"), "there is no tensor 'y'"),
    (use("halves", ["x"], "float32[*"), "type"),
    (use("halves", ["x"], "float32[*]", args={"x": 1}), "given already"),
    ({"python": "maths:halves", "inputs": ["x"]}, "tensors.t.type is missing"),
    ({"python": "maths:halves", "type": "int64"}, "tensors.t.inputs is missing"),
    (use("halves", ["x"], "float32[*]", at="consumer"), "at the worker only"),
    ({"python": "elsewhere:f", "inputs": ["x"], "type": "int64"}, "--plugin elsewhere="),
    (use("picky", ["x", "n"], "float32[*]", per="batch", drop=["ValueError"]), "drop"),
])
def test_a_use_that_cannot_work_is_named(plugins, definition, says):
    with pytest.raises(millrace.Error) as error:
        session = millrace.reference(pipeline({"t": definition}), plugins=plugins)
        digests(session)
    assert says in str(error.value)
    assert "t" in str(error.value)


def test_a_function_for_whole_batches_gets_them_as_they_are(plugins):
    tensors = {"rank": use("batch_rank", ["n"], "int64", per="batch"),
               "shuffled": use("chosen", ["x"], "float32[*]", per="batch")}
    reference = millrace.reference(pipeline(tensors, ["rank", "shuffled"]), plugins=plugins)
    changed = False
    for _, batch in reference.next_epoch():
        ids = numpy.array(batch.example_ids)
        assert batch["rank"].numpy().tolist() == numpy.argsort(numpy.argsort(ids)).tolist()
        for i, shuffled in rows_of(batch, "shuffled"):
            assert sorted(shuffled) == numbers(i).tolist()
            changed |= shuffled != numbers(i).tolist()
    assert changed


def test_only_what_something_reads_is_called(plugins):
    tensors = {"fails": use("picky", ["x", "n"], "float32[*]", args={"bad": 100}),
               "halves": use("halves", ["x"], "float32[*]")}
    reference = millrace.reference(pipeline(tensors, ["halves"]), plugins=plugins)
    assert len(all_rows(reference, "halves")) == 40


def test_chance_changes_with_the_epoch_and_is_the_same_from_any_fleet(plugins, tmp_path):
    tensors = {"noisy": use("noise", ["x"], "float32[*]"),
               "picked": use("picky", {"x": "noisy", "n": "n"}, "float32[*]", args={"bad": 7},
                             drop=["ValueError"])}
    text = pipeline(tensors, ["picked"])
    reference = millrace.reference(text, plugins=plugins)
    expected = [digests(reference) for _ in range(2)]
    assert expected[0] != expected[1]
    other = {**text, "shuffle": {"seed": 4}}
    assert digests(millrace.reference(other, plugins=plugins)) != expected[0]
    for workers, processes in ((1, 1), (3, 4)):
        configs = [config_of(tmp_path / f"{workers}-{i}", plugins, processes=processes)
                   for i in range(workers)]
        # The dispatcher of the larger fleet has no plugin, and asks a worker.
        without = config_of(tmp_path / "without", {}) if workers > 1 else None
        with Fleet(tmp_path / f"fleet{workers}", configs, of_dispatcher=without) as fleet:
            with fleet.connect(text) as session:
                assert [digests(session) for _ in range(2)] == expected


def test_tensors_have_chance_of_their_own(plugins):
    view = use("draw", ["n"], "int64")
    at_once = use("draw_all", ["n"], "int64", per="batch")
    text = pipeline({"view1": view, "view2": view, "view3": at_once, "view4": at_once},
                    ["view1", "view2", "view3", "view4", "n"])
    rows = all_rows(millrace.reference(text, plugins=plugins), "view1", "view2", "view3", "view4",
                    "n")
    drawn = [value for _, *views, _ in rows for value in views]
    assert len(rows) == 40 and len(set(drawn)) == 160
    # The same views, whatever else there is and in whatever company.
    alone = {**pipeline({"view2": view}, ["view2", "n"]), "batch": {"size": 3, "remainder": "keep"}}
    views = {n: view2 for _, _, view2, _, _, n in rows}
    assert all(views[n] == view2 for _, view2, n in
               all_rows(millrace.reference(alone, plugins=plugins), "view2", "n"))


def test_chunks_have_chance_of_their_own(plugins):
    cut = {**pipeline({"view1": use("draw", ["n"], "int64")}, ["view1", "n", "x", "chunk"]),
           "chunk": {"tensor": "x", "size": 2, "step": 1}}
    sizes = {}
    for size in (64, 3):
        cut["batch"] = {"size": size, "remainder": "keep"}
        rows = all_rows(millrace.reference(cut, plugins=plugins), "view1", "n", "chunk")
        sizes[size] = {(n, chunk): view1 for _, view1, n, chunk in rows}
        assert len(sizes[size]) == 8 * (1 + 1 + 1 + 2 + 3)
        assert len(set(sizes[size].values())) == 64  # a chunk has what no other one has
    assert sizes[64] == sizes[3]


def test_a_dropped_chunk_leaves_the_others(plugins, tmp_path):
    text = """
        __all__ = ["half"]

        def half(n, rng):
            if rng.random() < 0.5:
                raise ValueError(n)
            return n
    """
    more = {**plugins, "halving": write(tmp_path, "halving", text)}
    cut = {**pipeline({"kept": {"python": "halving:half", "inputs": ["n"], "type": "int32",
                                "drop": ["ValueError"]}}, ["kept", "n", "x", "chunk"]),
           "chunk": {"tensor": "x", "size": 2, "step": 1}}
    whole = None
    for size in (64, 5):
        cut["batch"] = {"size": size, "remainder": "keep"}
        rows = all_rows(millrace.reference(cut, plugins=more), "kept", "n", "x", "chunk")
        for _, kept, n, x, chunk in rows:
            assert kept == n and list(x) == [n + i for i in range(n % 5)][chunk:chunk + 2]
        found = sorted((n, chunk) for _, _, n, _, chunk in rows)
        assert 10 < len(found) < 54
        assert whole in (None, found)
        whole = found
    partly = {n for n, _ in whole if n % 5 == 4 and len([m for m, _ in whole if m == n]) < 3}
    assert partly  # some example has chunks of both kinds


def test_generators_that_are_seeded_have_streams_of_their_own(plugins):
    view = use("unseeded", ["n"], "float64[2]", random=True)
    rows = all_rows(millrace.reference(pipeline({"a": view, "b": view}, ["a", "b"]),
                                       plugins=plugins), "a", "b")
    drawn = [float(value) for _, *views in rows for pair in views for value in pair]
    assert len(set(drawn)) == len(drawn) == 160


def test_passes_of_a_mix_have_chance_of_their_own(plugins):
    branch = {"source": {"python": "maths:Numbers", "args": {"size": 6}}, "shuffle": {"seed": 1},
              "tensors": {"noisy": use("noise", ["x"], "float32[*]")}}
    text = {"millrace": 1, "branches": {"a": branch, "b": branch},
            "mix": {"weights": {"a": 1, "b": 1}, "epoch": 48},
            "batch": {"size": 8, "remainder": "keep"}, "output": ["noisy", "n", "branch"]}
    reference = millrace.reference(text, plugins=plugins)
    seen = {}
    for _, batch in reference.next_epoch():
        for row in rows_of(batch, "noisy", "n", "branch"):
            _, noisy, n, at = row
            seen.setdefault((n, at), []).append(tuple(noisy))
    assert all(seen[n, "a"] != seen[n, "b"] for n, at in seen if at == "a" and n % 5)
    # 24 rows of each branch of 6 examples: four passes, each with other noise.
    for (n, _), values in seen.items():
        assert len(values) == 4
        assert len(set(values)) == (4 if n % 5 else 1)


def test_a_cache_keeps_what_depends_on_the_example_alone(plugins, tmp_path):
    tensors = {"halves": use("halves", ["x"], "float32[*]"),
               "noisy": use("noise", {"x": "halves"}, "float32[*]")}
    text = pipeline(tensors, ["noisy"])
    cached = {**text, "cache": {"examples": "memory"}}
    plain = millrace.reference(text, plugins=plugins)
    kept = millrace.reference(cached, plugins=plugins)
    for _ in range(3):
        assert digests(kept) == digests(plain)


def test_graphs_stay_what_they_are_beside_what_a_function_makes(plugins, dataset):
    text = {"millrace": 1, "dataset": "data", "source": "proof_states", "shuffle": {"seed": 7},
            "closure": {"max_subgraph_size": 64}, "batch": {"size": 32, "remainder": "keep"}}
    made = {"tensors": {"numbers": use("of_id", ["example_id"], "int64[*]", drop=["ValueError"])}}
    plain = millrace.reference(text, {"data": dataset})
    more = millrace.reference({**text, **made}, {"data": dataset}, plugins=plugins)
    expected = {i: batch.row(row) for _, batch in plain.next_epoch()
                for row, i in enumerate(batch.example_ids)}
    dropped, seen = [], []
    for _, batch in more.next_epoch():
        dropped += [i for i, reason in batch.dropped if reason == "plugin"]
        for row, i in enumerate(batch.example_ids):
            own = batch.row(row)
            assert own.pop("numbers").tolist() == list(range(i % 3))
            for name, values in own.items():
                assert numpy.array_equal(values, expected[i][name]), name
            seen.append(i)
    assert sorted(seen) == [i for i in sorted(expected) if i % 7]
    assert sorted(dropped) == [i for i in sorted(expected) if i % 7 == 0]


def test_a_function_reads_records(plugins, tmp_path):
    run("generate", "--kind", "records", tmp_path / "records", "--records", 300, "--files", 2)
    text = {"millrace": 1, "dataset": "data", "shuffle": {"seed": 0},
            "source": {"records": {"d": "bytes[194]", "s": "int64"}},
            "batch": {"size": 64, "remainder": "keep"}, "output": ["d", "s", "f.ones", "f.sign"],
            "tensors": {"f": use("of_board", ["d", "s"], {"ones": "int32", "sign": "int8"})}}
    reference = millrace.reference(text, {"data": tmp_path / "records"}, plugins=plugins)
    rows = all_rows(reference, "d", "s", "f/ones", "f/sign")
    assert len(rows) == 300
    for _, board, score, ones, sign in rows:
        assert ones == numpy.unpackbits(numpy.array(board, numpy.uint8)).sum()
        assert sign == numpy.sign(score)
