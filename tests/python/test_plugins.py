"""Sources that are classes of plugins: what the loop gets, the same bytes from any fleet, and places
in an epoch."""

import os

import numpy
import pytest
from fleet import Fleet, config_of
from plugin_files import (CORPUS, RANDOM, all_rows, class_of, digests, of_plugin, rows_of, write)

import millrace


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """alone(name, **args): a source of `corpus` that runs here, without Millrace."""
    folder = tmp_path_factory.mktemp("alone")
    return lambda name, **args: class_of(CORPUS, name, folder)(**args)


def test_a_map_dataset_gives_its_own_values_once_an_epoch(corpus, alone):
    source = alone("Corpus", size=60, scale=2)
    pipeline = of_plugin(source={"args": {"size": 60, "scale": 2}})
    with millrace.local({}, pipeline, plugins=corpus, validate=True) as session:
        orders = []
        for _ in range(2):
            rows = all_rows(session, "features", "label", "name")
            for i, features, label, name in rows:
                own = source[i]
                assert features == own["features"].tolist()
                assert label == own["label"] and bytes(name).decode() == own["name"]
            assert sorted(row[0] for row in rows) == list(range(60))
            orders.append([row[0] for row in rows])
        assert orders[0] != orders[1]


@pytest.mark.parametrize("name, by", [("Corpus", "frames"), ("Measured", "features.length")])
def test_batches_of_like_lengths_are_padded_to_their_bounds(corpus, alone, name, by):
    source = alone(name)
    pipeline = of_plugin(f"corpus:{name}", output=["features", "label"],
                         batch={"bucket": {"by": by, "bounds": [8, 16, 24], "budget": 96},
                                "remainder": "keep"},
                         pad={"features": {"to": "bound", "value": -1}})
    local = millrace.local({}, pipeline, plugins=corpus, validate=True)
    with local as session:
        batches = [batch for _, batch in session.next_epoch()]
        seen = []
        for batch in batches:
            features, lengths = batch["features"].numpy(), batch["features.length"].numpy()
            rows, bound, _ = features.shape
            assert bound in (8, 16, 24) and rows * bound <= 96
            for row, i in enumerate(batch.example_ids):
                own = source[i]["features"]
                assert bound - 8 < len(own) == lengths[row] <= bound
                assert (features[row, :len(own)] == own).all()
                assert (features[row, len(own):] == -1).all()
                seen.append(i)
        assert sorted(seen) == list(range(60))
    reference = millrace.reference(pipeline, plugins=corpus)
    assert [batch.digest for _, batch in reference.next_epoch()] == digests(
        millrace.local({}, pipeline, plugins=corpus, packed=True))


def test_a_filter_and_an_order_read_columns(corpus, alone):
    source = alone("Corpus")
    short = {i for i in range(60) if source.frames(i) < 10}
    pipeline = of_plugin(filter={"where": "frames < 10"}, balance={"by": "frames", "group": 2})
    rows = all_rows(millrace.reference(pipeline, plugins=corpus), "features")
    assert sorted(row[0] for row in rows) == sorted(short)
    assert all(len(features) == source.frames(i) for i, features in rows)


def test_a_split_goes_by_the_number_of_the_example(corpus):
    parts = [all_rows(millrace.reference(of_plugin(split={"method": "hash", "proportions": [3, 1],
                                                          "take": take}), plugins=corpus))
             for take in (0, 1)]
    ids = [sorted(row[0] for row in part) for part in parts]
    assert sorted(ids[0] + ids[1]) == list(range(60)) and len(ids[1]) in range(5, 26)


def test_operations_run_on_what_a_plugin_builds(corpus, alone):
    source = alone("Corpus")
    pipeline = of_plugin(tensors={"half": {"expr": "features * 0.5"}}, output=["half", "label"])
    for i, half, _ in all_rows(millrace.reference(pipeline, plugins=corpus), "half", "label"):
        assert half == (source[i]["features"] * numpy.float32(0.5)).tolist()


def test_a_folder_is_given_to_its_plugin(corpus, tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    lines = [[i, i * i, -i][:i % 4] for i in range(30)]
    for part in range(3):
        (data / f"{part}.txt").write_text(
            "\n".join(" ".join(map(str, line)) for line in lines[part * 10:part * 10 + 10]) + "\n")
    pipeline = of_plugin("corpus:Folder", dataset="numbers")
    with millrace.local({"numbers": f"python:{data}"}, pipeline, plugins=corpus) as session:
        rows = all_rows(session, "numbers")
        before = session.spec.order_fingerprint
    assert sorted(rows) == list(enumerate(lines))
    assert all_rows(millrace.reference(pipeline, {"numbers": f"python:{data}"}, plugins=corpus),
                    "numbers") == rows
    os.utime(data / "1.txt", (1, 1))  # nobody knows what changed, so the dataset is another one
    again = millrace.reference(pipeline, {"numbers": f"python:{data}"}, plugins=corpus)
    assert again.spec.order_fingerprint != before


def test_branches_mix_plugins_and_need_no_dataset(corpus):
    pipeline = {"millrace": 1, "branches": {
        "a": {"source": {"python": "corpus:Corpus", "args": {"size": 40}}, "shuffle": {"seed": 1}},
        "b": {"source": {"python": "corpus:Corpus", "args": {"size": 10, "scale": 3}},
              "shuffle": {"seed": 1}}},
        "mix": {"weights": {"a": 4, "b": 1}, "epoch": {"of": "a"}},
        "batch": {"size": 10, "remainder": "keep"}}
    with millrace.local({}, pipeline, plugins=corpus, packed=True) as session:
        assert digests(session) == digests(millrace.reference(pipeline, plugins=corpus))
    session = millrace.reference(pipeline, plugins=corpus)
    counts = numpy.zeros(2, int)
    for _, batch in session.next_epoch():
        counts += numpy.bincount(batch["branch"].numpy(), minlength=2)
    assert counts.tolist() == [40, 9]  # 49 rows are the fewest that have all of a


def ways(folder, pipeline, plugins, epochs):
    """The digests that differently many processes, workers and fleets give, by their names."""
    session = millrace.reference(pipeline, plugins=plugins)
    found = {"reference": [digests(session) for _ in range(epochs)]}
    one, three = (config_of(folder / f"config{n}", plugins, processes=n) for n in (1, 3))
    for name, workers in (("1 process", [one]), ("3 processes", [three]),
                          ("2 workers", [one, three])):
        with Fleet(folder / name, workers) as fleet:
            session = fleet.connect(pipeline)
            found[name] = [digests(session) for _ in range(epochs)]
            session.close()
    return found


def test_augmentations_are_the_same_bytes_from_any_fleet(corpus, tmp_path):
    found = ways(tmp_path, of_plugin("corpus:Noisy"), corpus, 2)
    for name, epochs in found.items():
        assert epochs == found["reference"], name
    first, second = found["reference"]
    assert first != second


def test_an_augmentation_depends_on_epoch_example_and_seed_alone(corpus, alone):
    pipeline = of_plugin("corpus:Noisy")
    session = millrace.reference(pipeline, plugins=corpus)
    first, second = (dict((i, (x, e)) for i, x, e in all_rows(session, "features", "epoch"))
                     for _ in range(2))
    assert {epoch for _, epoch in first.values()} == {0}
    assert {epoch for _, epoch in second.values()} == {1}
    assert all(first[i][0] != second[i][0] for i in first)
    other_order = of_plugin("corpus:Noisy", {"seed": 3}, shuffle={"seed": 9}, batch={"size": 5})
    rows = all_rows(millrace.reference(other_order, plugins=corpus), "features")
    assert {i: x for i, x in rows} == {i: x for i, (x, _) in first.items()}
    other_seed = of_plugin("corpus:Noisy", {"seed": 4})
    rows = all_rows(millrace.reference(other_seed, plugins=corpus), "features")
    assert not any(x == first[i][0] for i, x in rows)



def test_chance_without_a_generator_is_seeded_on_request(tmp_path):
    plugins = {"chance": write(tmp_path, "chance", RANDOM)}
    seeded = of_plugin("chance:Source", {"random": True})
    found = [digests(millrace.reference(seeded, plugins=plugins)) for _ in range(2)]
    assert found[0] == found[1]
    with millrace.local({}, seeded, plugins=plugins, packed=True) as session:
        assert digests(session) == found[0]
        assert digests(session) != found[0]  # another epoch
    with pytest.raises(millrace.Error, match="two processes give different bytes.*\n?.*rng") as told:
        millrace.reference(of_plugin("chance:Source"), plugins=plugins)
    assert "tensor x" in str(told.value)


def test_a_session_goes_on_where_its_state_says(corpus):
    pipeline = of_plugin("corpus:Noisy")
    whole = millrace.reference(pipeline, plugins=corpus)
    expected = [(e, s, b.digest) for e in (0, 1)
                for s, b in whole.next_epoch()]
    with millrace.local({}, pipeline, plugins=corpus, packed=True) as session:
        steps = iter(session.next_epoch())
        taken = [(0, *next(steps)) for _ in range(3)]
        state = session.state_dict()
    with millrace.local({}, pipeline, plugins=corpus, packed=True) as session:
        session.load_state_dict(state)
        rest = [(epoch.number, step, batch.digest) for epoch in session.epochs(2)
                for step, batch in epoch]
    assert [(e, s, b.digest) for e, s, b in taken] + rest == expected


def test_a_repaired_plugin_is_another_plan_at_the_same_place(corpus, tmp_path):
    folder = write(tmp_path / "mine", "corpus", CORPUS)
    session = millrace.reference(of_plugin(), plugins={"corpus": folder})
    steps = iter(session.next_epoch())
    taken = [next(steps)[1].example_ids for _ in range(3)]
    cursor = session.cursor
    before = session.spec
    write(folder, "corpus", CORPUS.replace("+ i,", "- i,"))
    repaired = millrace.reference(of_plugin(), plugins={"corpus": folder}, cursor=cursor)
    assert repaired.spec.fingerprint != before.fingerprint
    assert repaired.spec.order_fingerprint == before.order_fingerprint
    rest = [batch.example_ids for _, batch in repaired.next_epoch()]
    assert sorted(sum(taken + rest, [])) == list(range(60))
    # A daemon takes the cursor too.
    with millrace.local({}, of_plugin(), plugins={"corpus": folder}, cursor=cursor) as served:
        assert [batch.example_ids for _, batch in served.next_epoch()] == rest


@pytest.mark.parametrize("source, more", [
    ({"args": {"size": 59}}, {}),
    ({"args": {"scale": 2}}, {}),
])
def test_other_args_are_another_dataset(corpus, source, more):
    session = millrace.reference(of_plugin(), plugins=corpus)
    other = millrace.reference(of_plugin(source=source, **more), plugins=corpus)
    assert other.spec.order_fingerprint != session.spec.order_fingerprint
    with pytest.raises(millrace.Error):
        millrace.reference(of_plugin(source=source, **more), plugins=corpus, cursor=session.cursor)


def test_a_column_that_the_order_reads_is_part_of_its_fingerprint(tmp_path):
    changed = CORPUS.replace("3 + i * 7 % 20", "3 + i * 9 % 20")
    found = {}
    for name, text in (("old", CORPUS), ("new", changed)):
        plugins = {"corpus": write(tmp_path / name, "corpus", text)}
        for by in ("plain", "bucket"):
            more = {} if by == "plain" else {"batch": {"bucket": {"by": "frames", "count": 3,
                                                                  "size": 4}, "remainder": "keep"}}
            session = millrace.reference(of_plugin(**more), plugins=plugins)
            found[name, by] = session.spec.order_fingerprint
    assert found["old", "plain"] == found["new", "plain"]
    assert found["old", "bucket"] != found["new", "bucket"]
