"""Orders of every form, and measured columns: what the loop gets, and what specs and tools say."""

import collections
import itertools
import json

import numpy
import pytest
from conftest import digest, run

import millrace

NODES = 400
FORMS = {
    "plain": {"shuffle": {"seed": 1}, "batch": {"size": 16, "remainder": "keep"}},
    "global": {"shuffle": {"seed": 1}, "batch": {"global_size": 24, "remainder": "keep"}},
    "blocks": {"shuffle": {"seed": 1, "block": 25, "window": 4},
               "batch": {"size": 16, "remainder": "keep"}},
    "buckets": {"shuffle": {"seed": 1}, "batch": {
        "bucket": {"by": "nodes", "count": 4, "budget": 600}, "remainder": "keep"}},
    "together": {"shuffle": {"seed": 1}, "batch": {
        "bucket": {"by": "nodes", "bounds": [20, 50], "size": 10, "together": 3},
        "remainder": "keep"}},
    "balance": {"shuffle": {"seed": 1}, "batch": {"size": 16, "remainder": "keep"},
                "balance": {"by": "nodes", "group": 25}},
    "balanced blocks": {"shuffle": {"seed": 1, "block": 25},
                        "batch": {"size": 16, "remainder": "keep"},
                        "balance": {"by": "nodes", "group": 6}},
}
every_form = pytest.mark.parametrize("form", FORMS)


def pipeline(form, **more):
    return {"millrace": 1, "dataset": "data", "source": {"roots": "all"},
            "closure": {"max_subgraph_size": 60}, **FORMS[form], **more}


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """Node i leads to i + 1, up to the next multiple of 50: closures have 1 to 50 nodes."""
    folder = tmp_path_factory.mktemp("orders") / "g"
    source = numpy.array([i for i in range(NODES - 1) if (i + 1) % 50])
    millrace.write_graph(folder, edge_index=numpy.stack([source, source + 1]), num_nodes=NODES)
    return folder


@pytest.fixture(scope="module")
def daemon(graph):
    with millrace.LocalServer({"data": graph}) as server:
        yield server


@pytest.fixture
def connect(daemon, request):
    """connect(form, job=…, **options) opens a session, which is closed when the test ends."""
    opened = []

    def open_session(form, of=None, **options):
        options.setdefault("job", request.node.name)
        opened.append(millrace.connect(daemon, pipeline=of or pipeline(form), **options))
        return opened[-1]

    yield open_session
    for session in opened:
        session.close()


def nodes_of(batch):
    return numpy.diff(batch["node_splits"].numpy()).tolist()


def read(session):
    """(epoch, step, rank, examples, digest) of every batch that the epoch still has."""
    return [(batch.epoch, step, batch.rank, list(batch.example_ids), batch.digest)
            for step, batch in session.next_epoch()]


def told(lines):
    """The same, of the lines of `millrace digest`."""
    return [(line["epoch"], line["step"], line["rank"], line["examples"], line["hash"])
            for line in lines]


@every_form
def test_every_example_comes_once_and_the_daemon_has_the_references_batches(graph, connect, form):
    session = millrace.reference(pipeline(form), graph, validate=True)
    served = connect(form, packed=True)
    for _ in range(2):
        epoch = session.next_epoch()
        steps = len(epoch)
        batches = [batch for _, batch in epoch]
        assert len(batches) == steps == session.spec.steps_per_epoch
        assert sorted(i for batch in batches for i in batch.example_ids) == list(range(NODES))
        assert [line[4] for line in read(served)] == [batch.digest for batch in batches]


@every_form
def test_replicas_read_the_same_batches(connect, form):
    replicas = [connect(form, rank=1, world_size=2, replica=replica, packed=True)
                for replica in range(2)]
    first, second = [read(replica) for replica in replicas]
    assert first == second
    assert {rank for _, _, rank, _, _ in first} == {1}


@every_form
def test_parts_of_a_batch_are_the_batch(graph, connect, form):
    whole = millrace.reference(pipeline(form), graph)
    parts = connect(form, micro=3)
    for (step, batch), (other, micro) in itertools.zip_longest(whole.next_epoch(),
                                                               parts.next_epoch()):
        assert step == other and len(micro) == 3
        assert sum((list(part.example_ids) for part in micro), []) == batch.example_ids
        assert sum((nodes_of(part) for part in micro), []) == nodes_of(batch)
        sizes = [part.num_graphs for part in micro]
        assert max(sizes) - min(sizes) <= 1


def test_variants_may_differ_in_their_form_of_order(graph, connect):
    """Each variant of one file is the same plan as a file of its own, and refuses the cursors of
    the others."""
    sizes = {"size": None, "global_size": None}
    variants = {form.replace(" ", "_"): {**keys, "batch": {**sizes, **keys["batch"]}}
                for form, keys in FORMS.items()}
    file = {**pipeline("plain"), "variants": variants}
    cursors = {}
    for form in FORMS:
        name = form.replace(" ", "_")
        session = connect(form, of=file, variant=name, job=name, packed=True)
        alone = millrace.reference(pipeline(form), graph)
        assert session.spec.fingerprint == alone.spec.fingerprint
        assert read(session) == read(alone)
        cursors[name] = session.cursor
    for name in cursors:
        accepted = []
        for other, cursor in cursors.items():
            try:
                millrace.reference(file, graph, variant=name, cursor=cursor).next_epoch()
                accepted.append(other)
            except millrace.Error as error:
                assert "cursor" in str(error)
        # A step over all ranks has a size of its own, but the order of examples is the same.
        assert name in accepted
        assert accepted == [name] or set(accepted) <= {"plain", "global"}


@every_form
def test_any_step_can_be_asked_for(connect, form):
    session = connect(form, packed=True, rank=1, world_size=2)
    for step, batch in session.next_epoch():
        at = session.batch_at(0, step)
        assert (at.digest, list(at.example_ids), at.step) == \
            (batch.digest, list(batch.example_ids), step)
        assert at.first_example == batch.first_example
    with pytest.raises(millrace.Error, match="step"):
        session.batch_at(0, session.spec.steps_per_epoch)


@every_form
def test_where_finds_what_provenance_and_batch_say(graph, connect, tmp_path, form):
    session = connect(form, packed=True, rank=1, world_size=2)
    file = tmp_path / "pipeline.json"
    file.write_text(json.dumps(pipeline(form)))
    plan = [file, "--dataset", f"data={graph}", "--world-size", 2]
    for step in (0, 3, session.spec.steps_per_epoch - 1):
        batch = session.batch_at(1, step)
        shown = run("batch", *plan, "--epoch", 1, "--step", step, "--rank", 1)
        assert batch.digest in shown
        for row in {0, batch.num_graphs - 1} if batch.num_graphs else ():
            origin = session.provenance(batch, row)
            assert origin["example"] == batch.example_ids[row]
            line = run("where", *plan, "--epochs", 1, "--example",
                       origin["example"]).splitlines()[-1].split()
            assert line[:4] == [str(origin[key]) for key in ("epoch", "step", "rank", "row")]


@every_form
def test_the_log_of_an_epoch_is_what_ranks_read(graph, connect, tmp_path, form):
    expected = told(digest(graph, pipeline(form), 1, world_size=3, folder=tmp_path))
    start = millrace.reference(pipeline(form), graph)
    start.seek(1)
    got = []
    for rank in range(3):
        got += read(connect(form, rank=rank, world_size=3, cursor=start.cursor, packed=True))
    assert sorted(got) == sorted(expected)


@every_form
def test_a_cursor_goes_on_with_another_world_size(graph, connect, form):
    """Two ranks stop after four steps; three go on through the daemon, then one without it."""
    seen = collections.Counter()
    sessions = [connect(form, rank=rank, world_size=2) for rank in range(2)]
    for session in sessions:
        for step, batch in session.next_epoch():
            seen.update(batch.example_ids)
            if step == 3:
                break
    assert sessions[0].cursor == sessions[1].cursor
    cursor = sessions[0].cursor
    sessions = [connect(form, job="three", rank=rank, world_size=3, cursor=cursor)
                for rank in range(3)]
    for session in sessions:
        for _, (_, batch) in zip(range(2), session.next_epoch()):
            seen.update(batch.example_ids)
    for _, batch in millrace.reference(pipeline(form), graph,
                                       cursor=sessions[2].cursor).next_epoch():
        seen.update(batch.example_ids)
    assert seen == collections.Counter(range(NODES))


def test_batches_of_buckets_keep_the_budget(graph):
    session = millrace.reference(pipeline("buckets"), graph)
    spec = session.spec
    assert spec.unit == "batch" and spec.examples_per_epoch == NODES
    assert spec.units_per_epoch == spec.steps_per_epoch and spec.stride == 1
    sizes = []
    for step, batch in session.next_epoch():
        nodes = nodes_of(batch)
        assert max(nodes) * len(nodes) <= 600
        assert batch.first_example == batch.step == step
        sizes.append(len(nodes))
    assert max(sizes) == spec.batch_size == spec.global_batch_size


def test_balanced_batches_have_about_as_many_nodes(graph):
    def spread(form):
        session = millrace.reference(pipeline(form), graph)
        sums = [sum(nodes_of(batch)) for _, batch in session.next_epoch()]
        return max(sums) - min(sums)

    assert spread("balance") * 4 < spread("plain")
    spec = millrace.reference(pipeline("plain"), graph).spec
    assert spec.unit == "example" and spec.units_per_epoch == NODES and spec.stride == 16
