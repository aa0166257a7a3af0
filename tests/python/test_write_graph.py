"""Graph datasets that Python writes. seal_graph opens each of them with the C++ reader."""

import json
import os
import struct

import numpy
import pytest

from millrace import ArrayFile, ConfigError, DataError, _write_graph, write_graph


def arrays(folder):
    """graph.json, and every array by name as numpy reads it."""
    described = json.loads((folder / "graph.json").read_text())
    return described, {name: numpy.load(folder / one["path"])
                       for name, one in described["arrays"].items()
                       if one["path"].endswith(".npy")}


def refused(match, folder, **given):
    with pytest.raises(ConfigError, match=match):
        write_graph(folder, **given)
    assert not folder.exists() or not any(folder.iterdir())


def test_edges_are_sorted_by_row_stably(tmp_path):
    source, target = [2, 0, 2, 1, 0, 2], [0, 3, 1, 1, 2, 0]
    digest = write_graph(tmp_path / "g", edge_index=[source, target], num_nodes=4,
                         edge_features={"w": numpy.arange(6.0)})
    described, read = arrays(tmp_path / "g")
    assert described["digest"] == digest and described["rows"] == "source"
    assert (described["nodes"], described["edges"]) == (4, 6)
    assert read["indptr"].tolist() == [0, 2, 3, 6, 6]
    assert read["indices"].tolist() == [3, 2, 1, 0, 1, 0]
    assert read["edge_feature/w"].tolist() == [1, 4, 3, 0, 2, 5]
    assert read["indptr"].dtype == "int64" and read["indices"].dtype == "int32"


def test_rows_of_targets_hold_sources(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[0, 1, 3], [2, 0, 2]], rows="target")
    described, read = arrays(tmp_path / "g")
    assert described["rows"] == "target"
    assert read["indptr"].tolist() == [0, 1, 1, 3, 3]
    assert read["indices"].tolist() == [1, 0, 3]


def test_edges_of_a_row_stand_by_label(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[1, 0, 1, 1], [0, 1, 1, 0]],
                edge_label=[1, 0, 0, 1], edge_labels=["a", "b"], edge_features={"w": [5, 6, 7, 8]})
    described, read = arrays(tmp_path / "g")
    assert described["edge_labels"] == ["a", "b"]
    assert read["edge_label"].tolist() == [0, 0, 1, 1]
    assert read["indices"].tolist() == [1, 1, 0, 0]
    assert read["edge_feature/w"].tolist() == [6, 7, 5, 8]


def test_an_undirected_graph_gets_the_directions_that_are_missing(tmp_path):
    # 0-1 has both directions, the loop at 2 is its own, 1-2 and both edges 0-3 lack the other one.
    write_graph(tmp_path / "g", edge_index=[[0, 1, 1, 2, 0, 0], [1, 0, 2, 2, 3, 3]],
                undirected=True, edge_features={"w": [1, 2, 3, 4, 5, 6]})
    _, read = arrays(tmp_path / "g")
    assert read["indptr"].tolist() == [0, 3, 5, 7, 9]
    assert read["indices"].tolist() == [1, 3, 3, 0, 2, 2, 1, 0, 0]
    assert read["edge_feature/w"].tolist() == [1, 5, 6, 2, 3, 4, 3, 5, 6]


def test_directions_of_different_labels_are_different_edges(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[0, 1], [1, 0]], edge_label=[0, 1], undirected=True)
    _, read = arrays(tmp_path / "g")
    assert read["indices"].tolist() == [1, 1, 0, 0]
    assert read["edge_label"].tolist() == [0, 1, 0, 1]


def test_random_edges_keep_their_ends_labels_and_features(tmp_path):
    rng = numpy.random.default_rng(3)
    for trial in range(20):
        nodes, count = int(rng.integers(1, 30)), int(rng.integers(0, 200))
        edges = rng.integers(0, nodes, (2, count))
        label = rng.integers(0, 3, count).astype("uint8")
        weight = numpy.arange(count)
        rows = ("source", "target")[trial % 2]
        folder = tmp_path / str(trial)
        write_graph(folder, edge_index=edges, num_nodes=nodes, rows=rows, edge_label=label,
                    edge_features={"w": weight})
        _, read = arrays(folder)
        at = numpy.repeat(numpy.arange(nodes), numpy.diff(read["indptr"]))
        order = read["edge_feature/w"]
        key, other = (edges[0], edges[1]) if rows == "source" else (edges[1], edges[0])
        assert (key[order] == at).all() and (other[order] == read["indices"]).all()
        assert (label[order] == read["edge_label"]).all()
        assert order.tolist() == sorted(range(count), key=lambda e: (key[e], label[e], e))


def test_lists_targets_and_features_are_written(tmp_path):
    write_graph(tmp_path / "g", indptr=numpy.array([0, 1, 2, 2], "uint32"),
                indices=numpy.array([1, 0], "int16"), node_label=[0, 1, 1], node_labels=["a", "b"],
                node_features={"x": numpy.zeros((3, 2), "float16"), "b": [True, False, True]},
                roots={"train": [2, 2, 0]}, graphs={"parts": [0, 2, 3]},
                targets={"train": {"y": [1, 2, 3], "z": numpy.zeros((3, 4), ">f8")},
                         "parts": {"y": [7, 8]}, "all": {"y": [1.5, 2.5, 3.5]}})
    described, read = arrays(tmp_path / "g")
    of = {name: (one["dtype"], one["shape"]) for name, one in described["arrays"].items()}
    assert of == {"indptr": ("int64", [4]), "indices": ("int32", [2]), "node_label": ("int64", [3]),
                  "node_feature/x": ("float16", [3, 2]), "node_feature/b": ("bool", [3]),
                  "roots/train": ("int32", [3]), "graphs/parts": ("int32", [3]),
                  "targets/train/y": ("int64", [3]), "targets/train/z": ("float64", [3, 4]),
                  "targets/parts/y": ("int64", [2]), "targets/all/y": ("float64", [3])}
    assert read["roots/train"].tolist() == [2, 2, 0]


def test_arrays_given_as_paths_are_linked_and_not_copied(tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.arange(6, dtype="float32").reshape(3, 2))
    (tmp_path / "raw").write_bytes(b"head" + bytes(range(12)))
    header = json.dumps({"w": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}).encode()
    (tmp_path / "all.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + bytes(6))
    write_graph(tmp_path / "g", edge_index=[[0], [2]], node_features={
        "x": tmp_path / "x.npy", "again": str(tmp_path / "x.npy"),
        "raw": ArrayFile(tmp_path / "raw", "int16", (3, 2), 4),
        "w": ArrayFile(tmp_path / "all.safetensors", tensor="w")})
    described = json.loads((tmp_path / "g" / "graph.json").read_text())["arrays"]
    linked = tmp_path / "g" / described["node_feature/x"]["path"]
    assert linked.stat().st_ino == (tmp_path / "x.npy").stat().st_ino
    assert described["node_feature/again"]["path"] == described["node_feature/x"]["path"]
    assert described["node_feature/raw"]["offset"] == 4
    assert described["node_feature/w"]["dtype"] == "bfloat16"
    assert described["node_feature/w"]["offset"] == 8 + len(header)
    # Only the paths differ from those of a copy, and paths are no part of the digest.
    copy = write_graph(tmp_path / "h", edge_index=[[0], [2]], node_features={
        "x": numpy.load(tmp_path / "x.npy")})
    link = write_graph(tmp_path / "i", edge_index=[[0], [2]], node_features={
        "x": tmp_path / "x.npy"})
    assert copy == link


def test_a_file_that_cannot_be_linked_is_named(tmp_path, monkeypatch):
    numpy.save(tmp_path / "x.npy", numpy.zeros((3, 1), "uint8"))

    def no_link(*_):
        raise OSError("another file system")

    monkeypatch.setattr(os, "link", no_link)
    write_graph(tmp_path / "g", edge_index=[[0], [2]], node_features={"x": tmp_path / "x.npy"})
    described = json.loads((tmp_path / "g" / "graph.json").read_text())["arrays"]
    assert described["node_feature/x"]["path"] == os.path.realpath(tmp_path / "x.npy")


def test_rows_given_as_paths_are_checked(tmp_path):
    numpy.save(tmp_path / "indptr.npy", numpy.array([0, 2, 2]))
    numpy.save(tmp_path / "indices.npy", numpy.array([1, 0], "uint32"))
    given = {"indptr": tmp_path / "indptr.npy", "indices": tmp_path / "indices.npy"}
    write_graph(tmp_path / "g", **given, edge_label=[0, 1])
    refused("edge_label: falls within a row at edge 1", tmp_path / "h", **given, edge_label=[1, 0])
    numpy.save(tmp_path / "indices.npy", numpy.array([1, 2], "uint32"))
    refused("indices: number 1 is 2, expected 0 to below 2", tmp_path / "h", **given)
    numpy.save(tmp_path / "indptr.npy", numpy.array([0, 3, 2]))
    refused("indptr: falls after number 1", tmp_path / "h", **given)
    numpy.save(tmp_path / "indptr.npy", numpy.array([0, 2, 3]))
    refused("indptr: goes from 0 to 3, expected from 0 to the 2", tmp_path / "h", **given)


def test_torch_tensors_are_taken_without_torch(tmp_path):
    class Tensor:  # what is used of a torch.Tensor
        def __init__(self, array):
            self.array, self.dtype = array, array.dtype

        def detach(self):
            return self

        cpu = contiguous = detach

        def numpy(self):
            return self.array

    write_graph(tmp_path / "g", edge_index=Tensor(numpy.array([[0, 1], [1, 0]])),
                node_features={"x": Tensor(numpy.ones((2, 3), "float32"))})
    assert arrays(tmp_path / "g")[1]["node_feature/x"].sum() == 6


def test_bfloat16_lies_as_uint16(tmp_path):
    torch = pytest.importorskip("torch")
    write_graph(tmp_path / "g", edge_index=[[0], [1]],
                node_features={"x": torch.tensor([1.0, -2.0], dtype=torch.bfloat16)})
    described, read = arrays(tmp_path / "g")
    assert described["arrays"]["node_feature/x"]["dtype"] == "bfloat16"
    assert read["node_feature/x"].tolist() == [0x3f80, 0xc000]


def test_arguments_that_do_not_fit_are_refused_by_name(tmp_path):
    folder, edges = tmp_path / "g", [[0, 1], [1, 0]]
    refused("edge_index: number 1 is 5, expected 0 to below 2", folder, edge_index=[[0, 5], [1, 0]],
            num_nodes=2)
    refused("edge_index: number 0 is -1", folder, edge_index=[[-1], [0]])
    refused(r"edge_index: expected integers of shape \[2, edges\]", folder, edge_index=[[0.5], [1]])
    refused("either edge_index, or indptr and indices", folder)
    refused("either edge_index, or indptr and indices", folder, edge_index=edges, indptr=[0])
    refused("rows='both'", folder, edge_index=edges, rows="both")
    refused("undirected=True: expected edge_index", folder, indptr=[0, 0], indices=[0],
            undirected=True)
    refused("node_feature/x: has 3 rows, but there are 2 nodes", folder, edge_index=edges,
            num_nodes=2, node_features={"x": [1, 2, 3]})
    refused("edge_label: has 1 rows, but there are 2 edges", folder, edge_index=edges,
            edge_label=[1])
    refused("roots/r: number 0 is 2", folder, edge_index=edges, roots={"r": [2]})
    refused("roots/r: expected integers", folder, edge_index=edges, roots={"r": [0.5]})
    refused("graphs/g: number 1 is 3", folder, edge_index=edges, graphs={"g": [0, 3]})
    refused("node_feature/x: expected bool, integers or floats, got complex128", folder,
            edge_index=edges, node_features={"x": numpy.zeros(2, complex)})
    refused("node_feature: expected arrays by name", folder, edge_index=edges, node_features=[1])
    refused("edge_feature/w: is given as a path", folder, edge_index=[[1, 0], [0, 1]],
            edge_features={"w": _saved(tmp_path / "w.npy", [1, 2])})


def test_what_the_reader_refuses_leaves_no_dataset(tmp_path):
    with pytest.raises(DataError, match=r"array 'x y'|node_feature/x y"):
        write_graph(tmp_path / "g", edge_index=[[0], [1]], node_features={"x y": [1, 2]})
    assert not any((tmp_path / "g").iterdir())
    with pytest.raises(DataError, match="Fortran order"):
        write_graph(tmp_path / "g", edge_index=[[0], [1]], node_features={
            "x": _saved(tmp_path / "f.npy", numpy.asfortranarray(numpy.ones((2, 2))))})
    with pytest.raises(ConfigError, match="is not empty"):
        write_graph(tmp_path, edge_index=[[0], [1]])


@pytest.mark.parametrize("name", ["../../evil", "a/b", "/etc/evil", "", "1x", "x" * 65, "ä", "x\n"])
def test_a_name_that_no_array_may_have_writes_no_file(tmp_path, name):
    for given in ({"node_features": {name: [1, 2]}}, {"roots": {name: [0]}},
                  {"targets": {name: {"y": [0, 1]}}}, {"targets": {"all": {name: [0, 1]}}}):
        with pytest.raises(DataError, match="array .*(expected a name of letters|unknown)"):
            write_graph(tmp_path / "a" / "g", edge_index=[[0], [1]], **given)
        assert [path.name for path in tmp_path.rglob("*")] == ["a", "g"]


def test_labels_beyond_their_names_are_refused(tmp_path):
    folder, edges = tmp_path / "g", [[0, 1], [1, 0]]
    refused("edge_label: number 1 is 2, expected 0 to below 2", folder, edge_index=edges,
            edge_label=[0, 2], edge_labels=["a", "b"])
    refused("edge_label: number 0 is 65535, expected 0 to below 65535", folder, edge_index=edges,
            edge_label=[65535, 0])
    refused("node_label: number 1 is -1, expected 0 to below 1", folder, edge_index=edges,
            node_label=[0, -1], node_labels=["a"])
    refused("node_label: expected integers", folder, edge_index=edges, node_label=[0.0, 1.0])


def test_impossible_arguments_are_config_errors_that_name_them(tmp_path):
    edges, raw = [[0, 1], [1, 0]], tmp_path / "raw"
    raw.write_bytes(b"12345678")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")

    def feature(value, match):
        refused(f"node_feature/x: {match}", tmp_path / "g", edge_index=edges,
                node_features={"x": value})

    feature(tmp_path / "none.npy", ".*none.npy: cannot be opened")
    for name in ("pipe", "loop", "."):
        feature(tmp_path / name, ".*there is no regular file")
    feature(ArrayFile(raw, "uint8", (2,), -1), "offset: expected a number of bytes, got -1")
    feature(ArrayFile(raw, "uint8", (2,), 0.5), "offset: expected a number of bytes, got 0.5")
    feature(ArrayFile(raw, "uint8", (2.5,)), "shape: expected extents, got 2.5")
    feature(ArrayFile(raw, "uint8", (1 << 70,)), "shape: expected extents, got")
    feature(ArrayFile(raw, "float99", (2,)), "dtype: no array may have 'float99'")
    feature("a\0b.npy", ".*is no path in UTF-8")
    feature("\udcff.npy", ".*is no path in UTF-8")
    for labels in ("ab", 3, ["\ud800", "b"]):
        refused("edge_labels: ", tmp_path / "g", edge_index=edges, edge_labels=labels)
    refused("edge_index: there is a number", tmp_path / "g", edge_index=[[0], [1 << 62]])
    refused("num_nodes: expected a number of nodes", tmp_path / "g", edge_index=edges,
            num_nodes=1 << 48)
    for folder in (raw, raw / "below"):
        with pytest.raises(ConfigError, match="folder .* cannot be made"):
            write_graph(folder, edge_index=edges)
    with pytest.raises(DataError, match="node_feature/x: .*safetensors header"):
        write_graph(tmp_path / "g", edge_index=edges,
                    node_features={"x": ArrayFile(raw, tensor="w")})


@pytest.mark.parametrize("numbers", [[0, 1, 0, 1], [0, 0, 0, 0], [1, 1, 1, 1]])
def test_what_may_be_a_mask_is_no_list_of_roots(tmp_path, numbers):
    given = {"edge_index": [[0], [1]], "num_nodes": 4}
    refused("roots/r: has a 0 or 1 for each of 4 nodes: is it a mask, or are these the numbers of "
            "nodes", tmp_path / "g", roots={"r": numbers}, **given)
    refused(r"roots/r: is a mask, expected the numbers of nodes, .* numpy.flatnonzero\(mask\)",
            tmp_path / "g", roots={"r": numpy.array(numbers, bool)}, **given)
    write_graph(tmp_path / "g", roots={"r": numbers[:3], "s": [0, 1, 2, 0]}, **given)


def test_all_nodes_of_a_graph_of_two_are_no_mask(tmp_path):
    given = {"edge_index": [[0], [1]], "num_nodes": 2}
    refused("roots/r: has a 0 or 1 for each of 2 nodes", tmp_path / "g", roots={"r": [1, 1]}, **given)
    write_graph(tmp_path / "g", roots={"r": [1, 0]}, **given)


def test_what_may_be_the_graph_of_each_node_is_no_list_of_graphs(tmp_path):
    given = {"edge_index": [[0], [1]], "num_nodes": 4}
    refused("graphs/g: has for each of 4 nodes .* Give the first node of each graph",
            tmp_path / "g", graphs={"g": [0, 0, 1, 1]}, **given)
    write_graph(tmp_path / "g", graphs={"g": [0, 2, 2, 4], "h": [0, 2, 3, 4], "i": [0, 2]}, **given)


def test_targets_are_of_one_list(tmp_path):
    given = {"edge_index": [[0], [1]], "num_nodes": 4, "roots": {"a": [3, 2]},
             "targets": {"a": {"y": [1, 2]}}}
    refused(r"targets\['a'\]: are they of roots/a or of graphs/a, which both have 2 rows",
            tmp_path / "g", graphs={"a": [0, 2, 4]}, **given)
    write_graph(tmp_path / "g", graphs={"a": [0, 4]}, **given)


@pytest.mark.parametrize("rows", ["source", "target"])
def test_an_edge_between_two_small_graphs_is_refused(tmp_path, rows):
    with pytest.raises(DataError, match="number 1 is . in the row of node ., whose small graph has "
                                        ".*: no edge leads from one small graph to another"):
        write_graph(tmp_path / "g", edge_index=[[0, 1, 2], [1, 2, 3]], rows=rows,
                    graphs={"all": [0, 4], "a": [0, 2, 4]})
    assert not any((tmp_path / "g").iterdir())
    write_graph(tmp_path / "g", edge_index=[[0, 2], [1, 3]], rows=rows, graphs={"a": [0, 2, 4]})


def test_small_graphs_stand_one_after_another(tmp_path):
    given = {"edge_index": [[0], [0]], "num_nodes": 4}
    refused("graphs/g: falls after number 1", tmp_path / "g", graphs={"g": [0, 3, 2]}, **given)
    refused("graphs/g: is empty", tmp_path / "g", graphs={"g": []}, **given)
    write_graph(tmp_path / "g", graphs={"g": [1, 2, 2, 3]}, **given)


def test_numbers_of_nodes_may_be_of_any_integer_type(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[0], [1]], num_nodes=numpy.int64(5))
    assert arrays(tmp_path / "g")[0]["nodes"] == 5
    for number in (True, -1, 2.0, "3"):
        refused("num_nodes: expected a number of nodes", tmp_path / "h", edge_index=[[0], [1]],
                num_nodes=number)
    refused("edge_index: is no array", tmp_path / "h", edge_index=[[0, 1], [1]])


def test_node_numbers_are_as_narrow_as_the_nodes_allow():
    from millrace._graph_arrays import narrowed

    numbers = numpy.array([0, 1])
    assert narrowed(numbers, 1 << 31).array.dtype == "int32"
    assert narrowed(numbers, (1 << 31) + 1).array.dtype == "int64"


def test_each_argument_that_contradicts_another_is_refused(tmp_path):
    folder, edges = tmp_path / "g", [[0, 1], [1, 0]]
    no_edges = numpy.zeros(0, int)
    refused("either edge_index, or indptr and indices", folder, indptr=[0, 0])
    refused("either edge_index, or indptr and indices", folder, indices=[0])
    refused("num_nodes=3: indptr has 1 rows", folder, indptr=[0, 0], indices=no_edges, num_nodes=3)
    refused("indptr: is empty", folder, indptr=no_edges, indices=no_edges)
    refused("indptr: goes from 1 to 2, expected from 0 to the 2", folder, indptr=[1, 2],
            indices=[0, 0])
    refused("indptr: expected integers of one dimension", folder, indptr=[0.0, 0.0],
            indices=no_edges)
    refused("indices: expected integers of one dimension", folder, indptr=[0, 1], indices=[[0]])
    refused(r"edge_index: expected integers of shape \[2, edges\]", folder,
            edge_index=[[0, 1], [1, 0], [0, 0]])
    refused("node_types: expected no node_label and node_labels", folder, edge_index=edges,
            node_types={"paper": 2}, node_labels=["paper"])
    for wrong in (-1, True, "3", 2.0):
        refused("num_nodes: expected a number of nodes", folder, edge_index=edges,
                num_nodes=wrong)
    refused("node_feature/x: expected an array, got a single number", folder, edge_index=edges,
            node_features={"x": 3})
    (tmp_path / "raw").write_bytes(bytes(4))
    refused("a raw file needs dtype and shape", folder, edge_index=edges,
            node_features={"x": ArrayFile(tmp_path / "raw", "uint8")})
    refused(r"expected fewer than 2\^32 nodes", folder, edge_index=[[0], [1 << 32]],
            undirected=True, num_nodes=(1 << 32) + 1)


def test_numbers_are_checked_chunk_by_chunk(tmp_path, monkeypatch):
    """Arrays may be larger than memory, so a part is looked at at once."""
    monkeypatch.setattr(_write_graph, "_CHUNK", 2)
    folder, no_edges = tmp_path / "g", numpy.zeros(0, int)
    for at in range(6):
        numbers = numpy.zeros(7, int)
        numbers[at] = 4
        refused(f"roots/r: number {at} is 4, expected 0 to below 4", folder, indptr=[0] * 5,
                indices=no_edges, roots={"r": numbers})
        indptr = numpy.array([0, 1, 2, 3, 4, 5, 6, 6])
        indptr[at] = 7
        if at:
            refused(f"indptr: falls after number {at}$", folder, indptr=indptr,
                    indices=numpy.zeros(6, int))
        labels = numpy.full(6, 1)
        labels[at] = 0
        if at:
            refused(f"edge_label: falls within a row at edge {at};", folder, indptr=[0, 6],
                    indices=numpy.zeros(6, int), edge_label=labels)
    # From one row to the next, labels may fall.
    write_graph(folder, indptr=[0, 1, 2, 2, 4, 5], indices=[0] * 5, edge_label=[2, 1, 0, 3, 0])
    assert arrays(folder)[1]["edge_label"].tolist() == [2, 1, 0, 3, 0]


def test_sorted_rows_with_falling_labels_are_sorted(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[0, 0, 1], [1, 0, 0]], edge_label=[1, 0, 0],
                edge_features={"w": [5, 6, 7]})
    read = arrays(tmp_path / "g")[1]
    assert read["edge_label"].tolist() == [0, 1, 0] and read["indices"].tolist() == [0, 1, 0]
    assert read["edge_feature/w"].tolist() == [6, 5, 7]


def test_the_number_of_nodes_is_that_of_their_features_or_else_of_the_edges(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[0], [1]], node_features={"x": [1, 2, 3, 4]})
    write_graph(tmp_path / "h", edge_index=[[0], [1]], node_label=[0, 0, 0])
    write_graph(tmp_path / "i", edge_index=numpy.array([[0], [5]], "uint64"))
    assert [arrays(tmp_path / name)[0]["nodes"] for name in "ghi"] == [4, 3, 6]


def test_more_node_types_than_a_byte_counts(tmp_path):
    types = {f"t{i}": 1 for i in range(257)}
    write_graph(tmp_path / "g", edge_index=[[0], [256]], node_types=types)
    assert arrays(tmp_path / "g")[1]["node_label"].tolist() == list(range(257))
    types.popitem()
    write_graph(tmp_path / "h", edge_index=[[0], [1]], node_types=types)
    assert arrays(tmp_path / "h")[1]["node_label"].dtype == "uint8"


def test_arrays_in_any_order_of_memory_are_written_row_by_row(tmp_path):
    x = numpy.arange(12, dtype="int16").reshape(2, 3, 2)
    given = {"f": numpy.asfortranarray(x), "t": x.transpose(0, 2, 1), "s": x[:, ::-2, 1:]}
    write_graph(tmp_path / "g", edge_index=[[0], [1]], node_features=given)
    read = arrays(tmp_path / "g")[1]
    for name, array in given.items():
        numpy.testing.assert_array_equal(read[f"node_feature/{name}"], array)


def test_a_npy_file_of_uint16_may_be_said_to_be_bfloat16(tmp_path):
    file = _saved(tmp_path / "x.npy", numpy.array([0x3f80, 0xc000], "uint16"))
    write_graph(tmp_path / "g", edge_index=[[0], [1]],
                node_features={"x": ArrayFile(file, "bfloat16")})
    described = arrays(tmp_path / "g")[0]["arrays"]["node_feature/x"]
    assert (described["dtype"], described["shape"]) == ("bfloat16", [2])


def test_bfloat16_of_other_libraries_lies_as_uint16(tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    write_graph(tmp_path / "g", edge_index=[[0], [1]],
                node_features={"x": numpy.array([1.0, -2.0], ml_dtypes.bfloat16)})
    described, read = arrays(tmp_path / "g")
    assert described["arrays"]["node_feature/x"]["dtype"] == "bfloat16"
    assert read["node_feature/x"].tolist() == [0x3f80, 0xc000]


def test_empty_lists_are_lists_of_numbers(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[], []], num_nodes=2, edge_label=[],
                roots={"none": []}, targets={"none": {"y": []}})
    described, read = arrays(tmp_path / "g")
    assert described["edges"] == 0 and read["roots/none"].dtype == "int32"
    assert read["targets/none/y"].shape == (0,)
    write_graph(tmp_path / "h", indptr=[0], indices=[])
    assert arrays(tmp_path / "h")[0]["nodes"] == 0


def test_an_empty_graph_is_a_graph(tmp_path):
    write_graph(tmp_path / "g", edge_index=numpy.zeros((2, 0), int), num_nodes=3)
    assert arrays(tmp_path / "g")[1]["indptr"].tolist() == [0, 0, 0, 0]
    write_graph(tmp_path / "h", edge_index=numpy.zeros((2, 0), int), roots={"none": []},
                graphs={"none": [0]}, node_features={"x": numpy.zeros((0, 3), "float32")})
    assert arrays(tmp_path / "h")[0]["nodes"] == 0
    write_graph(tmp_path / "i", edge_index=[[], []], num_nodes=2, undirected=True)
    write_graph(tmp_path / "j", indptr=[0, 0], indices=[])
    assert arrays(tmp_path / "j")[1]["indices"].dtype == "int32"


def _saved(path, array):
    numpy.save(path, array)
    return path


def test_nodes_that_stand_type_after_type_get_labels(tmp_path):
    write_graph(tmp_path / "g", edge_index=[[0, 2], [2, 1]], node_types={"paper": 2, "author": 1})
    described, stored = arrays(tmp_path / "g")
    assert described["node_labels"] == ["paper", "author"] and described["nodes"] == 3
    assert stored["node_label"].tolist() == [0, 0, 1]
    edges = [[0], [1]]
    for message, given in (("no node_label and node_labels beside", {"node_label": [0, 0]}),
                           ("num_nodes=3: node_types has 2", {"num_nodes": 3})):
        with pytest.raises(ConfigError, match=message):
            write_graph(tmp_path / "h", edge_index=edges, node_types={"paper": 2}, **given)
    with pytest.raises(ConfigError, match="node_types.'paper'.: expected a number of nodes"):
        write_graph(tmp_path / "h", edge_index=edges, node_types={"paper": -2})
