"""The tables that numbers in batches refer to."""

from collections.abc import Mapping


class Tables(Mapping):
    """Name → table; a table is a dict of columns, and a column the list of its rows' values.

    The values come when the first of them is asked for.
    """

    def __init__(self, reading):
        self._reading = reading
        self._tables = {}

    def __getitem__(self, name):
        specs = self._reading.spec.tables
        if name not in specs:
            raise KeyError(f"{name}: there are the tables {', '.join(specs) or 'none'}")
        if name not in self._tables:
            self._tables[name] = self._reading.reader.table(name)
        return self._tables[name]

    def __iter__(self):
        return iter(self._reading.spec.tables)

    def __len__(self):
        return len(self._reading.spec.tables)
