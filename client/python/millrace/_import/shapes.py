"""What the features of all examples have in common, as the `source` line of a pipeline.

Thread-compatible.
"""

import json
import re

from ..errors import DataError

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class Feature:
    """kind: int64, float32 or bytes. shape: extents of an example; None is one that varies. least,
    most: bytes of a value. wrong: why no source can read it, or None."""

    __slots__ = ("examples", "kind", "least", "most", "shape", "wrong")

    def __init__(self, kind, shape, examples=0, least=None, most=None, wrong=None):
        self.kind = kind
        self.shape = tuple(shape)
        self.examples = examples
        self.least = least
        self.most = most
        self.wrong = wrong

    def note_lengths(self, least, most):
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)


class Shapes:
    """The features by name, and the number of examples."""

    def __init__(self, state=None):
        """`state`: what state() gave in an earlier run."""
        state = state or {"examples": 0, "features": {}, "empty": []}
        self.examples = state["examples"]
        self.features = {name: Feature(**feature) for name, feature in state["features"].items()}
        self._empty = set(state["empty"])  # that had an empty list, which has no type

    def state(self):
        """All of it, for JSON."""
        return {"examples": self.examples, "empty": sorted(self._empty),
                "features": {name: {slot: getattr(feature, slot) for slot in Feature.__slots__}
                             for name, feature in self.features.items()}}

    def note_empty(self, name):
        self._empty.add(name)

    def note(self, name, kind, shape):
        """A feature of an example. Raises DataError, without the number of the example, if no type
        fits this one and those before."""
        feature = self.features.get(name)
        if feature is None:
            name.encode()  # as a record has to hold it
            feature = self.features[name] = Feature(kind, shape)
        elif feature.kind != kind:
            raise DataError(f"{name}: is {kind}, but was {feature.kind} in the examples before")
        elif feature.shape != shape:
            joined = _join(feature.shape, shape)
            if joined is None:
                raise DataError(
                    f"{name}: has the shape {show_shape(shape)}, but {show_shape(feature.shape)} in "
                    "the examples before: only the first extent may vary")
            feature.shape = joined
        feature.examples += 1
        return feature

    def add_records(self, records, found):
        """What FeatureShapes found in many records. A feature that no type fits is never an error:
        the records are what they are."""
        self.examples += records
        for name, one in found.items():
            if len(one["kinds"]) != 1:
                kind, wrong = one["kinds"][0], "is of several kinds: " + ", ".join(one["kinds"])
            else:
                kind, wrong = one["kinds"][0], None
            kind = "float32" if kind == "float" else kind
            least, most = one["values"]
            shape = () if least == most == 1 else (least if least == most else None,)
            feature = self.features.get(name)
            if feature is None:
                feature = self.features[name] = Feature(kind, shape)
            elif feature.kind != kind:
                wrong = f"is of several kinds: {feature.kind}, {kind}"
            elif feature.shape != shape:
                feature.shape = (None,)
            feature.wrong = feature.wrong or wrong
            feature.examples += one["examples"]
            if "bytes" in one:
                feature.note_lengths(*one["bytes"])

    def source_line(self):
        """The `source` of a pipeline that reads the records, and why features are not in it, each
        as a text."""
        entries, left_out, taken = [], [], {name for name in self.features if _WORD.fullmatch(name)}
        for name, feature in self.features.items():
            text, wrong = self._type(feature)
            if wrong is not None:
                left_out.append(f"{name}: {wrong}")
                continue
            long = [f"type: {_quoted(text)}"]
            word = name
            if name not in taken:
                word = _new_word(name, taken)
                taken.add(word)
                long.insert(0, f"feature: {json.dumps(name, ensure_ascii=False)}")
            if "[" not in text and feature.examples < self.examples:
                long.append("default: 0")
            short = len(long) == 1
            entries.append(f"{word}: " + (_quoted(text) if short else f"{{{', '.join(long)}}}"))
        left_out += [f"{name}: is empty in every example" for name in sorted(self._empty)
                     if name not in self.features]
        return f"source: {{records: {{{', '.join(entries)}}}}}", left_out

    def _type(self, feature):
        """The type as a pipeline writes it, and why there is none."""
        sometimes_none = feature.examples < self.examples
        if feature.wrong is not None:
            return "", feature.wrong
        if feature.kind == "bytes":
            if feature.shape != ():
                return "str[*]", None
            fixed = not sometimes_none and feature.least == feature.most and feature.least
            return f"bytes[{feature.least if fixed else '*'}]", None
        if feature.shape == ():
            return feature.kind, None
        first, *inner = feature.shape
        if 0 in inner:
            return "", f"has no values: its shape is {show_shape(feature.shape)}"
        extents = ["*" if sometimes_none or not first else first, *inner]
        return f"{feature.kind}[{', '.join(map(str, extents))}]", None


def show_shape(shape):
    return f"[{', '.join('*' if extent is None else str(extent) for extent in shape)}]"


def _join(known, new):
    """The shape that both have, or None."""
    if known == new:
        return known
    if not known or len(known) != len(new) or known[1:] != new[1:]:
        return None
    return (None, *new[1:])


def _quoted(text):
    """Brackets would end the map that the text stands in."""
    return f'"{text}"' if "[" in text else text


def _new_word(name, taken):
    """A word for a feature whose name is none."""
    word = re.sub(r"[^A-Za-z0-9_]+", "_", name)[:120] or "_"
    word = f"_{word}" if word[0].isdigit() else word
    number, new = 2, word
    while new in taken:
        new, number = f"{word}_{number}", number + 1
    return new
