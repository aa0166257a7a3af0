"""Sources of examples: Hugging Face datasets, TensorFlow Datasets, and Python functions.

A source has `total`, the number of examples or None if that is not known, and `examples(begin)`, an
iterator of dicts from the example of that number on.
"""

import argparse
import contextlib
import importlib
import inspect
import itertools
import os
import pathlib
import sys

from ..errors import ConfigError


def plugin_folder(text):
    """NAME=PATH of a command line, as name and path."""
    name, equals, path = text.partition("=")
    if not (equals and name and path):
        raise argparse.ArgumentTypeError(f"expected NAME=PATH, got '{text}'")
    return name, path


def find_named(name, plugins=None):
    """What a module has under a name. name: MODULE:FUNCTION. plugins: folders of modules, by name;
    other modules are looked for in the current folder too."""
    module_name, colon, attribute = name.partition(":")
    if not (colon and module_name and attribute):
        raise ConfigError(f"{name}: expected MODULE:FUNCTION")
    folder = (plugins or {}).get(module_name.partition(".")[0], ".")
    sys.path.insert(0, str(pathlib.Path(folder).resolve()))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name.partition(".")[0]:
            raise
        raise ConfigError(f"there is no module {module_name} in {sys.path[0]}; "
                          f"--plugin {error.name}=FOLDER says where it is", "NOT_FOUND") from None
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise ConfigError(f"module {module_name} has no {attribute}", "NOT_FOUND") from None


class FunctionSource:
    """What a function of a module gives, read once from begin to end."""

    def __init__(self, name, plugins=None, arguments=None):
        """name: MODULE:FUNCTION. plugins: folders of modules, by name; other modules are looked for
        in the current folder too. arguments: of the function."""
        self.total = None
        self._name = name
        self._function = find_named(name, plugins)
        self._arguments = arguments or {}
        self._given = None
        if callable(self._function):
            self._check_arguments()
        self._iterable = None

    def _check_arguments(self):
        try:
            signature = inspect.signature(self._function)
        except ValueError:  # that of a compiled function may not be known
            return
        try:
            signature.bind(**self._arguments)
        except TypeError as error:
            raise ConfigError(f"{self._name}: {error}; --args gives its arguments") from None

    def open(self):
        """Calls the function; its errors are the user's."""
        given = self._function(**self._arguments) if callable(self._function) else self._function
        if not hasattr(given, "__iter__"):
            raise ConfigError(f"{self._name}: gave {type(given).__name__}, expected something to "
                              "iterate over, which gives a dict for each example")
        with contextlib.suppress(TypeError, AttributeError):
            self.total = len(given)
        self._iterable = given

    def examples(self, begin):
        return itertools.islice(self._iterable, begin, None)


class HuggingFaceSource:
    """A dataset of the package datasets. Images, audio and video stay as they are encoded."""

    def __init__(self, name, split, streaming=False, revision=None):
        """name: NAME or NAME:CONFIG of a hub, a folder of files, or one that save_to_disk wrote."""
        datasets = _framework("datasets", "Hugging Face datasets", "pip install datasets",
                              has="load_dataset")
        name, _, config = name.partition(":")
        with _opening(name):
            if os.path.isfile(os.path.join(name, "state.json")) or os.path.isfile(
                    os.path.join(name, "dataset_dict.json")):
                dataset = datasets.load_from_disk(name)
            else:
                dataset = datasets.load_dataset(name, config or None, split=split,
                                                streaming=streaming, revision=revision)
        if isinstance(dataset, dict):
            if split not in dataset:
                raise ConfigError(f"{name}: has no split {split}; there are {', '.join(dataset)}",
                                  "NOT_FOUND")
            dataset = dataset[split]
        self._encoded = []
        for feature_name, feature in (dataset.features or {}).items():
            if type(feature).__name__ in ("Image", "Audio", "Video", "Pdf"):
                dataset = dataset.cast_column(feature_name, type(feature)(decode=False))
                self._encoded.append(feature_name)
        self._dataset = dataset.with_format(None)
        self.total = len(dataset) if hasattr(dataset, "__len__") else None

    def examples(self, begin):
        examples = self._dataset
        if self.total is not None:
            if begin >= self.total:
                return
            examples = examples.select(range(begin, self.total))
        elif begin:
            examples = examples.skip(begin)
        for example in examples:
            for name in self._encoded:
                example[name] = _file_bytes(example[name])
            yield example


class TensorFlowSource:
    """A dataset of the package tensorflow_datasets, in the order of its files. Images and such stay
    as they are encoded."""

    def __init__(self, name, split, data_dir=None):
        """name: NAME or NAME:CONFIG."""
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        self._tfds = _framework("tensorflow_datasets", "TensorFlow Datasets",
                                "pip install tensorflow tensorflow-datasets")
        _framework("tensorflow", "TensorFlow Datasets", "pip install tensorflow")
        with _opening(name):
            builder = self._tfds.builder(name.replace(":", "/", 1), data_dir=data_dir)
            builder.download_and_prepare()
            self._dataset = builder.as_dataset(
                split=split, shuffle_files=False, decoders=self._decoders(builder.info.features),
                read_config=self._tfds.ReadConfig(interleave_cycle_length=1))
            self.total = builder.info.splits[split].num_examples

    def examples(self, begin):
        return iter(self._tfds.as_numpy(self._dataset.skip(begin)))

    def _decoders(self, features):
        """Decoders that leave images as they are, for features of a dict."""
        if not hasattr(features, "items"):
            return None
        decoders = {}
        for name, feature in features.items():
            if type(feature).__name__ == "Image":
                decoders[name] = self._tfds.decode.SkipDecoding()
            elif nested := self._decoders(feature):
                decoders[name] = nested
        return decoders or None


def _framework(module, title, install, has=None):
    """The module of a framework. has: what it is known by, because an empty folder of its name would
    also be a module."""
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        found = None
    if found is None or (has and not hasattr(found, has)):
        raise ConfigError(f"{title} need the package {module}, which is not installed in "
                          f"{sys.executable}: {install}", "NOT_FOUND")
    return found


@contextlib.contextmanager
def _opening(name):
    """Errors of a framework have no type of their own, and are about what the user named."""
    try:
        yield
    except Exception as error:
        raise ConfigError(f"{name} cannot be opened: {type(error).__name__}: {error}",
                          "NOT_FOUND") from error


def _file_bytes(value):
    """The bytes of {"bytes": …, "path": …}."""
    if value is None or value["bytes"] is not None:
        return value and value["bytes"]
    return pathlib.Path(value["path"]).read_bytes()
