"""Edges of Parquet files. Needs pyarrow, and reads a part of a row group at once."""

import functools

import numpy

from ...errors import ConfigError, DataError
from ..parquet_file import guarded, open_parquet, require_pyarrow
from .chunks import Chunk, Column, Labels, checked_labels, choose_ends


class ParquetEdges:
    """`total` rows of all files. `done` counts them."""

    def __init__(self, paths, wanted, size, renumber=None):
        """size: edges of a chunk. renumber: a Renumber, which makes numbers of the ends."""
        self._types = require_pyarrow("Parquet files").types
        self._paths, self._size, self._renumber = paths, size, renumber
        self.labels = None
        self.total = self.done = 0
        self._schema = None
        for path in paths:
            file = open_parquet(path)
            self.total += file.metadata.num_rows
            self._require_schema(path, file.schema_arrow, wanted)
        self.columns = [self._feature(name, column) for name, column in self._features]

    def chunks(self, position):
        """Chunks from a position on. None: from the first row on."""
        begin_file = position["file"] if position else 0
        begin_row = position["row"] if position else 0
        counts = [open_parquet(path).metadata.num_rows for path in self._paths[:begin_file]]
        self.done = sum(counts) + begin_row
        for number in range(begin_file, len(self._paths)):
            yield from self._chunks_of(number, begin_row if number == begin_file else 0)

    def _chunks_of(self, number, begin):
        path = self._paths[number]
        file = open_parquet(path, [self._label] if self.label_dtype == "text" else None)
        row = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if row + rows <= begin:
                row += rows
                continue
            batches = file.iter_batches(self._size, row_groups=[group], columns=self._read_columns())
            for batch in guarded(path, batches):
                skipped = min(max(0, begin - row), len(batch))
                row += skipped
                if skipped < len(batch):
                    batch = batch.slice(skipped)
                    self.done += len(batch)
                    yield self._chunk(number, row, batch)
                    row += len(batch)

    def _chunk(self, number, row, batch):
        path = self._paths[number]

        def place(at):
            return f"{path}: row {row + at}"

        def column(name):
            values = batch.column(batch.schema.get_field_index(name))
            if values.null_count:
                at = int(numpy.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0])
                raise DataError(f"{place(at)}: column {name} is null")
            return values

        ends = [column(name) for name in self._ends]
        source, target = (self._renumber.of_columns(*ends, place) if self._renumber else
                          (one.to_numpy(zero_copy_only=False) for one in ends))
        label = None if self._label is None else self._labels_of(column(self._label), place)
        features = {one.name: self._values(column(name), one, place)
                    for one, (_, name) in zip(self.columns, self._features, strict=True)}
        return Chunk(source, target, label, features, place,
                     {"file": number, "row": row + len(batch)})

    def _labels_of(self, values, place):
        if self.label_dtype != "text":
            return checked_labels(values.to_numpy(zero_copy_only=False), place)
        texts = values if hasattr(values, "dictionary") else values.dictionary_encode()
        indices = texts.indices.to_numpy(zero_copy_only=False)
        used, first = numpy.unique(indices, return_index=True)
        numbers = numpy.zeros(len(texts.dictionary), numpy.uint16)
        for index, at in zip(used, first, strict=True):
            name = texts.dictionary[int(index)].as_py()
            numbers[index] = self.labels.number(name, functools.partial(place, at))
        return numbers[indices]

    def _values(self, values, column, place):
        """The values of a feature, of lists flattened."""
        count = len(values)
        for length in column.shape:
            if hasattr(values, "offsets"):
                lengths = numpy.diff(values.offsets.to_numpy())
                if (lengths != length).any():
                    at = int(numpy.flatnonzero(lengths != length)[0])
                    raise DataError(f"{place(at)}: feature {column.name} has {lengths[at]} "
                                    f"numbers, expected {length} as in the first row")
            values = values.flatten()
            if values.null_count:
                raise DataError(f"{place(0)} or after it: feature {column.name} has a null in a list")
        return values.to_numpy(zero_copy_only=False).reshape(count, *column.shape)

    def _require_schema(self, path, schema, wanted):
        """All files have to have columns of the same types."""
        if self._schema is None:
            self._first, self._schema = path, schema
            self._choose(path, schema, wanted)
        for name in self._read_columns():
            kinds = [one.field(name).type if name in one.names else "none"
                     for one in (schema, self._schema)]
            if kinds[0] != kinds[1]:
                raise ConfigError(f"{path}: column {name} is {kinds[0]}, but {kinds[1]} in "
                                  f"{self._first}: expected the same columns in all files")

    def _choose(self, path, schema, wanted):
        self._ends = choose_ends(wanted, schema.names, path)
        self._label = wanted.label
        self._features = [(name, column) for name, column, _ in wanted.features]
        for name in self._read_columns():
            if name not in schema.names:
                raise ConfigError(f"{path}: has no column {name}; there are "
                                  f"{', '.join(schema.names)}", "NOT_FOUND")
        types = self._types
        if self._renumber is None:
            for name in self._ends:
                kind = schema.field(name).type
                if not types.is_integer(kind):
                    raise ConfigError(f"{path}: column {name} is {kind}, expected integers; "
                                      "--renumber numbers nodes that have names")
        self.label_dtype = None
        if self._label is not None:
            kind = schema.field(self._label).type
            if types.is_dictionary(kind):
                kind = kind.value_type
            if types.is_string(kind) or types.is_large_string(kind):
                self.label_dtype, self.labels = "text", Labels()
            elif types.is_integer(schema.field(self._label).type):
                self.label_dtype = numpy.dtype(kind.to_pandas_dtype()).name
            else:
                raise ConfigError(f"{path}: column {self._label} is {kind}, expected labels that "
                                  "are integers or texts")

    def _feature(self, name, column):
        """A feature's type, and its shape, which may show only in the first row."""
        kind, shape = self._schema.field(column).type, []
        types = self._types
        first = None
        while types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
            if types.is_fixed_size_list(kind):
                shape.append(kind.list_size)
            else:
                first = self._first_value(column) if first is None else first
                inner = first
                for _ in shape:
                    inner = inner[0]
                shape.append(len(inner))
            kind = kind.value_type
        if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            raise ConfigError(f"{self._first}: column {column} is {kind}, expected numbers, bools, "
                              "or lists of them that have one length")
        return Column(name, numpy.dtype(kind.to_pandas_dtype()).name, tuple(shape))

    def _first_value(self, column):
        for path in self._paths:
            for batch in guarded(path, open_parquet(path).iter_batches(1, columns=[column])):
                if len(batch) and batch.column(0)[0].is_valid:
                    return batch.column(0)[0].as_py()
        raise ConfigError(f"{self._first}: column {column} has lists but no first row, so that "
                          "their length is not known")

    def _read_columns(self):
        columns = [*self._ends, *([self._label] if self._label is not None else []),
                   *(column for _, column in self._features)]
        return list(dict.fromkeys(columns))
