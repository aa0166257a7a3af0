"""What does not survive pickle: the errors say what to do instead."""

import copyreg

from ._core import Batch, Tensor
from .errors import ConfigError


class OfThisProcess:
    """Base of what belongs to a session. Pickling raises ConfigError."""

    def __reduce__(self):
        raise ConfigError("a session cannot be pickled, because it belongs to its process: open a "
                          "session of its own in each process; a checkpoint takes its state_dict()")


def _refuse(what):
    raise ConfigError(f"a {type(what).__name__} cannot be pickled or copied, because its memory is "
                      "used again for a later batch: copy the tensors that have to stay, with "
                      ".numpy().copy() or .torch().clone(); batches of a session with packed=True "
                      "have save(path)")


copyreg.pickle(Batch, _refuse)
copyreg.pickle(Tensor, _refuse)
