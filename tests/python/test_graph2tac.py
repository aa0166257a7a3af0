"""Compares graph2tac's DataServer with ours on the real datasets: values, dtypes and orders."""

import itertools
import pathlib
import shutil
import subprocess
import sys

import numpy
import pytest
from conftest import SHARED

pytest.importorskip("graph2tac")

from graph2tac.loader import data_server as theirs  # noqa: E402
from graph2tac.loader.data_classes import DataConfig, DatasetConfig  # noqa: E402

from millrace import graph2tac as ours  # noqa: E402

STDLIB = "coq-tactician-stdlib.8.11.dev"


def config(**changes):
    data = {"max_subgraph_size": 64, "bfs_option": True, "stop_at_definitions": True,
            "symmetrization": "bidirectional", "add_self_edges": True}
    data.update({k: changes.pop(k) for k in list(changes) if k in data})
    whole = {"split_method": "hash", "split": {"proportions": [7, 3], "random_seed": 1},
             "restrict_to_spine": False, "exclude_none_arguments": False,
             "exclude_not_faithful": False, "required_tactic_occurrence": 1,
             "shuffle_random_seed": 3}
    whole.update(changes)
    return DatasetConfig(data_config=DataConfig(**data), **whole)


CONFIGS = {
    "default": config(),
    "filters": config(exclude_none_arguments=True, exclude_not_faithful=True,
                      required_tactic_occurrence=2),
    "undirected": config(symmetrization="undirected", add_self_edges=False),
    "depth first": config(bfs_option=False, symmetrization=None, max_subgraph_size=200),
    "through definitions": config(stop_at_definitions=False, max_subgraph_size=300,
                                  required_tactic_occurrence=0),
    "spine": config(restrict_to_spine=True),
    "one set": config(split_method="disabled", split=None),
}
PREFIXES = config(split_method="file_prefix", split=[
    [f"{STDLIB}/theories/Init/{name}" for name in ("Byte", "P")],  # P also begins Prelude
    [f"{STDLIB}/{name}" for name in ("theories/Init/Prelude", "theories/Logic", "theories/Compat",
                                     "user-contrib", "plugins")]])
CASES = [("mini_stdlib", name) for name in CONFIGS]
CASES += [("mini_stdlib", "file prefixes")]
CASES += [(data, name) for data in ("propchain_small", "duplicate_identities")
          for name in ("default", "filters", "spine")]


def open_both(folder, made):
    return theirs.DataServer(pathlib.Path(folder), made), ours.DataServer(folder, made)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Copies of the real datasets, whose own folders cannot be written."""
    if not SHARED.is_dir():
        pytest.skip(f"the real datasets are not at {SHARED}")
    made = {}

    def folder(name):
        if name not in made:
            made[name] = tmp_path_factory.mktemp("g2t") / name
            shutil.copytree(SHARED / "data" / name, made[name], copy_function=shutil.copyfile)
        return made[name]

    return folder


@pytest.fixture(params=CASES, ids=" ".join, scope="module")
def servers(request, folders):
    dataset, name = request.param
    return open_both(folders(dataset), PREFIXES if name == "file prefixes" else CONFIGS[name])


def same(a, b, where=""):
    assert type(a) is type(b), (where, type(a), type(b))
    if isinstance(a, numpy.ndarray):
        assert a.dtype == b.dtype, (where, a.dtype, b.dtype)
        assert a.shape == b.shape, (where, a.shape, b.shape)
        assert (a == b).all(), where
    elif isinstance(a, tuple) and hasattr(a, "_fields"):
        for name in a._fields:
            same(getattr(a, name), getattr(b, name), f"{where}.{name}")
    elif isinstance(a, (tuple, list)):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{i}]")
    else:
        assert a == b, (where, a, b)


def same_each(a, b, where):
    """Compares two iterators; if one fails, the other must too. Returns how many items came."""
    for count in itertools.count():
        got = []
        for iterator in (a, b):
            try:
                got.append(next(iterator))
            except StopIteration:
                got.append(StopIteration)
            except (KeyError, ValueError):
                got.append(KeyError)
        same(*got, f"{where} {count}")
        if got[0] in (StopIteration, KeyError):
            return count


def test_constants(servers):
    a, b = (server.graph_constants() for server in servers)
    for name in a.__dataclass_fields__:
        same(getattr(a, name), getattr(b, name), name)


def test_indices_and_texts(servers):
    a, b = servers
    for labels in ((), (0,), (1,), (2,), (0, 1)):
        same(a.datapoint_indices(*labels), b.datapoint_indices(*labels))
        same(a.def_cluster_indices(*labels), b.def_cluster_indices(*labels))
    for i in a.datapoint_indices()[::17]:
        same(a.datapoint_text(i), b.datapoint_text(i))


@pytest.mark.parametrize("shuffled", [False, True])
def test_datapoints_in_their_own_order(servers, shuffled):
    for _ in range(2):  # the second epoch is shuffled again, from the same generator
        a, b = (server.data_train(shuffled=shuffled) for server in servers)
        assert len(a) == len(b)
        assert same_each(iter(a), iter(b), "datapoint") > 0
    a, b = (iter(server.data_valid()) for server in servers)
    same_each(a, b, "validation")


@pytest.mark.parametrize("shuffled", [False, True])
def test_definition_clusters_in_their_own_order(servers, shuffled):
    for _ in range(2):
        a, b = (server.def_cluster_subgraphs(shuffled=shuffled) for server in servers)
        assert len(a) == len(b) > 0
        same_each(iter(a), iter(b), "cluster")


def test_single_examples(servers):
    a, b = servers
    for i in a.datapoint_indices()[::23]:
        same(a.datapoint_graph(i), b.datapoint_graph(i), f"datapoint {i}")
    for i in a.def_cluster_indices()[::23]:
        same_each(*(map(server.def_cluster_subgraph, [i]) for server in servers), f"cluster {i}")


def test_graph_tensors(servers):
    import tensorflow as tf

    count = 0
    for name in ("proofstates_tfgnn", "definitions_tfgnn"):
        if name == "definitions_tfgnn" and servers[0].dataset_config.restrict_to_spine:
            continue  # both may fail on a cluster off the spine
        a, b = (getattr(server, name)(0, True) for server in servers)
        assert a.element_spec == b.element_spec
        for x, y in zip(a.take(20), b.take(20)):
            for one, other in zip(*(tf.nest.flatten(g, expand_composites=True) for g in (x, y)),
                                  strict=True):
                assert one.dtype == other.dtype and one.shape == other.shape
                assert bool(tf.reduce_all(tf.equal(one, other)))
            count += 1
    assert count >= 4


def test_configuration(servers, tmp_path):
    import yaml

    config_dict = servers[1].get_config()
    same(servers[0].get_config(), config_dict)
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config_dict))
    again = ours.DataServer.from_yaml_config(servers[1].data_dir, path)
    assert again.datapoint_indices(0) == servers[0].datapoint_indices(0)


def test_an_example_that_cannot_be_built_is_an_error_in_both(folders):
    """The size limit cuts off the local contexts of some examples."""
    a, b = open_both(folders("mini_stdlib"), config(max_subgraph_size=8))
    cut = 0
    for i in a.datapoint_indices():
        try:
            expected = a.datapoint_graph(i)
        except KeyError:
            cut += 1
            with pytest.raises(ValueError, match=f"example {i}: .* cut off"):
                b.datapoint_graph(i)
        else:
            same(expected, b.datapoint_graph(i), i)
    assert 0 < cut < len(a.datapoint_indices())


def test_a_graph_without_an_edge_has_graph2tacs_offsets(folders):
    """Such a graph has one offset for each group of edges. Any other graph has one less."""
    a, b = open_both(folders("mini_stdlib"), config(max_subgraph_size=1, add_self_edges=False))
    lengths = {len(cluster.graph.edge_offsets) for cluster in a.def_cluster_subgraphs()}
    assert len(lengths) == 2
    assert same_each(*(iter(server.def_cluster_subgraphs()) for server in (a, b)), "cluster") > 600


def test_values_may_be_written_to(folders):
    """Examples of one definition have equal global contexts, but each has an array of its own."""
    server = open_both(folders("mini_stdlib"), config())[1]
    states = (state for state, _, _ in server.data_train())
    one = next(state for state in states if len(state.context.global_context))
    other = next(states)
    assert one.metadata.name == other.metadata.name
    before = other.context.global_context.copy()
    one.context.global_context[:] = 0
    assert before.all() and (other.context.global_context == before).all()


@pytest.mark.parametrize("wrong", [{"symmetrization": "both"},
                                   {"split_method": "file_prefix", "split": [["nowhere"]]},
                                   {"split_method": "names"}])
def test_what_graph2tac_refuses_is_refused(folders, wrong):
    folder = folders("propchain_small")
    with pytest.raises(Exception, match=""):
        theirs.DataServer(pathlib.Path(folder), config(**wrong))
    with pytest.raises(ValueError):
        ours.DataServer(folder, config(**wrong))


def test_it_is_imported_alone(folders, tmp_path):
    """The module is imported before graph2tac and TensorFlow, in a process of its own."""
    folder = folders("propositional")
    code = f"""
from millrace.graph2tac import TRAIN, DataServer
import yaml, pathlib
server = DataServer.from_yaml_config({str(folder)!r}, pathlib.Path({str(tmp_path / "c")!r}))
print(sum(1 for _ in server.proofstates_tfgnn(TRAIN, True)))
"""
    import yaml
    (tmp_path / "c").write_text(yaml.safe_dump(open_both(folder, config())[1].get_config()))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) == len(open_both(folder, config())[0].datapoint_indices(0))
