"""Drawings of examples, as SVG."""

from ._core import example_svg
from ._host import values
from .errors import ConfigError


def graph(batch, row, session=None, *, tables=None, spec=None):
    """The graph of one example, with the names of labels, as an SVG document that notebooks show.
    The graph of a merged batch belongs to all its examples, so only one of a single example can be
    drawn: `session.batch_of([id])` gives it, or a pipeline with `closure: {merge: false}`.

    session: the session that the batch is of. Instead of it, its `tables` and `spec` may be given.
    Reversed edges and self edges are left out.
    """
    if session is not None:
        tables, spec = session.tables, session.spec
    if tables is None or spec is None:
        raise ConfigError("graph: give the session that the batch is of, or its tables= and spec=")
    if not 0 <= row < batch.num_graphs:
        raise IndexError(f"row {row}: the batch has {batch.num_graphs} graphs")
    if spec.merged and batch.num_examples != 1:
        raise ConfigError(f"graph: a merged batch is one graph, here of {batch.num_examples} examples; "
                          "draw a batch of one, from millrace.reference(…).batch_of([id])")
    edges = spec.only_edges("a drawing shows")
    first, last = _cut(batch, spec.node_splits, row)
    if not spec.node_values:
        raise ConfigError("graph: a drawing needs a tensor with a row for each node; the pipeline's "
                          "output has none")
    nodes = next((path for path in spec.node_values if spec[path].table), spec.node_values[0])
    labels = values(batch[nodes])[first:last].tolist()
    roots = {0}
    if "root" in batch:
        roots = {values(batch["root"])[row] - first}
    elif "num_definitions" in batch:
        roots = set(range(values(batch["num_definitions"])[row]))
    begin, end = _cut(batch, edges.splits, row)
    kinds = [0] * (end - begin)
    if edges.label is not None:
        kinds = values(batch[edges.label])[begin:end].tolist()
    ends = [values(batch[path])[begin:end].tolist() for path in (edges.source, edges.target)]
    drawn = [(s - first, t - first, k) for s, t, k in zip(*ends, kinds) if k < spec.base_edge_labels]
    node_names = _names(spec[nodes], tables)
    edge_names = [""] if edges.label is None else _names(spec[edges.label], tables)
    classes = spec.tables.get("node_classes")
    return Drawing(example_svg(batch.example_ids[row], labels,
                               [i in roots for i in range(last - first)], drawn, node_names,
                               edge_names,
                               len(node_names) if classes is None else classes.rows))


class Drawing(str):
    """The text of an SVG document; a notebook shows the picture."""

    def _repr_svg_(self):
        return str(self)

    def save(self, path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(self)


def _names(tensor, tables):
    """The names of a tensor's values, if its table has names."""
    return tables[tensor.table].get("name", []) if tensor.table else []


def _cut(batch, splits, row):
    view = values(batch[splits])
    return view[row], view[row + 1]
