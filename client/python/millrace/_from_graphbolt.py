"""What write_graph needs of GraphBolt's OnDiskDataset. Needs PyYAML, and neither DGL nor torch."""

from __future__ import annotations

import pathlib
import sys
import typing

from ._graph_arrays import ArrayFile, read_array
from ._node_types import list_name, numbers_in_graph, typed_graph
from ._torch_file import Shown, read_torch_file
from .errors import ConfigError, DataError

_SETS = {"train_set": "train", "validation_set": "valid", "test_set": "test"}
_SEEDS = ("seed_nodes", "seeds")
_EDGE_IDS = "_ORIGINAL_EDGE_ID"


def from_graphbolt(dataset: typing.Any, task: str | None = None) -> dict[str, typing.Any]:
    """The arguments of write_graph for an OnDiskDataset of GraphBolt, or its folder:

        millrace.write_graph(folder, **millrace.from_graphbolt("datasets/ogbn-arxiv"))

    If GraphBolt has preprocessed the folder, that graph is taken, and otherwise the edges of
    metadata.yaml. Rows are `target`. Arrays in files are linked or named, not copied; only those of
    graphs with several types are, because their types have to stand one after another.

    task: its sets become the lists `train`, `valid` and `test`, with their other data as targets;
        or `paper_train` and so on, if they are of several types. The first one with sets of nodes
        unless it is named.
    """
    folder = pathlib.Path(getattr(dataset, "_dataset_dir", dataset))
    described = _describe(folder)
    if "graph_topology" in described:
        made, starts = _preprocessed(folder, described)
    else:
        made, starts = _raw(folder, described)
    _add_sets(made, folder, described, task, starts)
    return made


def _describe(folder):
    try:
        import yaml
    except ModuleNotFoundError:
        raise ConfigError("from_graphbolt needs the package PyYAML, which is not installed in "
                          f"{sys.executable}: pip install pyyaml", "NOT_FOUND") from None
    for path in (folder / "preprocessed" / "metadata.yaml", folder / "metadata.yaml"):
        if path.exists():
            try:
                described = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError) as error:
                raise DataError(f"{path}: cannot be read: {error}") from error
            if not isinstance(described, dict) or not ({"graph", "graph_topology"} & set(described)):
                raise DataError(f"{path}: expected a map with graph or graph_topology")
            return described
    raise ConfigError(f"from_graphbolt: {folder} has no metadata.yaml, expected the folder of an "
                      "OnDiskDataset", "NOT_FOUND")


def _raw(folder, described):
    """A graph whose edges are in .npy or .csv files."""
    graph = described["graph"]
    nodes, edges = graph["nodes"], graph["edges"]
    if len(nodes) == len(edges) == 1 and "type" not in nodes[0] and "type" not in edges[0]:
        made = {"edge_index": _edges(folder, edges[0]), "num_nodes": int(nodes[0]["num"]),
                "rows": "target", "node_features": {}, "edge_features": {}, "roots": {}, "targets": {}}
        for feature in described.get("feature_data") or ():
            array = _array(folder, feature)
            if feature["domain"] == "edge":  # has to be brought into the order of the rows
                array = _in_memory(read_array(feature["name"], array))
            _features(made, feature)[feature["name"]] = array
        return made, None
    # In the order in which GraphBolt numbers types.
    counts = {one["type"]: int(one["num"]) for one in sorted(nodes, key=lambda one: one["type"])}
    pairs = {tuple(one["type"].split(":")): _edges(folder, one)
             for one in sorted(edges, key=lambda one: one["type"])}
    found = {"node": {}, "edge": {}}
    for feature in described.get("feature_data") or ():
        kind = feature["type"] if feature["domain"] == "node" else tuple(feature["type"].split(":"))
        found[feature["domain"]].setdefault(feature["name"], {})[kind] = _array(folder, feature)
    return (typed_graph("from_graphbolt", counts, pairs, found["node"], found["edge"]),
            _starts(counts))


def _preprocessed(folder, described):
    """A graph in a file of FusedCSCSamplingGraph, which has rows of targets."""
    topology = described["graph_topology"]
    path = folder / topology["path"]
    if topology["type"] != "FusedCSCSamplingGraph":
        raise ConfigError(f"{path}: is a {topology['type']}, expected a FusedCSCSamplingGraph")
    state = _state(read_torch_file(path))
    if state is None:
        raise DataError(f"{path}: has no graph, expected a FusedCSCSamplingGraph of DGL 2")
    tensors = state["independent_tensors"]
    made = {"indptr": tensors["indptr"], "indices": tensors["indices"], "rows": "target",
            "node_features": {}, "edge_features": {}, "roots": {}, "targets": {}}
    types = [state.get(name) for name in ("node_type_to_id", "edge_type_to_id")]
    if "node_type_offset" not in tensors or None in types:
        order = (state.get("edge_attributes") or {}).get(_EDGE_IDS)
        for feature in described.get("feature_data") or ():
            array = _array(folder, feature)
            if feature["domain"] == "edge":
                if order is None:
                    raise ConfigError(_no_edge_ids(folder, feature))
                array = _in_memory(read_array(feature["name"], array))[
                    _in_memory(read_array(_EDGE_IDS, order))]
            _features(made, feature)[feature["name"]] = array
        return made, None
    offsets = _in_memory(read_array("node_type_offset", tensors["node_type_offset"])).tolist()
    # Dicts of TorchScript hold numbers as tensors of one.
    node_types, edge_types = (_by_number(one) for one in types)
    counts = {name: offsets[i + 1] - offsets[i] for i, name in enumerate(node_types)}
    found = {}
    for feature in described.get("feature_data") or ():
        if feature["domain"] == "edge":
            raise ConfigError(_no_edge_ids(folder, feature))
        found.setdefault(feature["name"], {})[feature["type"]] = _array(folder, feature)
    made["node_features"] = typed_graph("from_graphbolt", counts, {}, found, {})["node_features"]
    made.update(node_types=counts, edge_label=tensors["type_per_edge"],
                edge_labels=["__".join(name.split(":")) for name in edge_types])
    return made, _starts(counts)


def _add_sets(made, folder, described, task, starts):
    """The sets of a task as lists of roots, and their other data as targets."""
    tasks = described.get("tasks") or []
    chosen = [one for one in tasks
              if (one.get("name") == task if task is not None else _sets_of_nodes(one))]
    if not chosen:
        if task is not None:
            names = ", ".join(str(one.get("name")) for one in tasks) or "none"
            raise ConfigError(f"from_graphbolt: there is no task {task!r}; there are: {names}",
                              "NOT_FOUND")
        return
    sets = {name: chosen[0].get(key) or () for key, name in _SETS.items()}
    kinds = {one.get("type") for several in sets.values() for one in several}
    for name, several in sets.items():
        for one in several:
            data = {each.get("name"): each for each in one["data"]}
            seeds = next((data.pop(key) for key in _SEEDS if key in data), None)
            if seeds is None:
                raise ConfigError(f"from_graphbolt: {name} of task {task} has "
                                  f"{', '.join(map(str, data))}, expected seed_nodes: sets of "
                                  "edges cannot be roots")
            nodes = _array(folder, seeds)
            found = name
            if starts is not None:
                found = list_name(one["type"], name, len(kinds) == 1)
                nodes = numbers_in_graph(f"from_graphbolt: {found}", nodes, starts[one["type"]],
                                         made["node_types"][one["type"]])
            made["roots"][found] = nodes
            targets = {str(key): _array(folder, each) for key, each in data.items()}
            if targets:
                made["targets"][found] = targets


def _sets_of_nodes(task):
    return any(each.get("name") in _SEEDS and "edge" not in str(one.get("type") or "")
               and ":" not in str(one.get("type") or "")
               for key in _SETS for one in task.get(key) or () for each in one["data"])


def _edges(folder, described):
    path = folder / described["path"]
    if described["format"] == "numpy":
        return path
    if described["format"] != "csv":
        raise ConfigError(f"{path}: edges are {described['format']}, expected numpy or csv")
    import numpy

    from ._import.graph.tokens import BadToken, Tokens

    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
    tokens = Tokens(text if text.endswith(b"\n") else text + b"\n")
    try:
        tokens.require_columns(2)
        return numpy.stack([tokens.integers(0), tokens.integers(1)])
    except BadToken as error:
        raise DataError(f"{path}: line {tokens.lines[error.row] + 1}: {error}") from None


def _array(folder, described):
    path = folder / described["path"]
    if described["format"] == "numpy":
        return path
    found = read_torch_file(path)
    if not isinstance(found, ArrayFile):
        raise DataError(f"{path}: is a {type(found).__name__}, expected a tensor")
    return found


def _in_memory(array):
    import numpy

    return numpy.asarray(array.array)


def _features(made, feature):
    return made["node_features" if feature["domain"] == "node" else "edge_features"]


def _starts(counts):
    starts, total = {}, 0
    for kind, count in counts.items():
        starts[kind], total = total, total + count
    return starts


def _state(found, depth=0):
    """The state of the graph, in whatever object holds it."""
    if depth > 8:
        return None
    if isinstance(found, dict) and "independent_tensors" in found:
        return found
    if isinstance(found, Shown):
        found = (found.state, found.arguments)
    inside = found.values() if isinstance(found, dict) else found
    if not isinstance(found, (dict, list, tuple)):
        return None
    return next((state for one in inside if (state := _state(one, depth + 1)) is not None), None)


def _by_number(numbers):
    """Names ordered by their numbers."""
    values = {name: int(_in_memory(read_array(name, one)).reshape(-1)[0]) if isinstance(one, ArrayFile)
              else int(one) for name, one in numbers.items()}
    return sorted(values, key=values.get)


def _no_edge_ids(folder, feature):
    return (f"from_graphbolt: {feature['name']} of edges has the order of the raw edges, which "
            f"{folder / 'preprocessed'} does not tell: remove that folder, or preprocess a graph "
            "of one type with include_original_edge_id=True")
