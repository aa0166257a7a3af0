"""Calls the user's tokenizer, and checks what it gives. Needs numpy."""

import collections.abc
import itertools

import numpy

from ...errors import ConfigError, DataError
from ..feed import SourceFailed
from ..sources import find_named
from .pair import most_of

_WHAT = "expected a list of integers for each text"


class Tokenizer:
    """Not thread-safe."""

    def __init__(self, name, plugins, dtype, eos):
        """name: MODULE:FUNCTION. plugins: folders of modules, by name. eos: a token behind each
        document, or None."""
        self._name, self._dtype, self._eos = name, dtype, eos
        try:
            self._function = find_named(name, plugins)
        except ConfigError:
            raise
        except Exception as error:
            raise SourceFailed(f"the module of tokenizer {name} raised {_said(error)}") from error
        if not callable(self._function):
            raise ConfigError(f"tokenizer {name} is no function but {_type(self._function)}: "
                              "expected one that takes a list of texts, and gives a list of "
                              "integers for each")

    def tokens_of(self, batch):
        """The lengths of a batch's documents, and their tokens, one after another."""
        given = self._call(batch)
        if isinstance(given, (str, collections.abc.Mapping)) or not hasattr(given, "__len__"):
            raise self._wrong(batch.places, f"gave {_type(given)}")
        if len(given) != len(batch.texts):
            raise self._wrong(batch.places, f"gave {len(given)} lists for {len(batch.texts)} texts")
        documents = [self._document(batch, at, ids) for at, ids in enumerate(given)]
        lengths = numpy.array([len(one) for one in documents], numpy.int32)
        tokens = numpy.concatenate(documents)
        self._check_values(batch, lengths, tokens)
        if self._eos is None:
            return lengths, tokens
        ends = numpy.cumsum(lengths, dtype=numpy.int64)
        return lengths + 1, numpy.insert(tokens, ends, self._eos)

    def _call(self, batch):
        try:
            return self._function(list(batch.texts))
        except Exception as error:
            raise self._failed(batch, error) from error

    def _failed(self, batch, error):
        """Names the first text that fails by itself, otherwise all of them."""
        for at, text in enumerate(batch.texts):
            try:
                self._function([text])
            except Exception as own:
                return SourceFailed(f"{batch.place(at)}: tokenizer {self._name} raised "
                                    f"{_said(own)}")
        return SourceFailed(f"{batch.places}: tokenizer {self._name} raised {_said(error)}")

    def _document(self, batch, at, ids):
        """The tokens of one text, as int64."""
        try:
            array = numpy.asarray(ids)
        except (ValueError, TypeError):  # lists of several lengths within it
            array = numpy.empty((0, 0))
        if array.ndim != 1:
            inside = " of lists" if array.ndim > 1 else ""
            raise self._wrong(batch.place(at), f"gave {_type(ids)}{inside}")
        if not array.size or (array.dtype.kind in "iu" and array.dtype != numpy.uint64):
            return array.astype(numpy.int64, copy=False)
        for place, token in enumerate(ids):
            if not isinstance(token, (int, numpy.integer)) or isinstance(token, bool):
                raise self._wrong(batch.place(at), f"gave {repr(token)[:80]} as token {place}")
            self._check_value(batch, at, place, int(token))
        return array.astype(numpy.int64)

    def _check_values(self, batch, lengths, tokens):
        if not len(tokens) or (tokens.min() >= 0 and tokens.max() <= most_of(self._dtype)):
            return
        wrong = int(numpy.flatnonzero((tokens < 0) | (tokens > most_of(self._dtype)))[0])
        ends = numpy.cumsum(lengths, dtype=numpy.int64)
        at = int(numpy.searchsorted(ends, wrong, side="right"))
        self._check_value(batch, at, wrong - int(ends[at] - lengths[at]), int(tokens[wrong]))

    def _check_value(self, batch, at, place, token):
        """place: of the token in its document."""
        most = most_of(self._dtype)
        if 0 <= token <= most:
            return
        wider = next((dtype for dtype in ("uint16", "int32") if token <= most_of(dtype)), None)
        advice = f": --dtype {wider} has room for it" if wider and token > most else ""
        raise DataError(f"{batch.place(at)}: token {place} is {token}, expected 0 to {most} with "
                        f"--dtype {self._dtype}{advice}")

    def _wrong(self, place, what):
        return DataError(f"{place}: tokenizer {self._name} {what}, {_WHAT}")


def _type(value):
    return type(value).__name__


def _said(error):
    """The type of an exception, and its first line."""
    text = next(itertools.chain(str(error).splitlines(), [""]))
    return f"{_type(error)}: {text[:200]}" if text else _type(error)
