"""Opens and reads Parquet files with pyarrow, whose errors become ours."""

import os
import sys

from ..errors import ConfigError, DataError

_BUFFER = 1 << 20  # bytes that are read of a column at once


def open_parquet(path, texts=None):
    """A pyarrow.parquet.ParquetFile. texts: columns whose texts come as numbers and a
    dictionary."""
    pyarrow = require_pyarrow("Parquet files")
    try:
        return pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER, read_dictionary=texts,
                                           page_checksum_verification=True)
    except OSError as error:
        if error.errno is not None:
            raise ConfigError(f"{path}: {os.strerror(error.errno)}", "NOT_FOUND") from error
        raise DataError(f"{path}: is no Parquet file, or damaged: {_line(error)}") from error
    except pyarrow.ArrowException as error:
        raise DataError(f"{path}: is no Parquet file, or damaged: {_line(error)}") from error


def guarded(path, batches):
    """The batches. Errors of pyarrow while it reads are about the file."""
    pyarrow = require_pyarrow("Parquet files")
    try:
        yield from batches
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path}: is damaged: {_line(error)}") from error


def require_pyarrow(what):
    """The package pyarrow. what: the files that need it."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise ConfigError(f"{what} need the package pyarrow, which is not installed in "
                          f"{sys.executable}: pip install pyarrow", "NOT_FOUND") from None
    return pyarrow


def _line(error):
    """What an exception says, on one line."""
    return " ".join(str(error).split())
