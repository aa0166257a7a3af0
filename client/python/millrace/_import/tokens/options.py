"""The arguments of `millrace import tokens`."""

import argparse
import json
import os

from ...errors import ConfigError
from ..sources import plugin_folder
from .pair import CODES, most_of

_ENDINGS = (".gz", ".zst", ".jsonl", ".ndjson", ".json", ".parquet")


def add(sources):
    """Adds the source `tokens` to the subparsers of the command."""
    help_text = ("texts of JSON lines or Parquet into a folder of tokens: a pair X.bin and X.idx "
                 "for each file; JSON also with gzip or zstd; Parquet and zstd need pyarrow")
    source = sources.add_parser("tokens", help=help_text, description=help_text, allow_abbrev=False)
    add_argument = source.add_argument
    add_argument("files", nargs="+", metavar="FILE",
                 help="a JSON object on each line, or Parquet, as the content of the file says")
    add_argument("--to", required=True, metavar="DIR",
                 help="folder to write to: new, empty, or of an import that goes on")
    add_argument("--tokenizer", required=True, metavar="MODULE:FUNCTION",
                 help="is given a list of texts, and gives a list of integers for each")
    add_argument("--plugin", type=plugin_folder, action="append", default=[], metavar="NAME=PATH",
                 help="folder of a module (default: the current one)")
    add_argument("--column", default="text", metavar="NAME",
                 help="where the texts are (default: %(default)s)")
    add_argument("--dtype", choices=tuple(CODES), default="uint16",
                 help="type of the tokens (default: %(default)s)")
    add_argument("--eos", type=_token, metavar="N", help="a token behind each text (default: none)")


def kept_arguments(options):
    """What has to be the same when an import goes on, by the names that a user knows."""
    kept = {**vars(options), "files": [os.path.abspath(path) for path in options.files],
            "plugin": {name: os.path.abspath(path) for name, path in options.plugin}}
    del kept["to"]
    return json.loads(json.dumps(kept))


def check(options):
    """Raises if the arguments contradict each other."""
    paths = [os.path.abspath(path) for path in options.files]
    for number, path in enumerate(paths):
        if path in paths[:number]:
            raise ConfigError(f"{options.files[number]}: is named twice: name each file once")
    most = most_of(options.dtype)
    if options.eos is not None and options.eos > most:
        raise ConfigError(f"--eos is {options.eos}, expected 0 to {most} with --dtype "
                          f"{options.dtype}: choose a wider type")


def pair_names(paths):
    """A name X for the pair of each file: that of the file without its endings, and a number where
    another file has it already."""
    names, plain = [], [_plain_name(path) for path in paths]
    for name in plain:
        unique, number = name, 1
        while unique in names or (number > 1 and unique in plain):
            number += 1
            unique = f"{name}-{number}"
        names.append(unique)
    return names


def _plain_name(path):
    """Never hidden, because hidden files are no part of a dataset."""
    name = os.path.basename(path)
    while name.endswith(_ENDINGS):
        name = name[:name.rindex(".")]
    return name.lstrip(".") or "texts"


def _token(text):
    if not text.isdecimal() or int(text) > most_of("int64"):
        raise argparse.ArgumentTypeError(f"expected a token, 0 to {most_of('int64')}, got '{text}'")
    return int(text)
