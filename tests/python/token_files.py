"""Folders of tokens whose documents are known, and attention as a language model computes it."""

import struct

import numpy

_CODES = {"uint8": 1, "uint16": 8, "int32": 4}


def write_pairs(folder, documents, dtype="uint16", files=2):
    """Writes pairs of .bin and .idx as Megatron-LM does, with equally many documents each."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(numpy.array_split(numpy.arange(len(documents)), files)):
        own = [numpy.asarray(documents[i], dtype) for i in part]
        (folder / f"part-{number}.bin").write_bytes(b"".join(map(bytes, own)))
        lengths = numpy.array([len(document) for document in own], "<i4")
        begins = numpy.cumsum([0, *lengths[:-1]], dtype="<i8") * numpy.dtype(dtype).itemsize
        (folder / f"part-{number}.idx").write_bytes(
            struct.pack("<9sQBQQ", b"MMIDIDX\0\0", 1, _CODES[dtype], len(own), len(own) + 1)
            + lengths.tobytes() + begins[:len(own)].tobytes()
            + numpy.arange(len(own) + 1, dtype="<i8").tobytes())
    return folder


def some_documents(count, longest=40, vocabulary=50, seed=3):
    """Documents of different lengths, some of them empty. A token mostly follows from the one
    before it, so that a model can learn them."""
    draw = numpy.random.default_rng(seed)
    documents = []
    for length in draw.integers(0, longest, count):
        noise = draw.random(length) < 0.1
        document, token = [], int(draw.integers(vocabulary))
        for wild in noise:
            token = int(draw.integers(vocabulary)) if wild else (5 * token + 1) % vocabulary
            document.append(token)
        documents.append(document)
    return documents
