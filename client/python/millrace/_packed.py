"""The pieces of documents that a row of a batch is made of, if the pipeline packs documents."""

from ._host import values

_OF_PIECES = {"document": "pack.documents", "begin": "pack.begins", "length": "pack.lengths"}
# The plan's facts about the pieces of a row, in a batch or not.
_PLANNED = ("elements", "documents", "begins", "lengths")


def pieces(batch, row):
    """Those of a row of a batch, as its tensors say. None if it does not have these tensors."""
    if not all(path in batch for path in _OF_PIECES.values()):
        return None
    columns = [_row_of(batch, path, row) for path in _OF_PIECES.values()]
    if None in columns:
        return None
    return [dict(zip(_OF_PIECES, piece, strict=True)) for piece in zip(*columns, strict=True)]


def without_planned(origin):
    """The origin of a row, without what `pieces` says better."""
    return {key: value for key, value in origin.items() if key not in _PLANNED}


def _row_of(batch, path, row):
    """The numbers of a row of a ragged tensor, also if `pad` has made it dense. None if padding
    cannot be told apart."""
    tensor = batch[path]
    if tensor.splits:
        splits = values(batch[tensor.splits])
        return values(tensor)[splits[row]:splits[row + 1]].tolist()
    lengths = f"{path}.length"
    return values(tensor).tolist()[row][:values(batch[lengths])[row]] if lengths in batch else None
