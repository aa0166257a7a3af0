"""The folder that an import of a graph writes, and the journal by which a later call goes on.

First the folder gets runs of sorted edges; a run counts once it stands in the journal. Then the
arrays of the dataset grow, and the journal says how many rows they have. At the end the folder gets
its `graph.json`, which makes it a dataset, the runs are removed, and the journal gets its final
name. A call after a kill at any point goes on from there. Not thread-safe.
"""

import os
import shutil

from ...errors import DataError
from ..journal import JOURNAL, UNFINISHED, JournaledFolder
from .renumber import NAME

RUNS = "import.runs"
_FILES = ("indptr.npy", "indices.npy", "edge_label.npy", "graph.json")
_FOLDERS = ("edge_feature", "node_feature", "roots")


class GraphFolder(JournaledFolder):
    """Errors are ConfigError, DataError and OSError."""

    def _new(self):
        return {"runs": [], "position": None, "nodes": 0, "names": 0, "labels": None, "sizes": None,
                "read": False, "written": None, "digest": None}

    @property
    def finished(self):
        return self._journal is not None and self._journal.get("digest") is not None

    @property
    def state(self):
        """The journal: `runs`, and of what was read the `position` behind it, one more than the
        largest node, the bytes of node `names`, the `labels`, and the `sizes` of files; whether all
        is `read`; how many rows and edges are `written`."""
        return self._journal

    @property
    def runs_path(self):
        return self.path / RUNS

    def commit(self, **state):
        """What `state` speaks of is on the disk."""
        self._journal.update(state)
        self._write()

    def finish(self, **result):
        """The dataset is whole. result: `digest`, and what the user is told of it."""
        self.commit(**result)
        self.clean_up()

    def clean_up(self):
        """REQUIRES: finished. Does what finish() has not done yet."""
        if (self.path / JOURNAL).exists():
            return
        self.runs_path.unlink(missing_ok=True)
        self._give_final_name()

    def _check(self):
        if self.finished:
            if not (self.path / "graph.json").exists():
                raise DataError(f"{self.path}: graph.json is gone: remove the folder and import "
                                "again")
            return
        end = self._journal["end"]
        size = self.runs_path.stat().st_size if self.runs_path.exists() else 0
        if size < end:
            raise DataError(f"{self.runs_path}: has {size} bytes, expected {end}: remove the "
                            "folder and import again")

    def _remove_begun(self):
        """Removes what is not in the journal. Runs, arrays and names are cut off when they are
        opened."""
        (self.path / f"{UNFINISHED}.new").unlink(missing_ok=True)
        if self.keeps:
            return
        for name in (RUNS, NAME, *_FILES):
            (self.path / name).unlink(missing_ok=True)
        for name in _FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        os.fsync(self._lock)
