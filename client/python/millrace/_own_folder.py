"""Temporary folders of this process. If it is killed, the next one removes what it left."""

import contextlib
import fcntl
import os
import pathlib
import shutil
import tempfile

_PREFIX = "millrace-local-"
_LOCK = "owner.lock"  # locked as long as the folder's process lives


class OwnFolder:
    """A temporary folder of this process. Folders of processes that were killed are removed first.

    A forked child that outlives this process keeps the folder for as long as it lives.
    """

    def __init__(self):
        _remove_left()
        self.path = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock = open(self.path / "new.lock", "w")
        # The lock has its name only once it is held, so that nobody finds it free. Where files
        # cannot be locked, nobody finds it at all.
        with contextlib.suppress(OSError):
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            (self.path / "new.lock").rename(self.path / _LOCK)

    def remove(self):
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def _remove_left():
    with os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(_PREFIX):
                with contextlib.suppress(OSError):  # also if its process lives
                    _remove_if_left(entry)


def _remove_if_left(entry):
    # Other users may put what they like beside our folders, but it does not belong to us.
    if (not entry.is_dir(follow_symlinks=False)
            or entry.stat(follow_symlinks=False).st_uid != os.geteuid()):
        return
    folder = pathlib.Path(entry.path)
    with open(folder / _LOCK) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The lock goes last: if anything cannot be removed, the next process tries again.
        for path in sorted(folder.iterdir(), key=lambda path: path.name == _LOCK):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        folder.rmdir()
