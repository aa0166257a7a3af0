"""Reads and writes TFRecord files and tf.train.Example as their definitions say, byte by byte, to
compare with."""

import struct


def _table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 255] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def frame(record):
    length = struct.pack("<Q", len(record))
    return (length + struct.pack("<I", masked_crc(length)) + record
            + struct.pack("<I", masked_crc(record)))


def records_in(data):
    """The records of a TFRecord file, whose checksums are checked."""
    at, records = 0, []
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked_crc(data[at:at + 8])
        record = data[at + 12:at + 12 + length]
        assert len(record) == length
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked_crc(record),)
        records.append(record)
        at += 16 + length
    return records


def records_of(folder):
    """The records of a dataset, in order."""
    return [record for path in sorted(folder.glob("*.tfrecord"))
            for record in records_in(path.read_bytes())]


def _varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _field(number, data):
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def example(features):
    """An Example in canonical form. A value is a list of bytes, of ints or of floats."""
    entries = b""
    for name, values in sorted(features.items()):
        if isinstance(values[0], bytes):
            feature = _field(1, b"".join(_field(1, value) for value in values))
        elif isinstance(values[0], float):
            feature = _field(2, _field(1, struct.pack(f"<{len(values)}f", *values)))
        else:
            feature = _field(3, _field(1, b"".join(_varint(value) for value in values)))
        entries += _field(1, _field(1, name.encode()) + _field(2, feature))
    return _field(1, entries)
