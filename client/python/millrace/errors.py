"""The exceptions of Millrace. Each has a `code`: gRPC's name of the status that it stands for.

    Error
    ├── ConfigError          an option, a key, a path or a version cannot be used
    ├── ConnectionError      no dispatcher or worker answers
    ├── JobError             the dispatcher refuses or ends the session: an impossible pipeline,
    │                        other fingerprints, a rank that is taken, a newer session
    ├── DataError            a file of the dataset is damaged
    ├── ResourceError        memory, disk or a limit is used up
    ├── Cancelled            the session was cancelled or closed
    └── InternalError        none of the above: please report it
"""

import builtins


class Error(Exception):
    """Base of all errors of Millrace."""

    code = "UNKNOWN"

    def __init__(self, message, code=None):
        super().__init__(message)
        if code is not None:
            self.code = code


class ConfigError(Error, ValueError):
    """An option, a key, a path or a version cannot be used."""

    code = "INVALID_ARGUMENT"


class ConnectionError(Error, builtins.ConnectionError):  # noqa: A001
    """No dispatcher or worker answers."""

    code = "UNAVAILABLE"


class JobError(Error):
    """The dispatcher refuses or ends the session: an impossible pipeline, other fingerprints,
    another world size, a newer session."""

    code = "FAILED_PRECONDITION"


class DataError(Error):
    """A file of the dataset is damaged, a batch does not keep to its spec, or an operation of the
    pipeline cannot take a value."""

    code = "DATA_LOSS"


class ResourceError(Error):
    """Memory, disk or a limit is used up."""

    code = "RESOURCE_EXHAUSTED"


class Cancelled(Error):
    """The session was cancelled or closed."""

    code = "CANCELLED"


class InternalError(Error):
    """A mistake in Millrace itself; please report it."""

    code = "INTERNAL"


_CLASSES = {
    "INVALID_ARGUMENT": ConfigError,
    "NOT_FOUND": ConfigError,
    "ALREADY_EXISTS": ConfigError,
    "PERMISSION_DENIED": ConfigError,
    "UNAUTHENTICATED": ConfigError,
    "OUT_OF_RANGE": ConfigError,
    "UNIMPLEMENTED": ConfigError,
    "UNAVAILABLE": ConnectionError,
    "DEADLINE_EXCEEDED": ConnectionError,
    "FAILED_PRECONDITION": JobError,
    "ABORTED": JobError,
    "DATA_LOSS": DataError,
    "RESOURCE_EXHAUSTED": ResourceError,
    "CANCELLED": Cancelled,
}


def make(code, message):
    """The exception for a status of the compiled part."""
    return _CLASSES.get(code, InternalError)(message, code)
