"""`millrace import parquet` and `edges`: the arrays are those that write_graph gives for the same
edges, whatever memory there is, and what is wrong is named."""

import gzip
import json
import os
import subprocess
import sys

import numpy
import pytest

import millrace
from millrace import _binaries
from millrace._import import main as command


def run_import(*words, cwd):
    return subprocess.run([_binaries.path("millrace"), "import", *map(str, words)], cwd=cwd,
                          capture_output=True, text=True, check=False)


def imported(folder, *words):
    """Runs an import into folder/out in this process, which is faster, and expects success."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        assert command.main([*map(str, words), "--to", "out"]) == 0
    finally:
        os.chdir(before)
    return folder / "out"


def refused(capsys, folder, code, message, *words):
    """An import that gives this exit code and a message, and leaves no folder."""
    before = os.getcwd()
    os.chdir(folder)
    try:
        capsys.readouterr()
        got = command.main([*map(str, words), "--to", "out"])
        text = capsys.readouterr().err
        assert message in text and got == code, f"{got}: {text}"
        assert text.startswith("millrace: ") and text.count("\n") == 1, text
        assert not (folder / "out").exists()
    finally:
        os.chdir(before)


def content(folder):
    """The bytes of every array, by its name, and what graph.json says besides their paths."""
    described = json.loads((folder / "graph.json").read_text())
    arrays = described.pop("arrays")
    return described, {name: (folder / one["path"]).read_bytes() for name, one in arrays.items()}


def same(imported_folder, written_folder):
    left, right = content(imported_folder), content(written_folder)
    assert left[0] == right[0] and set(left[1]) == set(right[1])
    for name, data in left[1].items():
        assert data == right[1][name], f"array {name} differs"


def save(path, columns, **options):
    pyarrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path, **options)


class Random:
    """A graph of a random shape: duplicates, self loops, empty rows and rows of many edges."""

    def __init__(self, seed):
        rng = self.rng = numpy.random.default_rng(seed)
        self.nodes = int(rng.choice([1, 3, 40, 700]))
        count = int(rng.choice([0, 1, 30, 800, 3000]))
        # Half of the edges are at the first few nodes.
        few = rng.integers(0, max(1, self.nodes // 20), (2, count))
        any_node = rng.integers(0, self.nodes, (2, count))
        self.edges = numpy.where(rng.random((2, count)) < 0.5, few, any_node)
        self.rows = ("source", "target")[seed % 2]
        self.undirected = bool(rng.integers(0, 2))
        self.label = rng.integers(0, 4, count).astype("int16") if rng.integers(0, 3) else None
        self.names = ["z", "é", "a b", "B"] if self.label is not None and rng.integers(0, 2) else None
        self.weight = rng.random(count).astype("float32") if rng.integers(0, 2) else None
        self.time = rng.integers(0, 99, (count, 2, 3)).astype("int8") if rng.integers(0, 2) else None
        self.memory = int(rng.choice([1000, 5000, 50_000, 1 << 20]))

    def write(self, folder):
        """What write_graph makes of it. Labels that are texts have numbers by their bytes."""
        label, names = self.label, None
        if self.names is not None:
            used = [self.names[number] for number in numpy.unique(label)]
            names = sorted(used, key=str.encode)
            label = numpy.array([names.index(self.names[one]) for one in label], "uint8")
        features = {"w": self.weight, "t": self.time}
        millrace.write_graph(
            folder, edge_index=self.edges, num_nodes=self.nodes, rows=self.rows,
            undirected=self.undirected, edge_label=label, edge_labels=names or None,
            edge_features={name: one for name, one in features.items() if one is not None})

    def words(self):
        """The arguments of an import."""
        return ["--rows", self.rows, "--nodes", self.nodes, "--memory", self.memory,
                *(["--undirected"] if self.undirected else [])]


def parquet_files(graph, folder):
    """Writes the edges into several files with many row groups. Returns the arguments."""
    pyarrow = pytest.importorskip("pyarrow")
    count = graph.edges.shape[1]
    columns = {"source": graph.edges[0].astype("int32"), "target": graph.edges[1].astype("uint64")}
    words = []
    if graph.label is not None:
        columns["kind"] = (graph.label if graph.names is None else
                           pyarrow.array([graph.names[one] for one in graph.label], pyarrow.string()))
        words += ["--edge-label", "kind"]
    if graph.weight is not None:
        columns["weight"] = graph.weight
        words += ["--edge-feature", "w=weight"]
    if graph.time is not None:
        kind = pyarrow.list_(pyarrow.list_(pyarrow.int8(), 3), 2)
        columns["t"] = pyarrow.array(graph.time.tolist(), kind)
        words += ["--edge-feature", "t"]
    table = pyarrow.table(columns)
    cuts = sorted(graph.rng.integers(0, count + 1, 2).tolist())
    for name, begin, end in zip("acb", [0, cuts[1], cuts[0]], [cuts[0], count, cuts[1]], strict=True):
        import pyarrow.parquet

        pyarrow.parquet.write_table(table.slice(begin, end - begin), folder / f"{name}.parquet",
                                    row_group_size=int(graph.rng.integers(1, 500)))
    return ["c.parquet", "a.parquet", "b.parquet", *words]


@pytest.mark.parametrize("seed", range(60))
def test_parquet_gives_what_write_graph_gives(tmp_path, seed):
    graph = Random(seed)
    graph.write(tmp_path / "expected")
    words = parquet_files(graph, tmp_path)
    same(imported(tmp_path, "parquet", *words, *graph.words()), tmp_path / "expected")


def text_files(graph, folder):
    """Writes the edges into text files with comments, blank lines and all separators."""
    lines, count = [], graph.edges.shape[1]
    words, columns = [], [graph.edges[0], graph.edges[1]]
    if graph.label is not None:
        columns.append(graph.label if graph.names is None else
                       ["".join(graph.names[one].split()) for one in graph.label])
        words += ["--edge-label", len(columns)]
    if graph.weight is not None:
        columns.append(graph.weight)
        words += ["--edge-feature", f"w={len(columns)}"]
    spaces = ["\t", " ", ",", " , ", "  \t"]
    for edge in range(count):
        space = spaces[edge % 5]
        lines.append(("" if edge % 7 else " ") + space.join(str(one[edge]) for one in columns)
                     + ("\r\n" if edge % 3 == 0 else "\n"))
        if edge % 11 == 0:
            lines.append(["# a comment, 1 2\n", "% 3 4\n", "\n", "  \n"][edge % 4])
    half = len(lines) // 2
    (folder / "a.txt").write_bytes("".join(["# from to\n", *lines[:half]]).encode())
    (folder / "b.gz").write_bytes(gzip.compress("".join(lines[half:]).encode().rstrip(b"\r\n")))
    return ["b.gz", "a.txt", *words]


@pytest.mark.parametrize("seed", range(24))
def test_text_gives_what_write_graph_gives(tmp_path, seed):
    graph = Random(seed)
    graph.time = None
    if graph.label is not None:  # a text has no types of integers
        graph.label = graph.label.astype("uint16")
    if graph.names is not None:
        graph.names = ["z", "é", "ab", "B"]
    if graph.edges.shape[1] == 0 and graph.names is not None:
        graph.names = None
    graph.write(tmp_path / "expected")
    words = text_files(graph, tmp_path)
    same(imported(tmp_path, "edges", *words, *graph.words()), tmp_path / "expected")


@pytest.mark.parametrize("undirected", [False, True])
def test_no_more_edges_are_in_memory_than_it_holds(tmp_path, monkeypatch, undirected):
    from millrace._import.graph import runs

    sizes = {"run": [], "range": []}
    flush, gather = runs.RunWriter.flush, runs.RunReader.gather

    def flushed(self):
        sizes["run"].append(self.edges)
        return flush(self)

    def gathered(self, column, begins, ends):
        sizes["range"].append(sum(ends) - sum(begins))
        return gather(self, column, begins, ends)

    monkeypatch.setattr(runs.RunWriter, "flush", flushed)
    monkeypatch.setattr(runs.RunReader, "gather", gathered)
    # Node 0 alone has more edges than memory holds.
    edges = numpy.array([[i % 50 if i % 3 else 0, i] for i in range(9000)])
    write(tmp_path, "e", "".join(f"{source} {target}\n" for source, target in edges))
    out = imported(tmp_path, "edges", "e", "--memory", 100_000,
                   *(["--undirected"] if undirected else []))
    millrace.write_graph(tmp_path / "expected", edge_index=edges.T, undirected=undirected)
    same(out, tmp_path / "expected")
    most = 70_000 // (16 + 16 + 8 + (33 if undirected else 0))
    assert max(sizes["run"]) <= most and max(sizes["range"]) <= most
    assert len(sizes["run"]) > 5 and len(sizes["range"]) > 10


def write(folder, name, text):
    (folder / name).write_text(text)
    return name


def loaded(folder, array):
    described = json.loads((folder / "graph.json").read_text())
    return numpy.load(folder / described["arrays"][array]["path"]).tolist()


def test_a_header_names_columns_and_features_have_types(tmp_path):
    for name in "ab":
        write(tmp_path, name, f"from,to,weight,time\n0,{'1' if name == 'a' else '2'},0.5,70000\n")
    out = imported(tmp_path, "edges", "b", "a", "--header", "--edge-feature", "weight",
                   "--edge-feature", "t=time:int32", "--edge-feature", "s=4:float64")
    assert loaded(out, "indices") == [1, 2] and loaded(out, "edge_feature/weight") == [0.5, 0.5]
    arrays = json.loads((out / "graph.json").read_text())["arrays"]
    assert arrays["edge_feature/t"]["dtype"] == "int32"
    assert arrays["edge_feature/s"]["dtype"] == "float64" and loaded(out, "edge_feature/t") == [70000] * 2


def test_ids_that_are_texts_get_numbers(tmp_path):
    write(tmp_path, "e", "bob ann\nann 900000000000000\nbob eve\n")
    write(tmp_path, "train", "eve\n# a comment\nbob\n")
    for memory in (1000, 1 << 20):
        out = imported(tmp_path, "edges", "e", "--renumber", "--roots", "train=train", "--memory",
                       memory)
        assert (out / "node_names.txt").read_text() == "bob\nann\n900000000000000\neve\n"
        assert loaded(out, "indptr") == [0, 2, 3, 3, 3] and loaded(out, "indices") == [1, 3, 2]
        assert loaded(out, "roots/train") == [3, 0]
        (out / "graph.json").rename(tmp_path / f"{memory}.json")
        os.rename(out, tmp_path / f"out-{memory}")


def test_ids_in_parquet_get_numbers(tmp_path):
    save(tmp_path / "e.parquet", {"src": ["b", "a", "b"], "dst": ["a", "é", "b"]})
    out = imported(tmp_path, "parquet", "e.parquet", "--renumber")
    assert (out / "node_names.txt").read_text() == "b\na\né\n"
    assert loaded(out, "indices") == [1, 0, 2]
    os.rename(out, tmp_path / "texts")
    save(tmp_path / "e.parquet", {"src": [7, -3], "dst": [1 << 60, 7]})
    out = imported(tmp_path, "parquet", "e.parquet", "--renumber")
    assert (out / "node_names.txt").read_text().split() == ["7", str(1 << 60), "-3"]


def test_arrays_of_nodes_are_linked_and_count_the_nodes(tmp_path):
    write(tmp_path, "e", "0 1\n1 2\n")
    write(tmp_path, "valid.txt", "2\n0\n")
    numpy.save(tmp_path / "x.npy", numpy.ones((5, 2), "float32"))
    numpy.save(tmp_path / "train.npy", numpy.array([4, 1]))
    out = imported(tmp_path, "edges", "e", "--node-array", "x=x.npy", "--roots", "train=train.npy",
                   "--roots", "valid=valid.txt", "--rows", "target", "--undirected")
    described = json.loads((out / "graph.json").read_text())
    assert described["nodes"] == 5 and described["rows"] == "target" and described["edges"] == 4
    place = out / described["arrays"]["node_feature/x"]["path"]
    assert place.stat().st_ino == (tmp_path / "x.npy").stat().st_ino
    assert loaded(out, "roots/valid") == [2, 0]
    millrace.write_graph(tmp_path / "same", edge_index=[[0, 1], [1, 2]], rows="target",
                         undirected=True, node_features={"x": tmp_path / "x.npy"},
                         roots={"train": [4, 1], "valid": numpy.array([2, 0])})
    assert json.loads((tmp_path / "same" / "graph.json").read_text())["nodes"] == 5


@pytest.mark.parametrize("words", [[], ["--renumber"]])
def test_what_may_be_a_mask_is_no_list_of_roots(tmp_path, capsys, words):
    write(tmp_path, "e", "0 1\n1 2\n")
    write(tmp_path, "train", "0\n1\n1\n")
    assert command.main(["edges", str(tmp_path / "e"), "--roots", f"train={tmp_path / 'train'}",
                         "--to", str(tmp_path / "out"), *words]) == 2
    assert "roots/train: has a 0 or 1 for each of 3 nodes: is it a mask" in capsys.readouterr().err
    assert not (tmp_path / "out" / "graph.json").exists()


def test_a_folder_stands_for_its_files_and_files_go_by_the_bytes_of_their_names(tmp_path):
    (tmp_path / "in").mkdir()
    for number, name in enumerate(["B", "a", "é", "10", "9"]):
        write(tmp_path / "in", name, f"0 {number}\n")
    write(tmp_path / "in", ".hidden", "nonsense")
    assert loaded(imported(tmp_path, "edges", "in"), "indices") == [3, 4, 0, 1, 2]


@pytest.mark.parametrize("message, text, words", [
    ("e: line 3: expected an integer in column 2, got 'x'", "# c\n0 1\n1 x\n", []),
    ("e: line 2: expected an integer in column 1, got '1.5'", "0 1\n1.5 2\n", []),
    ("e: line 1: expected an integer in column 2, got '9999999999999999999'",
     "0 9999999999999999999\n", []),
    ("e: line 4: has 1 columns, expected at least 2: '7'", "0 1\n\n\n7\n", []),
    ("e: line 2: has 2 columns, expected at least 3: '0 2'", "0 1 5\n0 2\n", ["--edge-label", "3"]),
    ("e: line 2: source is -1, expected a node number of 0 to below 281474976710655",
     "0 1\n-1 0\n", []),
    ("e: line 1: target is 4, expected a node number of 0 to below 4", "0 4\n", ["--nodes", "4"]),
    ("e: line 2: label 65535, expected 0 to below 65535", "0 1 1\n0 1 65535\n", ["--edge-label", "3"]),
    ("e: line 2: expected an integer in column 3, got 'a'", "0 1 1\n0 1 a\n",
     ["--edge-label", "3"]),
    ("e: line 2: expected a number in column 3, got 'a'", "0 1 1\n0 1 a\n",
     ["--edge-feature", "w=3"]),
    ("e: line 1: 300 is beyond int8: name a wider type, such as --edge-feature w=3:int64",
     "0 1 300\n", ["--edge-feature", "w=3:int8"]),
    ("e: line 2: has a zero byte, expected text", "0 1\n\0 2\n", []),
    ("node_feature/x", "0 1\n", ["--node-array", "x=none.npy"]),
])
def test_a_bad_line_is_named(tmp_path, capsys, message, text, words):
    write(tmp_path, "e", text)
    refused(capsys, tmp_path, 2 if "--node-array" in words else 3, message, "edges", "e", *words)


def test_columns_that_are_not_there_are_named(tmp_path, capsys):
    write(tmp_path, "e", "a,b\n0,1\n")
    write(tmp_path, "f", "a,c\n0,1\n")
    refused(capsys, tmp_path, 2, "e: has no column w; expected its number from 1 on; --header takes",
            "edges", "e", "--edge-feature", "w")
    refused(capsys, tmp_path, 2, "e: has no column w; there are a, b", "edges", "e", "--header",
            "--source-column", "a", "--target-column", "w")
    refused(capsys, tmp_path, 2, "e: has columns a, b, expected source and target, src and dst, or "
            "from and to: name it with --source-column", "edges", "e", "--header")
    refused(capsys, tmp_path, 3, "f: line 1: names other columns than those of e: 'a,c', expected "
            "'a,b'", "edges", "e", "f", "--header", "--source-column", "a", "--target-column", "b")
    refused(capsys, tmp_path, 2, "none: No such file", "edges", "none")
    refused(capsys, tmp_path, 2, "e: is named twice", "edges", "e", "e")
    (tmp_path / "z.gz").write_bytes(gzip.compress(b"0 1\n" * 100)[:-9])
    refused(capsys, tmp_path, 3, "z.gz: cannot be read to its end: ", "edges", "z.gz")


@pytest.mark.parametrize("code, message, columns, words", [
    (2, "has no column w; there are source, target", {}, ["--edge-feature", "w"]),
    (2, "column target is double, expected integers; --renumber", {"target": [0.5, 1]}, []),
    (2, "column w is timestamp[us], expected numbers, bools, or lists",
     {"w": numpy.array([0, 1], "M8[us]")}, ["--edge-feature", "w"]),
    (2, "column w is double, expected labels that are integers or texts", {"w": [0.5, 1]},
     ["--edge-label", "w"]),
    (3, "e.parquet: row 1: column target is null", {"target": [1, None]}, []),
    (3, "e.parquet: row 1: column w is null", {"w": ["a", None]}, ["--edge-label", "w"]),
    (3, "e.parquet: row 1: source is -5, expected a node number", {"source": [0, -5]}, []),
    (3, "e.parquet: row 0: source is 18446744073709551615, expected a node number",
     {"source": numpy.array([(1 << 64) - 1, 0], "uint64")}, []),
    (3, "e.parquet: row 1: feature w has 3 numbers, expected 2 as in the first row",
     {"w": [[1, 2], [1, 2, 3]]}, ["--edge-feature", "w"]),
    (3, "feature w has a null in a list", {"w": [[1, 2], [1, None]]}, ["--edge-feature", "w"]),
    (3, "e.parquet: row 1: label -1, expected 0 to below 65535", {"w": [0, -1]},
     ["--edge-label", "w"]),
])
def test_a_bad_parquet_column_is_named(tmp_path, capsys, code, message, columns, words):
    save(tmp_path / "e.parquet", {"source": [0, 1], "target": [1, 0], **columns})
    refused(capsys, tmp_path, code, message, "parquet", "e.parquet", *words)


def test_a_damaged_parquet_file_is_named(tmp_path, capsys):
    columns = {"source": numpy.arange(5000), "target": numpy.arange(5000)}
    save(tmp_path / "e.parquet", columns, write_page_checksum=True, compression="none",
         use_dictionary=False)
    data = bytearray((tmp_path / "e.parquet").read_bytes())
    data[2000:2010] = b"0123456789"
    (tmp_path / "e.parquet").write_bytes(data)
    refused(capsys, tmp_path, 3, "e.parquet: is damaged: ", "parquet", "e.parquet")
    (tmp_path / "e.parquet").write_bytes(data[:-50])
    refused(capsys, tmp_path, 3, "e.parquet: is no Parquet file, or damaged: ", "parquet", "e.parquet")
    refused(capsys, tmp_path, 2, "none.parquet: No such file", "parquet", "none.parquet")
    save(tmp_path / "e.parquet", columns)
    save(tmp_path / "f.parquet", {**columns, "target": numpy.arange(5000, dtype="int32")})
    refused(capsys, tmp_path, 2, "f.parquet: column target is int32, but int64 in e.parquet",
            "parquet", "e.parquet", "f.parquet")


def test_pyarrow_that_is_missing_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    refused(capsys, tmp_path, 2, "need the package pyarrow, which is not installed in", "parquet", "e")


def test_rows_that_no_disk_holds_are_refused_at_once(tmp_path, capsys):
    write(tmp_path, "e", f"0 {(1 << 48) - 3}\n")
    os.chdir(tmp_path)
    assert command.main(["edges", "e", "--to", "out"]) == 2
    assert "for their rows alone, and the disk has" in capsys.readouterr().err
    assert not (tmp_path / "out" / "graph.json").exists()


@pytest.mark.parametrize("message, words", [
    ("expected bytes, such as 4096, 300MB or 4GiB, got '1G'", ["--memory", "1G"]),
    ("expected NAME=FILE, got 'x'", ["--roots", "x"]),
    ("expected a name of letters, digits and _, got '1x'", ["--node-array", "1x=y.npy"]),
    ("expected a number of nodes, got '-1'", ["--nodes", "-1"]),
    ("expected a type of float16, float32", ["--edge-feature", "w=3:text"]),
])
def test_an_argument_that_is_wrong_is_named(tmp_path, message, words):
    done = run_import("edges", "e", "--to", "out", *words, cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_a_pipeline_reads_what_was_imported(tmp_path):
    write(tmp_path, "e", "0 1\n0 2\n1 2\n")
    write(tmp_path, "train", "0\n1\n")
    out = imported(tmp_path, "edges", "e", "--roots", "train=train")
    text = ("millrace: 1\ndataset: g\nsource: {roots: train}\nbatch: {size: 2, remainder: keep}\n"
            "closure: {max_subgraph_size: 9}\n")
    batch, = (batch for _, batch in millrace.reference(text, out).next_epoch())
    assert batch["node"].tolist() == [0, 1, 2, 1, 2]
