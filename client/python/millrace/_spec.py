"""The facts about every batch that are known before the first one comes."""

import dataclasses
import typing


@dataclasses.dataclass(frozen=True)
class TensorSpec:
    """One tensor of every batch."""

    path: str
    kind: str  # dense, ragged_values, splits, string_bytes or table_reference
    dtype: str  # as delivered: int32, int64, or uint8 for the bytes of strings
    packed_dtype: str  # as it travels over the network
    dimensions: tuple  # outermost first: "batch", "nodes", "edges", …
    splits: str  # path of the tensor that cuts this one; empty: each row is a graph
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
    """The facts that hold for every batch of a session."""

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
    node_labels: int  # of classes and of definitions together
    base_node_labels: int  # of classes
    tactics: int
    contexts: int
    max_batch_bytes: int  # upper estimate for a packed batch; 0: unknown
    fingerprint: str
    order_fingerprint: str  # the one that cursors hold
    start: tuple  # (epoch, examples before the first batch)

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
        """One EdgeGroup for each kind of edges."""
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
        """Path of the splits that cut nodes into graphs."""
        return next(t.splits for t in self.tensors if t.splits and t.dimensions[0] == "nodes")

    @property
    def node_values(self):
        """Paths of the tensors with a row for each node."""
        return tuple(t.path for t in self.tensors if t.splits == self.node_splits)

    def counts_nodes(self, path):
        """Whether the values of a tensor are node numbers, which count across the batch."""
        return self[path].expansion in ("node_offset", "edge_source", "edge_target")


def from_dict(values):
    tensors = tuple(TensorSpec(**tensor) for tensor in values["tensors"])
    return Spec(**{**values, "tensors": tensors})
