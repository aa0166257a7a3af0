"""The journal by which an import goes on: a file of JSON in the folder that is written.

It is `import.unfinished.json` while the import goes on, and `import.json` afterwards. A folder is
locked against other imports. Not thread-safe.
"""

import fcntl
import json
import os
import pathlib

from ..errors import ConfigError, DataError

JOURNAL, UNFINISHED = "import.json", "import.unfinished.json"
_VERSION = 1


class JournaledFolder:
    """A folder with a journal, `self._journal`. Subclasses say what is in it. Errors are
    ConfigError, DataError and OSError."""

    def __init__(self, path, arguments):
        """Opens a folder that is new, empty, or of an import with the same arguments. `arguments`:
        a dict for JSON; an import with others is refused, unless it has kept nothing yet."""
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

    def _new(self):
        """What the journal of a new import has besides its arguments."""
        raise NotImplementedError

    def _check(self):
        """Raises if what the journal speaks of is not there. Called if something is kept."""
        raise NotImplementedError

    def _remove_begun(self):
        """Removes what is not in the journal."""
        raise NotImplementedError

    @property
    def finished(self):
        raise NotImplementedError

    @property
    def keeps(self):
        """Whether something was done that a later call need not do again."""
        return self._journal is not None and any(
            self._journal.get(kept) for kept in ("shards", "source", "runs", "digest", "pairs"))

    def close(self):
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def give_up(self):
        """Leaves the folder as it was before the import. REQUIRES: nothing is kept."""
        self._remove_begun()
        (self.path / UNFINISHED).unlink()
        if self._journal["made"]:
            self.path.rmdir()

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
        elif self.keeps:
            self._require_same(self._journal["arguments"], arguments)
            self._check()
        if not self.keeps:
            made = made or (self._journal is not None and self._journal["made"])
            self._journal = {"millrace_import": _VERSION, "arguments": arguments, "made": made,
                             **self._new()}
            self._write()
        if not self.finished:
            self._remove_begun()

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

    def _give_final_name(self):
        self._sync()
        os.replace(self.path / UNFINISHED, self.path / JOURNAL)
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


def _show(value):
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else text[:200] + "…"
