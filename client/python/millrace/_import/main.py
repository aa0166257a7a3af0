"""The command `millrace import`. The program millrace runs it with the words that follow."""

import argparse
import contextlib
import errno
import json
import os
import sys
import traceback

from ..errors import ConfigError, Error, ResourceError
from .feed import ExampleFeed, Limits, RecordFeed, SourceFailed
from .folder import Folder
from .graph import options as graph_options
from .progress import Progress
from .sources import plugin_folder
from .tokens import options as tokens_options

_EXAMPLES = """Examples:
  millrace import tfrecord old/*.gz --to data
  millrace import hf rotten_tomatoes --split train --to reviews
  millrace import tfds mnist --split train --to digits
  millrace import stream asr_data:utterances --plugin asr_data=/srv/plugins --to speech
  millrace import parquet links.parquet --rows target --to web
  millrace import edges soc-pokec.txt.gz --to friends
  millrace import tokens web.jsonl.gz --tokenizer mine:tokenize --to texts

The folder gets TFRecord files, and the line `source` of a pipeline that reads them is printed; or a
graph dataset; or pairs .bin and .idx of tokens. If an import is interrupted, the same command goes
on.
"""
_AGAIN = "run the same command again to go on after the last whole shard"
_AGAIN_GRAPH = "run the same command again to go on"
_AGAIN_TOKENS = "run the same command again to go on after the last whole file"
# As in client/cli/command.cc: 3 if the data are bad, 2 if the request cannot be met, 1 otherwise.
_EXIT_CODES = {"DATA_LOSS": 3, **dict.fromkeys(
    ("INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
     "FAILED_PRECONDITION"), 2)}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def main(arguments):
    """Runs the command, and gives its exit code."""
    options = _parser().parse_args(arguments)
    again = {"tokens": _AGAIN_TOKENS, **dict.fromkeys(graph_options.EDGES, _AGAIN_GRAPH)}.get(
        options.source, _AGAIN)
    try:
        if options.source in (*graph_options.EDGES, *graph_options.PACKAGES):
            _require_numpy()
            print(_import_graph(options), file=sys.stderr)
            return 0
        if options.source == "tokens":
            _require_numpy()
            print(_import_tokens(options), file=sys.stderr)
            print("source: tokens", flush=True)
            return 0
        line, left_out = _import(options)
        for feature in left_out:
            print(f"not in the source, because no type fits: {feature}", file=sys.stderr)
        print(line, flush=True)
        return 0
    except SourceFailed as error:
        _print_own_traceback(error.__cause__)
        return _failed(f"{error}; when that is mended, {again}", 1)
    except ResourceError as error:
        return _failed(f"{error}; make room, and {again}", 1)
    except Error as error:
        return _failed(error, _EXIT_CODES.get(error.code, 1))
    except OSError as error:
        if error.errno in _FULL:
            return _failed(f"{error}; make room, and {again}", 1)
        return _failed(error, 1)
    except KeyboardInterrupt:
        return _failed(f"interrupted; {again}", 1)


def _import_graph(options):
    """What the user is told."""
    from .graph import command, packages

    if options.source in graph_options.EDGES:
        return command.import_edges(options)
    return packages.import_package(options)


def _import_tokens(options):
    """What the user is told."""
    from .tokens import command

    return command.import_tokens(options)


def _import(options):
    """The source line, and why features are not in it."""
    _require_numpy()
    kept = _kept_arguments(options)
    with contextlib.closing(Folder(options.to, kept)) as folder:
        if folder.finished:
            folder.name_shards()
            print(f"{options.to}: is finished: {_counts(folder)}", file=sys.stderr)
            return folder.source
        try:
            feed = _feed(options)
            with Progress(feed.total) as progress:
                feed.start(folder, progress)
                _fill(feed, folder)
        except BaseException:
            if not folder.shards:
                folder.give_up()
            raise
        if not folder.shards:
            folder.give_up()
            raise ConfigError("the source has no example")
        folder.finish(*feed.shapes.source_line())
        print(f"{options.to}: {_counts(folder)}", file=sys.stderr)
        return folder.source


def _fill(feed, folder):
    """Writes shards until the source has ended."""
    ended = False
    while not ended:
        with folder.shard() as file:
            ended = feed.fill(file)
            if file.records:
                folder.commit(file, feed.position, feed.shapes.state())
            else:
                folder.discard(file)


def _feed(options):
    limits = Limits(options.shard_records or 1 << 62, options.shard_bytes)
    if options.source == "tfrecord":
        return RecordFeed(options.files, limits)
    from . import sources

    if options.source == "hf":
        source = sources.HuggingFaceSource(options.name, options.split, options.streaming,
                                           options.revision)
    elif options.source == "tfds":
        source = sources.TensorFlowSource(options.name, options.split, options.data_dir)
    else:
        try:
            source = sources.FunctionSource(options.function, dict(options.plugin), options.args)
            source.open()
        except Error:
            raise
        except Exception as error:
            raise SourceFailed(f"{options.function} raised {type(error).__name__}") from error
    return ExampleFeed(source, limits, options.allow_narrowing, options.features)


def _kept_arguments(options):
    """What has to be the same when an import goes on, by the names that a user knows."""
    kept = {name.replace("_", "-"): value for name, value in vars(options).items() if name != "to"}
    if options.source == "tfrecord":
        kept["files"] = [os.path.abspath(path) for path in options.files]
    if options.source == "stream":
        kept["plugin"] = {name: os.path.abspath(path) for name, path in options.plugin}
    return kept


def _counts(folder):
    shards = len(folder.shards)
    return (f"{folder.examples:,} examples in {shards} {'shard' if shards == 1 else 'shards'}, "
            f"{folder.bytes / 1e6:,.1f} MB")


def _require_numpy():
    try:
        import numpy  # noqa: F401
    except ModuleNotFoundError:
        raise ConfigError(f"millrace import needs numpy, which is not installed in "
                          f"{sys.executable}: pip install numpy", "NOT_FOUND") from None


def _print_own_traceback(error):
    """The user's own frames, as Python shows them, without ours before them."""
    here = os.path.dirname(__file__)
    frames = error.__traceback__
    while frames is not None and (
            frames.tb_frame.f_code.co_filename.startswith((here, "<frozen importlib"))
            or os.path.basename(os.path.dirname(frames.tb_frame.f_code.co_filename)) == "importlib"):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _failed(message, code):
    print(f"millrace: {message}", file=sys.stderr)
    return code


def _parser():
    parser = argparse.ArgumentParser(
        "millrace import", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False, description="Bring data of other frameworks into a dataset of records, "
        "a graph into a graph dataset, or texts into a folder of tokens.")
    sources = parser.add_subparsers(dest="source", metavar="SOURCE", required=True)

    def add(name, help_text):
        source = sources.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
        source.add_argument("--to", required=True, metavar="DIR",
                            help="folder to write to: new, empty, or of an import that goes on")
        source.add_argument("--shard-bytes", type=_count, default=1 << 28, metavar="N",
                            help="a shard ends when it has so many bytes (default: %(default)s)")
        source.add_argument("--shard-records", type=_count, metavar="N",
                            help="a shard ends when it has so many records (default: any number)")
        return source

    def add_examples(name, help_text):
        source = add(name, help_text)
        source.add_argument("--features", type=_names, metavar="A,B",
                            help="only these features (default: all)")
        source.add_argument("--allow-narrowing", action="store_true",
                            help="let float64 be rounded to float32, and uint64 wrap to int64; "
                            "otherwise a value that would change is an error")
        return source

    tfrecord = add("tfrecord", "TFRecord files of tf.train.Example, also compressed ones")
    tfrecord.add_argument("files", nargs="+", metavar="FILE", help="in this order; gzip, zlib or plain")
    tfds = add_examples("tfds", "a dataset of TensorFlow Datasets")
    tfds.add_argument("name", metavar="NAME[:CONFIG]")
    tfds.add_argument("--split", default="train", metavar="S", help="default: %(default)s")
    tfds.add_argument("--data-dir", metavar="DIR", help="where TensorFlow Datasets keeps its data")
    hf = add_examples("hf", "a dataset of Hugging Face's package datasets")
    hf.add_argument("name", metavar="NAME[:CONFIG]", help="of the hub, or a folder")
    hf.add_argument("--split", default="train", metavar="S", help="default: %(default)s")
    hf.add_argument("--revision", metavar="R", help="version of the dataset on the hub")
    hf.add_argument("--streaming", action="store_true", help="do not keep a copy of the download")
    stream = add_examples("stream", "what a Python function gives: a dict for each example")
    stream.add_argument("function", metavar="MODULE:FUNCTION", help="read once, from begin to end")
    stream.add_argument("--plugin", type=plugin_folder, action="append", default=[], metavar="NAME=PATH",
                        help="folder of a module (default: the current one)")
    stream.add_argument("--args", type=_json, default={}, metavar="JSON",
                        help="arguments of the function, as a map of JSON")
    graph_options.add(sources)
    tokens_options.add(sources)
    return parser


def _count(text):
    if not text.isdecimal() or not 1 <= int(text) < 1 << 62:
        raise argparse.ArgumentTypeError(f"expected an integer from 1 on, got '{text}'")
    return int(text)


def _names(text):
    return text.split(",")


def _json(text):
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a map of JSON, got '{text}'")
    return value
