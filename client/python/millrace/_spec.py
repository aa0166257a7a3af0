"""The facts about every batch that are known before the first one comes."""

import dataclasses
import typing

from .errors import ConfigError


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One tensor of every batch."""

    path: str
    kind: str  # dense, ragged_values, splits, string_bytes or table_reference
    dtype: str  # as delivered: the packed type if expansion is keep, otherwise int32 or int64
    packed_dtype: str  # as it travels over the network; of a computed tensor the same as dtype
    dimension: str  # what the rows are: "batch", "nodes", "edges", …
    inner: tuple  # extents of a row; empty: a row is one value; None: batches differ in it
    splits: str  # path of the tensor that cuts this one; empty: each row is a graph
    node_splits: str  # path of the splits that number the nodes that the values name, if any
    expansion: str  # keep, widen, node_offset (numbers of nodes), edge_source, edge_target, …
    min: int  # bounds of packed integers, inclusive; 0 for other types
    max: int
    table: str = ""  # name of the table whose rows the values number; empty: none
    computed: bool = False  # after the network, from tensors that travelled; masks too
    rows: int | None = None  # of every batch, because graphs are padded; None: batches differ

    @property
    def dimensions(self):
        """Names of all dimensions: an inner extent is named by its size, or "*" if batches differ
        in it."""
        return (self.dimension, *("*" if extent is None else str(extent) for extent in self.inner))

    @property
    def of_graphs(self):
        """Whether its rows, or what it cuts, belong to the graph of a merged batch, and so to no
        single example."""
        return not self.splits and self.dimension in ("graphs", "graphs+1")

    @property
    def numpy_dtype(self):
        """The name of the type that numpy has it in: numpy knows bfloat16 only as its bits."""
        return "uint16" if self.dtype == "bfloat16" else self.dtype


@dataclasses.dataclass(frozen=True)
class TableSpec:
    """A table that numbers in batches refer to, without its values (Session.tables has them)."""

    name: str
    rows: int
    columns: dict  # name → "uint64", "int64" or "text"
    digest: str  # equal tables have equal digests


class GraphPad(typing.NamedTuple):
    """The size that the graphs of every batch are padded to (`pad.graph`)."""

    nodes: int  # at least one of them is padding
    edges: int
    graphs: int  # the last one is padding


# The tensors that say which nodes, edges and graphs are no padding.
GRAPH_MASKS = ("edge_mask", "graph_mask", "node_mask")


class Branch(typing.NamedTuple):
    """A branch of a pipeline that mixes several sources."""

    name: str
    dataset: str  # id
    weight: int  # its share of an epoch is weight / sum of all weights
    examples: int  # that it selects, so that one pass has them
    rows_per_epoch: int  # examples of an epoch that are its own
    first_example: int  # the number in the mix of its source's first example
    source_examples: int


class EdgeGroup(typing.NamedTuple):
    """Paths of the tensors that hold one kind of edges."""

    splits: str
    source: str
    target: str
    label: str | None  # None: all edges have the same label, 0
    node_splits: str  # cut the nodes that the edges join


@dataclasses.dataclass(frozen=True)
class Spec:
    """The facts that hold for every batch of a session."""

    tensors: tuple
    source: str  # as in `source:` of the pipeline; mix, if branches draw from different ones
    unit: str  # what steps and positions count: example, or batch (`batch.bucket`, `balance`)
    units_per_epoch: int
    stride: int  # units of one step over all ranks
    examples_per_epoch: int  # of all units
    batch_size: int  # of one rank, in examples; with whole batches as units the most that one has
    global_batch_size: int  # of all ranks
    remainder: str  # drop or keep
    world_size: int
    steps_per_epoch: int
    left_out_per_epoch: int  # units that `remainder: drop` leaves out
    symmetrization: str
    add_self_edges: bool
    base_edge_labels: int
    edge_labels: int  # of delivered edges
    merged: bool  # whether a batch is one graph, which its examples share (closure.merge)
    tables: dict  # name → TableSpec
    max_batch_bytes: int  # upper estimate for a packed batch; 0: unknown
    fingerprint: str
    order_fingerprint: str  # the one that cursors hold
    start: tuple  # (epoch, units before the first batch)
    branches: tuple = ()  # of Branch, as batch["branch"] counts them; none without `branches`
    graph_pad: GraphPad | None = None  # None: batches have as many nodes and edges as they have

    def __getitem__(self, path):
        for tensor in self.tensors:
            if tensor.path == path:
                return tensor
        raise KeyError(f"{path}: batches have {', '.join(t.path for t in self.tensors)}")

    @property
    def edges(self):
        """One EdgeGroup for each kind of edges."""
        groups = []
        for splits in self.tensors:
            if splits.expansion != "edge_splits":
                continue
            own = {t.expansion: t for t in self.tensors if t.splits == splits.path}
            source, label = own["edge_source"], own.get("edge_label")
            groups.append(EdgeGroup(splits.path, source.path, own["edge_target"].path,
                                    label.path if label else None, source.node_splits))
        return tuple(groups)

    def only_edges(self, whose):
        """The only EdgeGroup. ConfigError, which names `whose` demand that is, if there is none or
        if there are several."""
        groups = self.edges
        if len(groups) != 1:
            raise ConfigError(f"{whose} one kind of edges, the spec has {len(groups)}")
        return groups[0]

    @property
    def all_node_splits(self):
        """Paths of all splits that cut nodes into graphs: none for data without nodes."""
        paths = (t.splits if t.dimension == "nodes" else t.node_splits for t in self.tensors)
        return tuple(dict.fromkeys(path for path in paths if path))

    @property
    def node_splits(self):
        """Path of the first splits that cut nodes into graphs; None for data without nodes."""
        return next(iter(self.all_node_splits), None)

    @property
    def masks(self):
        """Paths of the tensors that say what is no padding: none if graphs are not padded."""
        return GRAPH_MASKS if self.graph_pad else ()

    @property
    def node_values(self):
        """Paths of the tensors with a row for each of these nodes, but for node_mask."""
        return tuple(t.path for t in self.tensors
                     if t.splits and t.splits == self.node_splits and t.path not in self.masks)

    def of_shared_graph(self, path):
        """Whether the rows of a tensor belong to the graph of a merged batch. All other tensors
        have rows of examples."""
        tensor = self[path]
        return self[tensor.splits].of_graphs if tensor.splits else tensor.of_graphs

    def counts_nodes(self, path):
        """Whether the values of a tensor are node numbers, which count across the batch."""
        return bool(self[path].node_splits)


def from_dict(values):
    tensors = tuple(TensorSpec(**tensor) for tensor in values["tensors"])
    tables = {table["name"]: TableSpec(**table) for table in values["tables"]}
    pad = values["graph_pad"]
    branches = tuple(Branch(**branch) for branch in values["branches"])
    return Spec(**{**values, "tensors": tensors, "tables": tables, "branches": branches,
                   "graph_pad": GraphPad(**pad) if pad else None})
