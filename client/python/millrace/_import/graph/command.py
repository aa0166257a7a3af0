"""An import of edges from begin to end."""

import contextlib
import os

from ..._core import seal_graph
from ...errors import ConfigError, DataError
from ..progress import Progress
from . import extras
from .arrays import Arrays
from .chunks import MOST_NODES, Wanted, check_nodes
from .folder import GraphFolder
from .options import input_files, kept_arguments
from .ranges import Ranges
from .renumber import Renumber
from .runs import Layout, RunReader, RunWriter


def import_edges(options):
    """Runs `millrace import parquet` or `edges`. Returns what the user is told."""
    paths = input_files(options)
    kept = kept_arguments(options, paths)
    with contextlib.closing(GraphFolder(options.to, kept)) as folder:
        if folder.finished:
            folder.clean_up()
            return f"{options.to}: is finished: {_counts(folder.state)}"
        try:
            _Import(options, paths, folder).run()
        except BaseException:
            if not folder.keeps:
                folder.give_up()
            raise
        return f"{options.to}: {_counts(folder.state)}"


class _Import:
    def __init__(self, options, paths, folder):
        self._options = options
        self._paths = paths
        self._folder = folder
        self._state = folder.state
        self._extras = extras.open_arrays(options.node_array, options.roots, options.renumber)
        self._nodes = extras.count_nodes(options.nodes, self._extras)
        self._memory = options.memory

    def run(self):
        with contextlib.ExitStack() as stack:
            self._renumber = None
            if self._options.renumber:
                self._renumber = Renumber(self._folder.path, self._state["names"])
                stack.callback(self._renumber.close)
            self._source = self._open_source()
            self._layout = Layout(self._source.columns, self._source.label_dtype is not None,
                                  self._options.undirected)
            self._capacity = max(16, int(0.7 * self._memory) // self._layout.in_memory())
            if not self._state["read"]:
                self._read()
        nodes = self._state["nodes"] if self._nodes is None else self._nodes
        described, edges = self._write_rows(nodes)
        described.update(extras.place_arrays(self._folder.path, self._extras, nodes, edges))
        names = self._state["labels"]
        digest = seal_graph(str(self._folder.path), nodes, edges, self._options.rows == "target",
                            sorted(names, key=str.encode) if names else None, None, described)
        self._folder.finish(digest=digest, nodes=nodes, edges=edges)

    def _open_source(self):
        options = self._options
        features = tuple(options.edge_feature)
        wanted = Wanted(options.source_column, options.target_column, options.edge_label, features)
        self._require_same_files()
        if options.source == "parquet":
            from .parquet import ParquetEdges

            size = max(4, min(1 << 16, self._memory // 1024))
            source = ParquetEdges(self._paths, wanted, size, self._renumber)
        else:
            from .texts import TextEdges

            size = max(256, min(1 << 22, self._memory // 128))
            source = TextEdges(self._paths, wanted, size, self._renumber, options.header)
        if source.labels is not None:
            for name in self._state["labels"] or ():
                source.labels.number(name, str)
        return source

    def _require_same_files(self):
        """Files that were read may not change; those that were not may be mended."""
        sizes = self._state["sizes"]
        for path, size in zip(self._paths, sizes or (), strict=False):
            now = os.path.getsize(path) if os.path.exists(path) else None
            if now != size:
                found = "is gone" if now is None else f"has {now} bytes, but had {size}"
                raise DataError(f"{path}: {found} when this import began: remove the folder and "
                                "import again")

    def _read(self):
        """From the source into runs."""
        begin = self._state.get("end", 0)
        writer = RunWriter(self._folder.runs_path, self._layout, self._capacity,
                           self._options.rows == "target", begin)
        with contextlib.closing(writer), Progress(self._source.total, verb="reading",
                                                  unit="edges") as progress:
            self._largest, edges, position = self._state["nodes"], self._read_edges(), None
            for chunk in self._source.chunks(self._state["position"]):
                if position is None:
                    progress.begin(edges, begin, self._source.done)
                self._largest = max(self._largest, check_nodes(chunk, self._nodes))
                if writer.edges and not writer.has_room(chunk):
                    self._commit(writer, position)
                writer.append(chunk)
                edges += len(chunk)
                position = chunk.position
                progress.set(edges, self._state.get("end", 0), self._source.done)
            if writer.edges:
                self._commit(writer, position)
        self._folder.commit(read=True, labels=self._source.labels and self._source.labels.names)

    def _read_edges(self):
        found = sum(run["edges"] for run in self._state["runs"])
        return found // (2 if self._options.undirected else 1)

    def _commit(self, writer, position):
        run = writer.flush()
        labels = self._source.labels
        self._folder.commit(
            runs=[*self._state["runs"], run], end=self._layout.offsets(run)[1], position=position,
            nodes=self._largest, names=self._renumber.sync() if self._renumber else 0,
            labels=None if labels is None else labels.names,
            sizes=[os.path.getsize(path) for path in self._paths[:position["file"] + 1]])

    def _write_rows(self, nodes):
        """From runs into arrays. Returns their descriptions, and the number of edges."""
        self._require_room(nodes)
        runs = self._state["runs"]
        columns = [(f"edge_feature/{one.name}", one.dtype, one.shape)
                   for one in self._layout.features]
        ranks = None
        if self._layout.has_label:
            dtype = self._source.label_dtype
            if self._source.labels is not None:
                ranks = self._source.labels.ranks()
                dtype = "uint8" if len(ranks) <= 256 else "uint16"
            columns.append(("edge_label", dtype, ()))
        total = sum(run["edges"] for run in runs)
        if not runs:
            self._folder.runs_path.touch()
        reader = RunReader(self._folder.runs_path, self._layout, runs, self._memory // 16)
        begin = self._state["written"] or {"rows": 0, "edges": 0}
        arrays = Arrays(self._folder.path, nodes, total, columns, begin)
        with contextlib.closing(reader), contextlib.closing(arrays), Progress(
                total, verb="sorting", unit="edges") as progress:
            ranges = Ranges(reader, self._layout, arrays, ranks, self._capacity,
                            max(16, self._memory // 64))
            progress.begin(arrays.edges, arrays.bytes, ranges.done)
            while ranges.step():
                self._folder.commit(written=arrays.sync())
                progress.set(arrays.edges, arrays.bytes, ranges.done)
            return arrays.finish(), arrays.edges

    def _require_room(self, nodes):
        if nodes > MOST_NODES:
            raise ConfigError(f"there is a node {nodes - 1}, expected numbers below {MOST_NODES}")
        room = os.statvfs(self._folder.path)
        free = room.f_bavail * room.f_frsize
        rows = 0 if self._state["written"] is None else self._state["written"]["rows"]
        if 8 * (nodes - rows) > free:
            raise ConfigError(
                f"{self._folder.path}: {nodes:,} nodes need {8 * nodes / 1e9:,.1f} GB for their "
                f"rows alone, and the disk has {free / 1e9:,.1f} GB: make room, or number the "
                "nodes without gaps, as --renumber does", "FAILED_PRECONDITION")


def _counts(state):
    return (f"{state['nodes']:,} nodes and {state['edges']:,} edges, digest {state['digest']}")
