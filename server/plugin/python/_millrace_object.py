"""The object of a plugin: finding it, constructing it, what is to be said of it, and calling it.

Needs Python 3.8 and numpy 1.22, and nothing of Millrace.
"""

import inspect
import os
import sys
import traceback

import numpy as np

OURS = os.path.dirname(os.path.abspath(__file__)) + os.sep
LONGEST_TEXT = 8192  # bytes of a message or traceback that are kept
UNPRINTABLE = {code: "\\x%02x" % code for code in [*range(32), 127] if chr(code) not in "\n\t"}


class PluginError(Exception):
    """What is wrong with a plugin, said to its author. No traceback is needed."""


def clean(text):
    """A text that can be printed whole, and not too long: of a traceback the end says most."""
    text = text.encode("utf-8", "replace").decode().translate(UNPRINTABLE)
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return text[:half] + "\n[%d characters left out]\n" % (len(text) - 2 * half) + text[-half:]


def drop_our_frames(shown):
    """Leaves the frames of the plugin in a TracebackException, also in those that it came from."""
    todo, seen = [shown], set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(OURS)
                        and not frame.filename.startswith("<frozen importlib")]
        todo += [one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or [])]


class Describer:
    """Describes exceptions, with files named as their author knows them."""

    def __init__(self, copied, original):
        self.copied = copied
        self.original = original

    def describe(self, error):
        try:
            message = str(error)
        except BaseException:  # the plugin's own __str__
            message = "<no message: its __str__ failed>"
        try:
            shown = traceback.TracebackException(type(error), error, error.__traceback__)
            drop_our_frames(shown)
            text = "".join(shown.format())
            only = "".join(shown.format_exception_only())
            if text == only and not isinstance(error, SyntaxError):
                text = ""  # no frame is the plugin's: type and message say it all
            text = text.rstrip()
        except BaseException:
            text = "<no traceback: it could not be formatted>"
        return {"type": type_name(type(error)), "message": self.name_files(message),
                "traceback": self.name_files(text)}

    def name_files(self, text):
        return clean(text.replace(self.copied, self.original))


def type_name(kind):
    return kind.__name__ if kind.__module__ == "builtins" else dotted_name(kind)


def dotted_name(kind):
    return "%s.%s" % (kind.__module__, kind.__qualname__)


def make_is_dropped(names):
    """A function that says whether an exception is one of those that drop an example."""
    names, known = frozenset(names), {}

    def is_dropped(error):
        kind = type(error)
        if kind not in known:
            known[kind] = any(one.__name__ in names or dotted_name(one) in names
                              for one in kind.__mro__)
        return known[kind]

    return is_dropped


def find_object(module, name, kind):
    """The object `name` of the module, if it is one that pipelines may name."""
    where = 'plugin "%s"' % module.__name__
    offered = getattr(module, "__all__", None)
    if not isinstance(offered, (list, tuple)):
        raise PluginError("%s: the module has no __all__, the list of names that pipelines may "
                          "use; expected %r in it" % (where, name))
    if name not in offered:
        raise PluginError("%s: %r is not in __all__, which has %s"
                          % (where, name, ", ".join(map(repr, offered)) or "no names"))
    if not hasattr(module, name):
        raise PluginError("%s: %r is in __all__, but the module does not define it" % (where, name))
    found = getattr(module, name)
    home = getattr(found, "__module__", None)
    if home != module.__name__ and not str(home).startswith(module.__name__ + "."):
        raise PluginError("%s: %r comes from %s; only what the plugin defines itself may be used"
                          % (where, name, home or "elsewhere"))
    if kind == "source" and not inspect.isclass(found):
        raise PluginError("%s: %r is a %s; a source is a class"
                          % (where, name, type(found).__name__))
    if kind == "function" and (inspect.isclass(found) or not callable(found)):
        raise PluginError("%s: %r is a %s, expected a function"
                          % (where, name, type(found).__name__))
    return found


def check_source(where, cls):
    """Whether the class has what a source needs."""
    missing = [name for name in ("__len__", "spec") if not hasattr(cls, name)]
    if not hasattr(cls, "__getitem__") and not hasattr(cls, "example"):
        missing.append("__getitem__ (or example)")
    if missing:
        raise PluginError(
            "%s: the source %s has no %s; a source without random access can be copied by "
            "`millrace import stream`" % (where, cls.__name__, " and no ".join(missing)))


def takes(function, name):
    """Whether a function has an argument of this name."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters


def spec_of(source):
    spec = source.spec()
    if not isinstance(spec, dict) or not spec:
        raise PluginError("spec() gave a %s, expected a dict of names and types"
                          % type(spec).__name__)
    for name, text in spec.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise PluginError("spec(): %r: %r, expected a name and the text of a type"
                              % (name, text))
    return [[clean(name), clean(text)] for name, text in spec.items()]


def columns_of(source):
    """The columns as arrays of int64 or float64; None where values are not known."""
    columns = source.columns() if hasattr(source, "columns") else {}
    if not isinstance(columns, dict):
        raise PluginError("columns() gave a %s, expected a dict" % type(columns).__name__)
    found = {}
    for name, values in columns.items():
        if not isinstance(name, str):
            raise PluginError("columns(): the name %r is no text" % (name,))
        found[name] = None if values is None else column_array(name, values, len(source))
    return found


def column_array(name, values, length):
    array = np.asarray(values)
    kind = array.dtype.kind
    if array.ndim != 1 or kind not in "biuf" and array.size:
        raise PluginError("columns(): %s is %s%s, expected numbers, one an example"
                          % (name, array.dtype, list(array.shape)))
    if len(array) != length:
        raise PluginError("columns(): %s has %d values, and the source has %d examples"
                          % (name, len(array), length))
    if kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise PluginError("columns(): %s: %d is beyond int64" % (name, int(array.max())))
    return array.astype(np.float64 if kind == "f" and array.size else np.int64)


def digest_of(source):
    digest = source.digest() if hasattr(source, "digest") else None
    if isinstance(digest, (bytes, bytearray)):
        digest = digest.hex()
    if digest is not None and not isinstance(digest, str):
        raise PluginError("digest() gave a %s, expected str or bytes" % type(digest).__name__)
    return digest if digest is None else clean(digest)


def environment():
    """Python's minor version, and each installed distribution that a loaded module belongs to."""
    from importlib import metadata  # loads much, and is rarely needed

    loaded = {name.split(".")[0] for name in list(sys.modules)}
    versions = {}
    for distribution in metadata.distributions():
        names = (distribution.read_text("top_level.txt") or "").split()
        if not names:
            names = {os.path.splitext(file.parts[0])[0] for file in distribution.files or []
                     if len(file.parts) > 1 or file.suffix in (".py", ".so")}
            names = {name.split(".")[0] for name in names}
        if not loaded.isdisjoint(names):
            # The first one is the one that Python finds.
            versions.setdefault(distribution.metadata["Name"], distribution.version)
    lines = ["%s %s" % item for item in versions.items()]
    return "\n".join(["python %d.%d" % sys.version_info[:2], *sorted(lines)]) + "\n"


def facts_of(source):
    """What a plan has to know of a source."""
    cls = type(source)
    columns = columns_of(source)
    return {
        "length": len(source),
        "spec": spec_of(source),
        "columns": [[clean(name), None if values is None else values.dtype.name]
                    for name, values in columns.items()],
        "digest": digest_of(source),
        "has_version": hasattr(cls, "version"),
        "uses_chance": hasattr(cls, "example"),
    }


class Chance:
    """Generators whose keys the daemon gives. A generator is good during one call."""

    def __init__(self):
        self.generators = []

    def generator(self, number, key):
        """The generator of Philox(key=key, counter=0). One object is set back again and again,
        because that takes a tenth of the time."""
        while len(self.generators) <= number:
            self.generators.append(np.random.Generator(np.random.Philox(0)))
        generator = self.generators[number]
        generator.bit_generator.state = {
            "bit_generator": "Philox",
            "state": {"counter": np.zeros(4, np.uint64), "key": key},
            "buffer": np.zeros(4, np.uint64), "buffer_pos": 4, "has_uint32": 0, "uinteger": 0}
        return generator

    @staticmethod
    def seed_everything(seeds):
        """Seeds what a plugin may use without being given a generator, each generator with two
        words of its own: two that are of one kind would otherwise draw the same."""
        import random

        (low, high), words, (torch_low, _) = seeds.tolist()
        random.seed(low | high << 64)
        np.random.seed([half for word in words for half in (word & 0xFFFFFFFF, word >> 32)])
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.default_generator.manual_seed(torch_low)
