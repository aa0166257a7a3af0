"""The arguments of `millrace import` for graphs."""

import argparse
import json
import os
import re

from ...errors import ConfigError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_UNITS = {"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10,
          "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_DTYPES = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16",
           "uint32")

EDGES = ("parquet", "edges")
PACKAGES = ("graphbolt", "ogb")


def add(sources):
    """Adds the sources of graphs to the subparsers of the command."""
    parquet = _add_edges(sources, "parquet",
                         "edges of Parquet files into a graph dataset; needs pyarrow")
    parquet.add_argument("files", nargs="+", metavar="EDGES",
                         help="files, or folders of *.parquet; read by the bytes of their names")
    edges = _add_edges(sources, "edges", "edges of text files into a graph dataset: a line for "
                       "each edge, columns between tabs, spaces or commas, comments after # or %%; "
                       "also with gzip")
    edges.add_argument("files", nargs="+", metavar="FILE",
                       help="files or folders; read by the bytes of their names")
    edges.add_argument("--header", action="store_true",
                       help="the first line of each file names the columns; otherwise a COLUMN is "
                       "its number, from 1 on")
    graphbolt = _add(sources, "graphbolt", "an OnDiskDataset of GraphBolt as a graph dataset")
    graphbolt.add_argument("folder", metavar="FOLDER", help="with metadata.yaml; files are linked")
    ogb = _add(sources, "ogb", "a dataset of the Open Graph Benchmark as a graph dataset; needs ogb")
    ogb.add_argument("name", metavar="NAME", help="such as ogbn-arxiv or ogbg-molhiv")
    ogb.add_argument("--root", default="dataset", metavar="DIR",
                     help="where ogb keeps its data (default: %(default)s)")


def _add(sources, name, help_text):
    source = sources.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
    source.add_argument("--to", required=True, metavar="DIR", help="folder to write to: new or empty")
    return source


def _add_edges(sources, name, help_text):
    source = sources.add_parser(name, help=help_text, description=help_text.replace("%%", "%"),
                                allow_abbrev=False)
    add_argument = source.add_argument
    add_argument("--to", required=True, metavar="DIR",
                 help="folder to write to: new, empty, or of an import that goes on")
    usual = ("source and target, src and dst, or from and to" if name == "parquet" else
             "1 and 2; with --header those named source and target, src and dst, or from and to")
    add_argument("--source-column", metavar="COLUMN", help="where edges begin")
    add_argument("--target-column", metavar="COLUMN", help=f"where they lead (default: {usual})")
    add_argument("--rows", choices=("source", "target"), default="source",
                 help="what a row has: the edges that begin at its node, which closures follow, or "
                 "those that lead to it, as for message passing (default: %(default)s)")
    add_argument("--undirected", action="store_true",
                 help="add the other direction of every edge that lacks it")
    add_argument("--nodes", type=_nodes, metavar="N",
                 help="how many nodes there are (default: those of --node-array, or one more than "
                 "the largest number)")
    add_argument("--renumber", action="store_true",
                 help="ids of nodes are texts, or integers with gaps: number nodes in the order in "
                 "which they first come; node_names.txt has the ids. Takes about 150 bytes of "
                 "memory for each node, besides --memory")
    add_argument("--edge-label", metavar="COLUMN",
                 help="labels of edges: integers, or texts, which are numbered by their bytes")
    dtype = "" if name == "parquet" else ":DTYPE"
    add_argument("--edge-feature", action="append", default=[], metavar=f"NAME[=COLUMN{dtype}]",
                 type=_parquet_feature if name == "parquet" else _text_feature,
                 help="an array edge_feature/NAME; may be given several times"
                 + ("" if name == "parquet" else " (default: float32)"))
    add_argument("--node-array", action="append", default=[], type=_named, metavar="NAME=FILE.npy",
                 help="an array node_feature/NAME, which is linked, not copied")
    add_argument("--roots", action="append", default=[], type=_named, metavar="NAME=FILE",
                 help="a list of nodes roots/NAME: .npy, or a text with a node on each line")
    add_argument("--memory", type=_bytes, default=1 << 30, metavar="BYTES",
                 help="memory for sorting, such as 300MB or 4GiB, besides about 150 MB for the "
                 "program (default: 1GiB)")
    return source


def kept_arguments(options, files):
    """What has to be the same when an import goes on, by the names that a user knows."""
    kept = {name.replace("_", "-"): value for name, value in vars(options).items()
            if name not in ("to", "memory")}
    kept["files"] = [os.path.abspath(path) for path in files]
    for name in ("node-array", "roots"):
        kept[name] = {one: os.path.abspath(path) for one, path in kept[name]}
    return json.loads(json.dumps(kept))


def input_files(options):
    """The files of edges, ordered by the bytes of their names. A folder stands for those in it that
    end in .parquet, or for all of a folder of texts."""
    found = []
    for path in options.files:
        if os.path.isdir(path):
            inside = [os.path.join(path, name) for name in os.listdir(path)
                      if not name.startswith((".", "_"))
                      and (options.source != "parquet" or name.endswith(".parquet"))]
            if not inside:
                raise ConfigError(f"{path}: the folder has no files to import", "NOT_FOUND")
            found += inside
        else:
            found.append(path)
    found.sort(key=os.fsencode)
    for one, other in zip(found, found[1:], strict=False):
        if one == other:
            raise ConfigError(f"{one}: is named twice")
    return found


def _nodes(text):
    if not text.isdecimal() or not 0 <= int(text) < (1 << 48) - 1:
        raise argparse.ArgumentTypeError(f"expected a number of nodes, got '{text}'")
    return int(text)


def _bytes(text):
    """As the options of millraced that are bytes."""
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z]*)", text)
    unit = _UNITS.get(match[2]) if match else None
    if unit is None or ("." in match[1] and unit == 1) or not 1 <= float(match[1]) * unit <= 1e18:
        raise argparse.ArgumentTypeError(f"expected bytes, such as 4096, 300MB or 4GiB, got '{text}'")
    return int(float(match[1]) * unit)


def _named(text):
    name, equals, path = text.partition("=")
    if not (equals and path):
        raise argparse.ArgumentTypeError(f"expected NAME=FILE, got '{text}'")
    return _array_name(name), path


def _parquet_feature(text):
    name, equals, column = text.partition("=")
    return _array_name(name), column if equals else name, None


def _text_feature(text):
    name, _, column = text.partition("=")
    column, colon, dtype = column.partition(":")
    if colon and dtype not in _DTYPES:
        raise argparse.ArgumentTypeError(f"expected a type of {', '.join(_DTYPES)}, got '{dtype}'")
    return _array_name(name), column or name, dtype or None


def _array_name(name):
    if not _NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"expected a name of letters, digits and _, got '{name}'")
    return name
