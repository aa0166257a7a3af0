"""The folder that an import writes: shards, and a journal by which a later call goes on.

While the import is not finished, shards have names that no dataset has, and the journal is
`import.unfinished.json`. A shard counts once it stands in the journal. At the end the journal says
how many shards there are, they get their names, and then the journal gets its own, `import.json`.
A call after a kill at any point goes on from there.

Not thread-safe. A folder is locked against other imports.
"""

import contextlib
import fcntl
import json
import os
import pathlib

from .._core import RecordFile
from ..errors import ConfigError, DataError

JOURNAL, UNFINISHED = "import.json", "import.unfinished.json"
_VERSION = 1


class Folder:
    """Errors are ConfigError, DataError and OSError."""

    def __init__(self, path, arguments):
        """Opens a folder that is new, empty, or of an import with the same arguments. `arguments`:
        a dict for JSON; an import with others is refused, unless it has no shard yet."""
        self.path = pathlib.Path(path)
        made = not self.path.exists()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise ConfigError(f"folder {path} cannot be made: {error.strerror}") from error
        try:
            self._begin(arguments, made)
        except BaseException:
            self.close()
            raise

    def _begin(self, arguments, made):
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"{self.path}: another import writes into this folder",
                              "ALREADY_EXISTS") from None
        except OSError:
            pass  # a file system without locks
        self._journal = self._read(JOURNAL) or self._read(UNFINISHED)
        if self._journal is None:
            if any(not entry.name.startswith(UNFINISHED) for entry in self.path.iterdir()):
                raise ConfigError(f"folder {self.path} is not empty; choose another one",
                                  "ALREADY_EXISTS")
        elif self.shards or self.finished:
            self._require_same(self._journal["arguments"], arguments)
            self._check_shards()
        if not self.shards and not self.finished:
            made = made or (self._journal is not None and self._journal["made"])
            self._journal = {"millrace_import": _VERSION, "arguments": arguments, "made": made,
                             "shards": [], "shapes": None}
            self._write()
        if not self.finished:
            self._remove_begun()

    def close(self):
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

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
        self._sync()
        os.replace(self.path / UNFINISHED, self.path / JOURNAL)
        self._sync()

    def give_up(self):
        """Leaves the folder as it was before the import. REQUIRES: there are no shards."""
        self._remove_begun()
        (self.path / UNFINISHED).unlink()
        if self._journal["made"]:
            self.path.rmdir()

    def _final_name(self, number):
        count = len(self.shards)
        digits = max(5, len(str(count)))  # so that the order by bytes is that of numbers
        return f"part-{number:0{digits}}-of-{count:0{digits}}.tfrecord"

    def _read(self, name):
        try:
            journal = json.loads((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise DataError(f"{self.path / name}: is no journal of an import: {error}") from error
        version = journal.get("millrace_import") if isinstance(journal, dict) else None
        if version != _VERSION:
            raise DataError(f"{self.path / name}: is no journal of version {_VERSION}, but of "
                            f"{version}")
        return journal

    def _write(self):
        """The old journal stays until the new one is on the disk."""
        new = self.path / f"{UNFINISHED}.new"
        with open(new, "w", encoding="utf-8") as file:
            json.dump(self._journal, file, ensure_ascii=False, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path / UNFINISHED)
        self._sync()

    def _sync(self):
        os.fsync(self._lock)

    def _require_same(self, old, new):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                raise ConfigError(
                    f"{self.path}: an import into this folder began with {name}: "
                    f"{_show(old.get(name))}, now it is {_show(new.get(name))}: use the same "
                    "arguments, or another folder")

    def _check_shards(self):
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


def _show(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"
