"""The recorded orders of shared/golden-orders through a graph dataset that has the recorded values as
its targets: what a session reads, and what `millrace where` says."""

import json

import numpy
import pytest
from conftest import SHARED, run

import millrace

GOLDEN = SHARED / "golden-orders" / "golden.jsonl"


def recorded(name):
    if not GOLDEN.is_file():
        pytest.skip(f"the recorded orders are not at {GOLDEN}")
    lines = map(json.loads, GOLDEN.read_text().splitlines())
    cases = [(line["params"], line["expected"]) for line in lines if line["case"] == name]
    assert cases
    return cases


def shuffle(params):
    if params["seed"] is None:
        return {}
    blocks = {key: params[key] for key in ("block", "window") if key in params}
    return {"shuffle": {"seed": params["seed"], **blocks}}


def keys_of_examples(params):
    return {"batch": {"size": 1, "remainder": "keep"}, **shuffle(params)}


def keys_of_buckets(params):
    bucket = {key: params[key] for key in ("bounds", "count", "budget", "size", "max_size", "together")
              if key in params}
    return {"batch": {"bucket": {"by": "target.v", "above": "drop", **bucket},
                      "remainder": "keep" if params["keep"] else "drop"}, **shuffle(params)}


def keys_of_balance(params):
    order = params["order"].get("plain") or params["order"]["block"]
    return {"batch": {"size": params["size"], "remainder": "keep" if params["keep"] else "drop"},
            "balance": {"by": "target.v", "group": params["group"]}, **shuffle(order)}


class Case:
    """A dataset of so many nodes, the first examples of it, and a pipeline over them."""

    def __init__(self, folder, values, keys):
        millrace.write_graph(folder / "g", edge_index=numpy.zeros((2, 0), numpy.int64),
                             num_nodes=len(values), targets={"all": {"v": values}})
        self.data = folder / "g"
        self.pipeline = {"millrace": 1, "dataset": "g", "source": {"roots": "all"},
                         "targets": ["v"], **keys}
        self.file = folder / "pipeline.json"
        self.file.write_text(json.dumps(self.pipeline))
        self.values = values

    def open(self, **options):
        return millrace.reference(self.pipeline, self.data, **options)

    def units(self, epoch):
        """The examples of each batch, which one rank reads unit by unit."""
        session = self.open()
        session.seek(int(epoch))
        batches = [batch for _, batch in session.next_epoch()]
        for batch in batches:
            assert batch["target/v"].numpy().tolist() == [self.values[i] for i in batch.example_ids]
        return [list(batch.example_ids) for batch in batches]

    def check_where(self, epoch, units, left_out):
        """`millrace where` finds the first and the last example, and one that is left out."""
        for unit in {0, len(units) - 1}:
            row = len(units[unit]) - 1
            line = self.where(epoch, units[unit][row]).splitlines()[-1].split()
            assert [line[0], line[1], line[2], line[3]] == [epoch, str(unit), "0", str(row)]
        for example in left_out[:1]:
            assert "not: " in self.where(epoch, example)

    def where(self, epoch, example):
        return run("where", self.file, "--dataset", f"g={self.data}", "--epochs", epoch,
                   "--example", example)


@pytest.mark.parametrize("name, keys", [("plain", keys_of_examples), ("block", keys_of_examples)])
def test_orders_of_examples_are_the_recorded_ones(tmp_path, name, keys):
    checked = 0
    for i, (params, expected) in enumerate(recorded(name)):
        if params["n"] == 0:
            continue  # a pipeline that selects nothing is refused
        folder = tmp_path / str(i)
        folder.mkdir()
        case = Case(folder, list(range(params["n"])), keys(params))
        for epoch, rows in expected["order"].items():
            units = [[row] for row in rows]
            assert case.units(epoch) == units, params
            case.check_where(epoch, units, [])
        checked += 1
    assert checked >= 4


@pytest.mark.parametrize("name, keys", [("bucket", keys_of_buckets), ("balance", keys_of_balance)])
def test_orders_of_batches_are_the_recorded_ones(tmp_path, name, keys):
    checked = 0
    for i, (params, expected) in enumerate(recorded(name)):
        if not params["values"]:
            continue
        folder = tmp_path / str(i)
        folder.mkdir()
        case = Case(folder, params["values"], keys(params))
        if expected["units"] == 0:
            with pytest.raises(millrace.Error, match="an epoch has no batch"):
                case.open().next_epoch()
            continue
        assert case.open().spec.steps_per_epoch == expected["units"]
        for epoch, units in expected["rows"].items():
            assert case.units(epoch) == units, params
            # What is in no epoch at all is no example that `where` looks for.
            above = [] if name == "balance" else \
                [row for row, value in enumerate(params["values"]) if value > expected["bounds"][-1]]
            case.check_where(epoch, units,
                             [row for row in expected["left_out"][epoch] if row not in above])
        checked += 1
    assert checked >= 9


def test_a_recorded_run_over_several_world_sizes(tmp_path):
    for params, expected in recorded("run"):
        case = Case(tmp_path, params["values"], keys_of_buckets(params))
        wanted = iter(expected["batches"])
        cursor = None
        for world_size, steps in params["legs"]:
            sessions = [case.open(rank=rank, world_size=world_size, cursor=cursor)
                        for rank in range(world_size)]
            for _ in range(steps):
                epoch, position, rows = next(wanted)
                got = [next(iter(session.next_epoch()))[1] for session in sessions]
                assert [list(batch.example_ids) for batch in got] == rows
                assert {batch.epoch for batch in got} == {epoch}
                assert {batch.first_example for batch in got if batch.example_ids} <= \
                    set(range(position, position + world_size))
            assert len({session.cursor for session in sessions}) == 1
            cursor = sessions[0].cursor
        assert next(wanted, None) is None
