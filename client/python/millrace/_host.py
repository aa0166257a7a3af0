"""Reads tensors on the host, wherever they lie."""

from .errors import ConfigError


def values(tensor):
    """The values of a tensor as a memoryview of its memory, or of a copy if it lies on a GPU."""
    if tensor.device == "cpu":
        return memoryview(tensor)
    try:
        return memoryview(tensor.torch().cpu().numpy())
    except ImportError as error:
        raise ConfigError(f"tensor {tensor.path} lies in memory of {tensor.device}: torch, which "
                          f"copies it to the host, is not installed ({error})") from error
