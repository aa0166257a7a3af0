"""From runs to the arrays of a dataset, by ranges of rows that memory holds. Needs numpy."""

import numpy

from .runs import stable_order


class Ranges:
    """Appends the rows of all runs to arrays, in the order that write_graph gives them."""

    def __init__(self, reader, layout, arrays, ranks, capacity, rows):
        """ranks: the final number of each label; None: labels are numbers. capacity: how many
        edges memory holds. rows: how many rows a range has at most."""
        self._reader = reader
        self._layout = layout
        self._arrays = arrays
        self._ranks = ranks
        self._capacity = capacity
        self._rows = rows
        self._begins = reader.below(arrays.rows)
        self.done = sum(self._begins)  # edges of runs that are worked through

    def step(self):
        """Appends the next range. Returns whether there was one."""
        begin = self._arrays.rows
        if begin >= self._arrays.nodes:
            return False
        end = self._choose_end(begin)
        ends = self._reader.below(end)
        if sum(ends) - sum(self._begins) > self._capacity:
            self._append_long_row(self._begins, ends)
        else:
            self._append(begin, end, ends)
        self._begins = ends
        self.done = sum(ends)
        return True

    def _choose_end(self, begin):
        """The last row before which the range surely fits, but at least one row."""
        before = sum(self._begins)
        low, high = begin + 1, min(begin + self._rows, self._arrays.nodes)
        while low < high:
            middle = (low + high + 1) // 2
            if sum(self._reader.most_below(middle)) - before <= self._capacity:
                low = middle
            else:
                high = middle - 1
        return low

    def _append(self, begin, end, ends):
        column = self._column_of(self._begins, ends)
        row = column("row")
        row -= begin
        keys = [(row, end - begin)]
        label = added = None
        if self._layout.has_label:
            label = self._final(column("label"))
            keys.append((label, 1 << 16))
        if self._layout.undirected:
            added = column("added")
            keys.append((added, 2))
        order = stable_order(keys, len(row))
        other = column("other")
        if self._layout.undirected:
            order = order[_are_kept(row, other, label, added)[order]]
            row = row[order]
        counts = numpy.bincount(row, minlength=end - begin)
        del row, keys, added
        self._arrays.append("indices", other[order])
        del other
        if label is not None:
            self._arrays.append("edge_label", label[order])
        for feature in self._layout.features:
            self._arrays.append(f"edge_feature/{feature.name}",
                                column(f"feature {feature.name}")[order])
        self._arrays.append_rows(counts)

    def _append_long_row(self, begins, ends):
        """A row that memory does not hold, label by label and piece by piece."""
        edges = 0
        for label in self._labels_between(begins, ends):
            bounds = (begins, ends) if label is None else self._bounds(begins, ends, "label", label)
            given = bounds
            if self._layout.undirected:
                given = self._bounds(*bounds, "added", 0)
                bounds = self._bounds(*bounds, "added", 1)
            edges += self._append_pieces(*given, label, None)
            if self._layout.undirected:
                edges += self._append_pieces(*bounds, label, given)
        self._arrays.append_rows(numpy.array([edges]))

    def _append_pieces(self, begins, ends, label, there):
        """The edges of one row and label, in the order of the runs. there: only those whose other
        end is none of these."""
        appended = 0
        for piece in self._pieces(begins, ends):
            column = self._column_of(*piece)
            other = column("other")
            kept = numpy.ones(len(other), bool)
            for known in self._pieces(*there) if there is not None else ():
                kept &= ~numpy.isin(other, self._column_of(*known)("other"))
            self._arrays.append("indices", other[kept])
            if label is not None:
                final = self._final(numpy.array([label], numpy.uint16))
                self._arrays.append("edge_label", numpy.repeat(final, kept.sum()))
            for feature in self._layout.features:
                self._arrays.append(f"edge_feature/{feature.name}",
                                    column(f"feature {feature.name}")[kept])
            appended += int(kept.sum())
        return appended

    def _pieces(self, begins, ends):
        """Parts of one run each, as begins and ends."""
        most = max(1, self._capacity // 2)
        for run, (first, last) in enumerate(zip(begins, ends, strict=True)):
            for begin in range(first, last, most):
                piece_begins, piece_ends = [0] * len(ends), [0] * len(ends)
                piece_begins[run], piece_ends[run] = begin, min(begin + most, last)
                yield piece_begins, piece_ends

    def _labels_between(self, begins, ends):
        """The labels of a row, as the runs have them, in their final order."""
        if not self._layout.has_label:
            return [None]
        found = set()
        for piece in self._pieces(begins, ends):
            found.update(numpy.unique(self._column_of(*piece)("label")).tolist())
        labels = numpy.array(sorted(found), numpy.uint16)
        return labels[numpy.argsort(self._final(labels), kind="stable")].tolist()

    def _bounds(self, begins, ends, column, value):
        """Where a column that ascends between begins and ends has a value."""
        bounds = [], []
        for run, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            for found, wanted in zip(bounds, (value, value + 1), strict=True):
                found.append(self._first_not_below(run, column, begin, end, wanted))
        return bounds

    def _first_not_below(self, run, column, begin, end, value):
        while begin < end:
            middle = (begin + end) // 2
            if self._reader.read(run, column, middle, middle + 1)[0] < value:
                begin = middle + 1
            else:
                end = middle
        return begin

    def _column_of(self, begins, ends):
        return lambda name: self._reader.gather(name, begins, ends)

    def _final(self, label):
        return label if self._ranks is None else self._ranks[label]


def _are_kept(row, other, label, added):
    """Whether each edge is given, or the other direction of one that is given without it."""
    keys = [added, other] + ([] if label is None else [label]) + [row]
    order = numpy.lexsort(keys)
    begins = numpy.zeros(len(order), bool)
    begins[:1] = True
    for key in keys[1:]:
        key = key[order]
        begins[1:] |= key[1:] != key[:-1]
    added = added[order]
    # The first of equal edges is given, if one of them is.
    first = added[begins][numpy.cumsum(begins) - 1]
    kept = numpy.empty(len(order), bool)
    kept[order] = (added == 0) | (first == 1)
    return kept
