"""The folder that an import writes: shards, and a journal by which a later call goes on.

While the import is not finished, shards have names that no dataset has, and the journal is
`import.unfinished.json`. A shard counts once it stands in the journal. At the end the journal says
how many shards there are, they get their names, and then the journal gets its own, `import.json`.
A call after a kill at any point goes on from there.

Not thread-safe. A folder is locked against other imports.
"""

import contextlib
import os

from .._core import RecordFile
from ..errors import DataError
from .journal import JOURNAL, UNFINISHED, JournaledFolder


class Folder(JournaledFolder):
    """Errors are ConfigError, DataError and OSError."""

    def _new(self):
        return {"shards": [], "shapes": None}

    @property
    def shards(self):
        """Of each whole shard: examples, bytes, and the position of the source behind it."""
        return self._journal["shards"] if self._journal else []

    @property
    def shapes(self):
        """What commit() was last given."""
        return self._journal["shapes"]

    @property
    def examples(self):
        return sum(shard["examples"] for shard in self.shards)

    @property
    def bytes(self):
        return sum(shard["bytes"] for shard in self.shards)

    @property
    def finished(self):
        return self._journal is not None and self._journal.get("source") is not None

    @property
    def source(self):
        """The line of a pipeline, and why features are not in it."""
        return self._journal["source"], self._journal["left_out"]

    @contextlib.contextmanager
    def shard(self):
        """A new RecordFile. If the block raises, nothing is left of it."""
        path = self.path / f"shard-{len(self.shards):05}.writing"
        try:
            yield RecordFile(str(path))
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def commit(self, file, position, shapes):
        """Makes the file of shard() the next shard."""
        file.close(sync=True)
        name = f"shard-{len(self.shards):05}"
        os.replace(self.path / f"{name}.writing", self.path / f"{name}.whole")
        self._sync()
        self.shards.append({"examples": file.records, "bytes": file.bytes, "position": position})
        self._journal["shapes"] = shapes
        self._write()

    def discard(self, file):
        """Removes the file of shard(), which has no record."""
        file.close(sync=False)
        self._remove_begun()

    def finish(self, source, left_out):
        """Gives all shards their names."""
        self._journal.update(source=source, left_out=left_out)
        self._write()
        self.name_shards()

    def name_shards(self):
        """REQUIRES: finished. Does what finish() has not done yet."""
        if (self.path / JOURNAL).exists():
            return
        for number in range(len(self.shards)):
            begun = self.path / f"shard-{number:05}.whole"
            if begun.exists():
                os.replace(begun, self.path / self._final_name(number))
        self._give_final_name()

    def _final_name(self, number):
        count = len(self.shards)
        digits = max(5, len(str(count)))  # so that the order by bytes is that of numbers
        return f"part-{number:0{digits}}-of-{count:0{digits}}.tfrecord"

    def _check(self):
        for number, shard in enumerate(self.shards):
            places = [self.path / f"shard-{number:05}.whole"]
            if self.finished:
                places.append(self.path / self._final_name(number))
            sizes = [place.stat().st_size for place in places if place.exists()]
            if sizes != [shard["bytes"]]:
                found = f"has {sizes[0]} bytes" if sizes else "is gone"
                raise DataError(f"{places[-1]}: {found}, expected {shard['bytes']} bytes: remove "
                                "the folder and import again")

    def _remove_begun(self):
        """Removes what is not in the journal."""
        kept = {f"shard-{number:05}.whole" for number in range(len(self.shards))}
        for entry in self.path.glob("shard-*"):
            if entry.suffix in (".writing", ".whole") and entry.name not in kept:
                entry.unlink()
        (self.path / f"{UNFINISHED}.new").unlink(missing_ok=True)
