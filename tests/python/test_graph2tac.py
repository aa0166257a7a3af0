"""graph2tac's DataServer and ours, side by side on the real datasets: every value, dtype and order."""

import pathlib
import shutil

import numpy
import pytest

pytest.importorskip("graph2tac")

from graph2tac.loader import data_server as theirs  # noqa: E402
from graph2tac.loader.data_classes import DataConfig, DatasetConfig  # noqa: E402

from millrace import graph2tac as ours  # noqa: E402


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
    "whole split": config(split_method="disabled", split=None),
}


@pytest.fixture(params=CONFIGS, scope="module")
def servers(request, tmp_path_factory):
    from conftest import SHARED
    source = SHARED / "data" / "propchain_small"
    if not source.is_dir():
        pytest.skip(f"the real datasets are not at {SHARED}")
    folder = tmp_path_factory.mktemp("g2t") / "data"
    shutil.copytree(source, folder, copy_function=shutil.copyfile)
    made = CONFIGS[request.param]
    return theirs.DataServer(pathlib.Path(folder), made), ours.DataServer(folder, made)


def same(a, b, where=""):
    assert type(a).__name__ == type(b).__name__ or isinstance(a, (int, numpy.integer)), where
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


def test_constants(servers):
    a, b = (server.graph_constants() for server in servers)
    for name in a.__dataclass_fields__:
        assert getattr(a, name) == getattr(b, name), name


def test_indices_and_texts(servers):
    a, b = servers
    for labels in ((), (0,), (1,), (0, 1)):
        assert a.datapoint_indices(*labels) == b.datapoint_indices(*labels)
        assert a.def_cluster_indices(*labels) == b.def_cluster_indices(*labels)
    for i in a.datapoint_indices()[::17]:
        assert a.datapoint_text(i) == b.datapoint_text(i)


@pytest.mark.parametrize("shuffled", [False, True])
def test_datapoints_in_their_own_order(servers, shuffled):
    a, b = (server.data_train(shuffled=shuffled) for server in servers)
    assert len(a) == len(b)
    count = 0
    for x, y in zip(a, b, strict=True):
        same(x, y, f"datapoint {count}")
        count += 1
    for x, y in zip(servers[0].data_valid(), servers[1].data_valid(), strict=True):
        same(x, y, "validation")
    assert count > 0


@pytest.mark.parametrize("shuffled", [False, True])
def test_definition_clusters(servers, shuffled):
    a, b = (server.def_cluster_subgraphs(shuffled=shuffled) for server in servers)
    assert len(a) == len(b)
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        same(x, y, f"cluster {i}")
    same(servers[0].def_cluster_subgraph(0), servers[1].def_cluster_subgraph(0))


def test_graph_tensors(servers):
    import tensorflow as tf

    for name in ("proofstates_tfgnn", "definitions_tfgnn"):
        pairs = zip(getattr(servers[0], name)(0, False).take(20),
                    getattr(servers[1], name)(0, False).take(20), strict=True)
        for a, b in pairs:
            assert a.spec == b.spec
            flat = [tf.nest.flatten(x, expand_composites=True) for x in (a, b)]
            for x, y in zip(*flat, strict=True):
                assert x.dtype == y.dtype and bool(tf.reduce_all(tf.equal(x, y)))


def test_configuration(servers, tmp_path):
    import yaml

    config_dict = servers[1].get_config()
    assert config_dict == servers[0].get_config()
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config_dict))
    again = ours.DataServer.from_yaml_config(servers[1].data_dir, path)
    assert again.datapoint_indices(0) == servers[0].datapoint_indices(0)
