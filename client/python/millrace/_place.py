"""Places in the order of examples, as cursors, and places inside of a batch."""

import dataclasses

from .errors import ConfigError, JobError


def cursor(order, epoch, example):
    """The cursor of a place: one line of text."""
    return f"v1,{order}:{epoch}:{example}"


def position(text):
    """The position (epoch, example) of a cursor."""
    _, epoch, example = text.split(":")
    return int(epoch), int(example)


def check_cursor(text, order):
    """Raises what is wrong with a cursor for a session of this order, before anything is left for
    it."""
    form = "expected v1,FINGERPRINT:EPOCH:EXAMPLE, as Session.cursor gives it"
    if not isinstance(text, str):
        raise ConfigError(f"cursor {text!r}: {form}")
    version, _, entry = text.partition(",")
    parts = entry.split(":")
    if version != "v1" or len(parts) != 3 or not all(n.isascii() and n.isdigit()
                                                     for n in parts[1:]):
        raise ConfigError(f"cursor {text[:80]!r}: {form}")
    if parts[0] != order:
        raise JobError(f"the cursor {text} is of another order than the session's, {order}: go on "
                       "with the dataset and the pipeline that it was made with")


def steps_from(spec, example):
    """Steps of an epoch that are left from one of its examples on."""
    left = max(0, spec.examples_per_epoch - example)
    return left // spec.stride + (spec.remainder == "keep" and left % spec.stride != 0)


@dataclasses.dataclass(frozen=True)
class Begun:
    """A batch of which a loop was given some parts, and shall get the others."""

    before: tuple  # position of the batch
    after: tuple  # where the reader is while this holds
    given: int  # parts
    rest: tuple | None  # the others; None: the reader has yet to give the batch
