"""Runs: edges that memory holds at once, sorted by row, one run behind another in one file.

A run is a section for each of its columns: row, other, label, added, and the features. Rows and
others are uint32 unless the run has larger numbers. `added` tells the other direction of an edge,
which an undirected graph gets if it lacks it, from the edge itself. Not thread-safe.
"""

import os

import numpy

from ...errors import DataError


def stable_order(keys, count):
    """The order that sorts by several keys, the first one first, and keeps equal ones as they are.
    keys: pairs of an array of integers from 0 on, and a number above all of them."""
    bits = [max(0, int(bound - 1).bit_length()) for _, bound in keys]
    place = max(0, int(count - 1).bit_length())
    if sum(bits) + place > 63:
        return numpy.lexsort([array for array, _ in reversed(keys)])
    # One number for each, with its place in the low bits, sorts faster and in place.
    packed = keys[0][0].astype(numpy.uint64)
    for (array, _), width in zip(keys[1:], bits[1:], strict=True):
        packed <<= numpy.uint64(width)
        packed |= array.astype(numpy.uint64)
    packed <<= numpy.uint64(place)
    packed |= numpy.arange(count, dtype=numpy.uint64)
    packed.sort()
    packed &= numpy.uint64((1 << place) - 1)
    return packed.view(numpy.int64)


class Layout:
    """The columns of runs."""

    def __init__(self, columns, has_label, undirected):
        """columns: the features."""
        self.features = list(columns)
        self.has_label = has_label
        self.undirected = undirected

    def columns(self, wide):
        """Name, type and shape of each, in the order of a run's sections."""
        number = "uint64" if wide else "uint32"
        found = [("row", number, ()), ("other", number, ())]
        if self.has_label:
            found.append(("label", "uint16", ()))
        if self.undirected:
            found.append(("added", "uint8", ()))
        return found + [(f"feature {one.name}", one.dtype, one.shape) for one in self.features]

    def in_memory(self):
        """Bytes that an edge takes while it is sorted."""
        widths = [one.itemsize for one in self.features]
        own = 16 + 2 * self.has_label + self.undirected + sum(widths)
        # The key and its next part, a column that is brought into order, and what tells whether
        # the other direction is there.
        return own + 16 + max([8, *widths]) + 32 * self.undirected

    def offsets(self, run):
        """Where each section begins in the file, and where the run ends."""
        at, offsets = run["offset"], {}
        for name, dtype, shape in self.columns(run["wide"]):
            offsets[name] = at
            at += run["edges"] * _width(dtype, shape)
            at += -at % 8
        return offsets, at


class RunWriter:
    """Collects chunks, and appends a run when no more fit."""

    def __init__(self, path, layout, capacity, rows_are_targets, begin):
        """capacity: edges of a run; edges of both directions count twice. begin: the size of the
        file as the journal has it; what is behind is dropped."""
        self._layout = layout
        self._capacity = capacity
        self._targets = rows_are_targets
        self._file = open(path, "r+b" if os.path.exists(path) else "w+b")  # noqa: SIM115
        self._file.truncate(begin)
        self._end = begin
        self._columns, self.edges = {}, 0

    def close(self):
        self._file.close()

    def has_room(self, chunk):
        return self.edges + self._records(chunk) <= self._capacity

    def append(self, chunk):
        """REQUIRES: has_room(), or there is nothing yet. Node numbers are checked."""
        count = self._records(chunk)
        if not self._columns:
            self._allocate(max(self._capacity, count))
        ends = (chunk.target, chunk.source) if self._targets else (chunk.source, chunk.target)
        begin, half = self.edges, self.edges + len(chunk)
        self.edges += count
        places = [(slice(begin, half), ends, 0)]
        if self._layout.undirected:
            places.append((slice(half, self.edges), ends[::-1], 1))
        for place, (row, other), added in places:
            self._columns["row"][place], self._columns["other"][place] = row, other
            if self._layout.undirected:
                self._columns["added"][place] = added
            if self._layout.has_label:
                self._columns["label"][place] = chunk.label
            for name, values in chunk.features.items():
                self._columns[f"feature {name}"][place] = values

    def flush(self):
        """Writes what was appended as a run, and describes it for the journal."""
        columns = {name: array[:self.edges] for name, array in self._columns.items()}
        row = columns["row"]
        first = row.min()
        wide = bool(max(row.max(), columns["other"].max()) >= 1 << 32)
        run = {"edges": self.edges, "offset": self._end, "wide": wide}
        row -= first
        keys = [(row, int(row.max()) + 1)]
        if self._layout.has_label:
            keys.append((columns["label"], 1 << 16))
        if self._layout.undirected:
            keys.append((columns["added"], 2))
        order = stable_order(keys, self.edges)
        row += first
        offsets, self._end = self._layout.offsets(run)
        for name, dtype, _ in self._layout.columns(wide):
            self._file.seek(offsets[name])
            self._file.write(numpy.ascontiguousarray(columns[name][order], dtype))
        self._file.truncate(self._end)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._columns, self.edges = {}, 0
        return run

    def _records(self, chunk):
        return len(chunk) * (2 if self._layout.undirected else 1)

    def _allocate(self, count):
        for name, dtype, shape in self._layout.columns(wide=True):
            self._columns[name] = numpy.empty((count, *shape), dtype)


class RunReader:
    """Finds and reads the edges of ranges of rows."""

    def __init__(self, path, layout, runs, memory):
        """memory: for what is kept of the rows, in bytes."""
        self._layout = layout
        self._runs = runs
        self._offsets = [layout.offsets(run)[0] for run in runs]
        self._types = [{name: (dtype, shape) for name, dtype, shape in layout.columns(run["wide"])}
                       for run in runs]
        end = max((layout.offsets(run)[1] for run in runs), default=0)
        self._file = open(path, "rb")  # noqa: SIM115
        size = os.fstat(self._file.fileno()).st_size
        if size < end:
            raise DataError(f"{path}: has {size} bytes, expected {end}: remove the folder and "
                            "import again")
        edges = sum(run["edges"] for run in runs)
        self._step = max(16, 8 * edges // max(memory, 1) + 1)
        self._samples = [self._sample(number) for number in range(len(runs))]

    def __len__(self):
        return len(self._runs)

    def close(self):
        self._file.close()

    def edges(self, run):
        return self._runs[run]["edges"]

    def most_below(self, row):
        """For each run, a number of edges that is not below those of the rows before `row`."""
        return [min(int(numpy.searchsorted(samples, numpy.uint64(row))) * self._step, run["edges"])
                for samples, run in zip(self._samples, self._runs, strict=True)]

    def below(self, row):
        """How many edges of rows before `row` each run has."""
        found = []
        for run, samples in enumerate(self._samples):
            sample = int(numpy.searchsorted(samples, numpy.uint64(row)))
            if sample == 0:
                found.append(0)
                continue
            begin = (sample - 1) * self._step
            rows = self.read(run, "row", begin, min(begin + self._step, self.edges(run)))
            found.append(begin + int(numpy.searchsorted(rows.astype(numpy.uint64),
                                                        numpy.uint64(row))))
        return found

    def read(self, run, column, begin, end):
        """A part of a column of a run."""
        dtype, shape = self._types[run][column]
        width = _width(dtype, shape)
        self._file.seek(self._offsets[run][column] + begin * width)
        per = width // numpy.dtype(dtype).itemsize
        values = numpy.fromfile(self._file, dtype, (end - begin) * per)
        return values.reshape(end - begin, *shape)

    def gather(self, column, begins, ends):
        """A column of a part of every run, one behind the other."""
        _, dtype, shape = next(one for one in self._layout.columns(True) if one[0] == column)
        dtype = "int64" if dtype == "uint64" and column in ("row", "other") else dtype
        total = sum(ends) - sum(begins)
        values, at = numpy.empty((total, *shape), dtype), 0
        for run, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if end > begin:
                values[at:at + end - begin] = self.read(run, column, begin, end)
                at += end - begin
        return values

    def _sample(self, run):
        """The row of every _step-th edge."""
        piece = max(1, (1 << 20) // self._step) * self._step
        edges = self.edges(run)
        samples = [self.read(run, "row", begin, min(begin + piece, edges))[::self._step]
                 for begin in range(0, edges, piece)]
        return numpy.concatenate(samples).astype(numpy.uint64)


def _width(dtype, shape):
    return numpy.dtype(dtype).itemsize * int(numpy.prod(shape, dtype=numpy.int64))
