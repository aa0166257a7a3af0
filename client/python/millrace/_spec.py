"""What is known of every batch before the first one comes."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One tensor of every batch."""

    path: str
    kind: str  # dense, ragged_values, splits, string_bytes or table_reference
    dtype: str  # as delivered: int32, int64, or uint8 for the bytes of strings
    packed_dtype: str  # as it travels
    dimensions: tuple  # outermost first: "batch", "nodes", "edges", …
    splits: str  # path of the tensor that cuts this one; empty: rows are graphs
    expansion: str  # widen, node_offset (numbers of nodes), edge_source, edge_target, edge_label, …
    min: int  # bounds of the packed values, inclusive
    max: int


class EdgeGroup(typing.NamedTuple):
    """Paths of the tensors that hold one kind of edges."""

    splits: str
    source: str
    target: str
    label: str


@dataclasses.dataclass(frozen=True)
class Spec:
    """What every batch of a session is like."""

    tensors: tuple
    source: str  # proof_states, definitions, …
    examples_per_epoch: int
    batch_size: int  # of one rank, in examples
    global_batch_size: int  # of all ranks
    remainder: str  # drop or keep
    world_size: int
    steps_per_epoch: int
    left_out_per_epoch: int  # examples that `remainder: drop` leaves out
    symmetrization: str
    add_self_edges: bool
    base_edge_labels: int
    edge_labels: int  # of delivered edges
    node_labels: int  # classes and definitions
    base_node_labels: int  # classes
    tactics: int
    contexts: int
    max_batch_bytes: int  # upper estimate of a packed batch; 0: unknown
    fingerprint: str
    order_fingerprint: str  # what a cursor holds
    start: tuple  # (epoch, examples before it) of the first batch

    def __getitem__(self, path):
        for tensor in self.tensors:
            if tensor.path == path:
                return tensor
        raise KeyError(f"{path}: batches have {', '.join(t.path for t in self.tensors)}")

    @property
    def stride(self):
        """Examples of one step over all ranks."""
        return self.global_batch_size

    @property
    def edges(self):
        """The groups of edges that belong together."""
        groups = []
        for splits in self.tensors:
            if splits.expansion != "edge_splits":
                continue
            own = {t.expansion: t.path for t in self.tensors if t.splits == splits.path}
            groups.append(EdgeGroup(splits.path, own["edge_source"], own["edge_target"],
                                    own["edge_label"]))
        return tuple(groups)

    @property
    def node_splits(self):
        """Path of the splits that number nodes."""
        return next(t.splits for t in self.tensors if t.splits and t.dimensions[0] == "nodes")

    @property
    def node_values(self):
        """Paths of the tensors with a row for each node."""
        return tuple(t.path for t in self.tensors if t.splits == self.node_splits)

    def counts_nodes(self, path):
        """Whether the values of a tensor are numbers of nodes, counted across the batch."""
        return self[path].expansion in ("node_offset", "edge_source", "edge_target")


def from_dict(values):
    tensors = tuple(TensorSpec(**tensor) for tensor in values["tensors"])
    return Spec(**{**values, "tensors": tensors})
