"""The arrays of edges while they grow: .npy files whose headers are written last. Needs numpy."""

import io
import os

import numpy


class Arrays:
    """indptr, indices, and the arrays of edges. Not thread-safe."""

    def __init__(self, folder, nodes, most_edges, columns, begin):
        """columns: name, dtype and shape of one value, of each array of edges but `indices`.
        begin: how many rows and edges are written; what is behind is dropped."""
        self.rows, self.edges = begin["rows"], begin["edges"]
        self.nodes = nodes
        self._folder = folder
        index = "int32" if nodes <= 1 << 31 else "int64"
        self._kinds = {"indptr": ("int64", ()), "indices": (index, ()),
                       **{name: (dtype, shape) for name, dtype, shape in columns}}
        self._heads = {}
        self._files = {}
        for name, (dtype, shape) in self._kinds.items():
            most = nodes + 1 if name == "indptr" else most_edges
            self._heads[name] = len(_header(dtype, (most, *shape)))
            path = self._path(name)
            path.parent.mkdir(exist_ok=True)
            file = open(path, "r+b" if path.exists() else "w+b")  # noqa: SIM115
            self._files[name] = file
            # The first number of indptr is 0, also while no row is written.
            count = self.rows + 1 if name == "indptr" else self.edges
            file.truncate(self._heads[name] + count * self._width(name))
            file.seek(0, os.SEEK_END)

    def close(self):
        for file in self._files.values():
            file.close()

    def append(self, name, values):
        self._files[name].write(numpy.ascontiguousarray(values, self._kinds[name][0]))

    def append_rows(self, counts):
        """The numbers of edges of the next rows. Their edges are appended, or will be."""
        ends = numpy.cumsum(counts, dtype=numpy.int64)
        ends += self.edges
        self.append("indptr", ends)
        self.rows += len(counts)
        self.edges = int(ends[-1]) if len(ends) else self.edges

    def sync(self):
        """What was appended is on the disk. Returns what __init__ wants to go on from here."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        return {"rows": self.rows, "edges": self.edges}

    def finish(self):
        """Writes the headers. Returns what seal_graph wants to know of each array."""
        described = {}
        for name, (dtype, shape) in self._kinds.items():
            whole = (self.nodes + 1 if name == "indptr" else self.edges, *shape)
            self._files[name].seek(0)
            self._files[name].write(_header(dtype, whole, self._heads[name]))
            described[name] = (f"{name}.npy", dtype, list(whole), 0, "")
        self.sync()
        return described

    @property
    def bytes(self):
        """Of the values, as far as they are written."""
        return sum((self.rows if name == "indptr" else self.edges) * self._width(name)
                   for name in self._kinds)

    def _path(self, name):
        return self._folder / f"{name}.npy"

    def _width(self, name):
        dtype, shape = self._kinds[name]
        return numpy.dtype(dtype).itemsize * int(numpy.prod(shape, dtype=numpy.int64))


def _header(dtype, shape, length=None):
    """That of a .npy file, filled up to a length."""
    file = io.BytesIO()
    numpy.lib.format.write_array_header_1_0(file, {
        "descr": numpy.lib.format.dtype_to_descr(numpy.dtype(dtype)), "fortran_order": False,
        "shape": shape})
    head = file.getvalue()
    if length is None or len(head) == length:
        return head
    text = head[10:].rstrip() + b" " * length
    return head[:8] + (length - 10).to_bytes(2, "little") + text[:length - 11] + b"\n"
