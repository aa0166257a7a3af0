"""The folder that an import of tokens writes, and the journal by which a later call goes on.

While the import is not finished, the halves of pairs have names that no dataset has. A pair counts
once it stands in the journal. At the end the journal says so, and all halves get their names, every
.idx before the first .bin: while a .bin lacks its name, the folder is refused as one with half a
pair. Then the journal gets its final name. A call after a kill at any point goes on from there.

Not thread-safe. A folder is locked against other imports.
"""

import contextlib
import os

from ...errors import DataError
from ..journal import JOURNAL, UNFINISHED, JournaledFolder
from .pair import PairBegin, PairWriter

_HALVES = ("idx", "bin")  # in the order in which they get their names


class TokensFolder(JournaledFolder):
    """Errors are ConfigError, DataError and OSError."""

    def _new(self):
        return {"pairs": [], "finished": False}

    @property
    def pairs(self):
        """Of each whole pair: its name, the identity of its file of texts, documents, tokens, and
        the bytes of both halves."""
        return self._journal["pairs"] if self._journal else []

    @property
    def finished(self):
        return self._journal is not None and bool(self._journal.get("finished"))

    def total(self, what):
        """The sum over all whole pairs of `documents`, `tokens` or `bin`."""
        return sum(pair[what] for pair in self.pairs)

    @contextlib.contextmanager
    def pair(self, dtype):
        """A new PairWriter. If the block raises, nothing is left of it."""
        paths = [self._place(len(self.pairs), half, "writing") for half in ("bin", "idx")]
        try:
            with PairWriter(*paths, dtype) as writer:
                yield writer
        except BaseException:
            for path in paths:
                path.unlink(missing_ok=True)
            raise

    def commit(self, writer, name, texts):
        """Makes what pair() gave the next pair. texts: the identity of its file, for JSON."""
        writer.finish()
        number, sizes = len(self.pairs), {}
        for half in _HALVES:
            begun = self._place(number, half, "writing")
            sizes[half] = begun.stat().st_size
            os.replace(begun, self._place(number, half, "whole"))
        self._sync()
        self.pairs.append({"name": name, "texts": texts, "documents": writer.documents,
                           "tokens": writer.tokens, **sizes})
        self._write()

    def begin_of_last(self, dtype):
        """REQUIRES: not finished, and a pair."""
        number = len(self.pairs) - 1
        return PairBegin(*(self._place(number, half, "whole") for half in ("bin", "idx")), dtype)

    def forget(self):
        """Keeps nothing, so that give_up() may be called."""
        self.pairs.clear()

    def finish(self):
        """Gives all pairs their names."""
        self._journal["finished"] = True
        self._write()
        self.name_pairs()

    def name_pairs(self):
        """REQUIRES: finished. Does what finish() has not done yet."""
        if (self.path / JOURNAL).exists():
            return
        for half in _HALVES:
            for number in range(len(self.pairs)):
                begun = self._place(number, half, "whole")
                if begun.exists():
                    os.replace(begun, self._final_place(number, half))
            self._sync()
        self._give_final_name()

    def _place(self, number, half, state):
        return self.path / f"pair-{number:05}.{half}.{state}"

    def _final_place(self, number, half):
        return self.path / f"{self.pairs[number]['name']}.{half}"

    def _check(self):
        for number, pair in enumerate(self.pairs):
            for half in _HALVES:
                places = [self._place(number, half, "whole")]
                if self.finished:
                    places.append(self._final_place(number, half))
                sizes = [place.stat().st_size for place in places if place.exists()]
                if sizes != [pair[half]]:
                    found = f"has {sizes[0]} bytes" if sizes else "is gone"
                    raise DataError(f"{places[-1]}: {found}, expected {pair[half]} bytes: remove "
                                    "the folder and import again")

    def _remove_begun(self):
        """Removes what is not in the journal."""
        kept = {self._place(number, half, "whole").name
                for number in range(len(self.pairs)) for half in _HALVES}
        for entry in self.path.glob("pair-*"):
            if entry.suffix in (".writing", ".whole") and entry.name not in kept:
                entry.unlink()
        (self.path / f"{UNFINISHED}.new").unlink(missing_ok=True)
