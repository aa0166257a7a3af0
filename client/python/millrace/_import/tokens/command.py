"""An import of texts from begin to end. Needs numpy."""

import contextlib
import os
import stat

import numpy

from ...errors import ConfigError, DataError
from ..progress import Progress
from .folder import TokensFolder
from .options import check, kept_arguments, pair_names
from .texts import open_texts
from .tokenizer import Tokenizer


def import_tokens(options):
    """Runs `millrace import tokens`. Returns what the user is told."""
    check(options)
    with contextlib.closing(TokensFolder(options.to, kept_arguments(options))) as folder:
        if folder.finished:
            folder.name_pairs()
            return f"{options.to}: is finished: {_counts(folder, options)}"
        try:
            _Import(options, folder).run()
        except BaseException:
            if not folder.keeps:
                folder.give_up()
            raise
        folder.finish()
        return f"{options.to}: {_counts(folder, options)}"


class _Import:
    def __init__(self, options, folder):
        self._options, self._folder = options, folder
        self._paths = options.files
        self._names = pair_names(self._paths)
        self._sizes = [_identity(path)["bytes"] for path in self._paths]
        self._require_same_files()
        self._tokenizer = Tokenizer(options.tokenizer, dict(options.plugin), options.dtype,
                                    options.eos)

    def run(self):
        """Writes the pairs that are not there yet."""
        begin = len(self._folder.pairs)
        if 0 < begin < len(self._paths):
            self._require_same_tokenizer()
        with Progress(sum(self._sizes) or None, unit="documents") as self._progress:
            self._progress.begin(self._folder.total("documents"), self._folder.total("bin"),
                                 sum(self._sizes[:begin]))
            for number in range(begin, len(self._paths)):
                self._write_pair(number)
        if not self._folder.total("tokens"):
            self._folder.forget()
            raise ConfigError(f"{', '.join(self._paths)}: the texts have no token, expected at "
                              "least one: give files with texts")

    def _write_pair(self, number):
        path, options = self._paths[number], self._options
        identity = _identity(path)
        with self._folder.pair(options.dtype) as writer, open_texts(path, options.column) as texts:
            for batch in texts.batches():
                writer.append(*self._tokenizer.tokens_of(batch))
                self._progress.set(self._folder.total("documents") + writer.documents,
                                   self._folder.total("bin") + writer.bytes,
                                   sum(self._sizes[:number]) + texts.done)
            if _identity(path) != identity:
                raise DataError(f"{path}: was changed while it was read: import it when it is "
                                "whole")
            self._folder.commit(writer, self._names[number], identity)

    def _require_same_files(self):
        """Files that were read may not change; those that were not may be mended."""
        for path, pair in zip(self._paths, self._folder.pairs, strict=False):
            now, then = _identity(path), pair["texts"]
            if now != then:
                found = (f"has {now['bytes']} bytes, but had {then['bytes']}"
                         if now["bytes"] != then["bytes"] else "was written again")
                raise DataError(f"{path}: {found} when this import read it: put the file back, or "
                                "remove the folder and import again")

    def _require_same_tokenizer(self):
        """A tokenizer that gives other tokens than before would make a mixture of both."""
        last = len(self._folder.pairs) - 1
        with open_texts(self._paths[last], self._options.column) as texts:
            batch = next(texts.batches(), None)
        if batch is None:
            return
        lengths, tokens = self._tokenizer.tokens_of(batch)
        before = self._folder.begin_of_last(self._options.dtype).read(len(lengths))
        if not all(map(numpy.array_equal, before, (lengths, tokens))):
            raise DataError(f"{batch.places}: tokenizer {self._options.tokenizer} gives other "
                            "tokens than when this import began: give the same tokenizer, or "
                            "remove the folder and import again")


def _identity(path):
    """By which a change of a file is noticed."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}", "NOT_FOUND") from error
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path}: is no file, expected JSON lines or Parquet", "NOT_FOUND")
    return {"bytes": found.st_size, "changed": found.st_mtime_ns}


def _counts(folder, options):
    pairs = len(folder.pairs)
    return (f"{folder.total('documents'):,} documents and {folder.total('tokens'):,} tokens of "
            f"{options.dtype} in {pairs} {'pair' if pairs == 1 else 'pairs'}, "
            f"{folder.total('bin') / 1e6:,.1f} MB")
