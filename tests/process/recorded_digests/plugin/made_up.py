"""Sources and functions for the pipelines plugin-*.yaml.

Everything is a function of numbers alone, and exact: integers, and floats that are multiples of a
power of two. What is drawn comes from calls whose values numpy and Python promise to keep.
"""

import pathlib
import random

import numpy as np

__all__ = ["Types", "Sounds", "Noisy", "Careless", "Lines", "letters", "crop", "noise", "careless",
           "ranked", "picked", "spelled", "sums"]


class Unlucky(ValueError):
    """Drops an example."""


def mixed_up(number):
    """A number below 2^32 that has little to do with the given one."""
    number = (number + 1) * 0x9E3779B1 & 0xFFFFFFFF
    return (number ^ number >> 15) * 0x85EBCA6B & 0xFFFFFFFF


def drawn(rng, count):
    """So many multiples of 1/256 below 1."""
    return (rng.bit_generator.random_raw(count) >> np.uint64(56)).astype(np.float64) / 256


class Types:
    """Values of every type."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def spec(self):
        return {
            "u8": "uint8[3]", "u16": "uint16", "u32": "uint32[2, 2]", "u64": "uint64",
            "i8": "int8", "i16": "int16[*]", "i32": "int32[*, 2]", "integers": "int64[*]",
            "truth": "bool[*]", "f16": "float16[2]", "bf16": "bfloat16[2]", "f32": "float32",
            "f64": "float64[*, 1, 2]", "name": "str", "bytes": "bytes[5]"}

    def columns(self):
        return {"weight": [mixed_up(i) % 64 / 64 for i in range(self.size)],
                "kind": [mixed_up(i) % 5 for i in range(self.size)]}

    def __getitem__(self, i):
        n = mixed_up(i)
        many = [mixed_up(n + k) for k in range(n % 7)]
        return {
            "u8": np.array([n % 256, n % 251, i % 256], np.uint8),
            "u16": np.uint16(n % 65536),
            "u32": np.array([[n, i], [i, n]], np.uint32),
            "u64": np.uint64(n << 31),
            "i8": np.int8(n % 256 - 128),
            "i16": np.array([k % 65536 - 32768 for k in many], np.int16),
            "i32": np.array([[k >> 1, -i] for k in many], np.int32).reshape(-1, 2),
            "integers": np.array([i, *many, -n], np.int64),
            "truth": np.array([k % 2 == 0 for k in many], np.bool_),
            "f16": np.array([n % 1024 / 8, -i / 4], np.float16),
            "bf16": np.array([n % 65536, 0x3F80 + i], np.uint16),
            "f32": np.float32(n % 4096 / 64),
            "f64": np.array([k / 4 for k in 2 * many], np.float64).reshape(-1, 1, 2),
            "name": f"example {i}" * (n % 3),
            "bytes": b"%05d" % (n % 100000),
        }


class Sounds:
    """Rows of pairs, many examples at once."""

    def __init__(self, size, scale=1):
        self.size = size
        self.scale = scale

    def __len__(self):
        return self.size

    def spec(self):
        return {"features": "float32[*, 2]", "label": "int64"}

    def frames(self, i):
        return 3 + mixed_up(i) % 17

    def columns(self):
        return {"duration": [self.frames(i) / 16 for i in range(self.size)]}

    def __getitem__(self, i):
        values = np.arange(2 * self.frames(i), dtype=np.float32).reshape(-1, 2)
        return {"features": values * np.float32(self.scale) + np.float32(i), "label": i % 5}

    def __getitems__(self, ids):
        return [self[i] for i in ids]


class Noisy:
    """Gives other values in every epoch, and sometimes none."""

    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def spec(self):
        return {"values": "float64[*]", "epoch": "int64"}

    def example(self, i, epoch, rng):
        if i % 13 == 5:
            raise Unlucky(f"example {i}")
        return {"values": drawn(rng, 1 + i % 6), "epoch": epoch}


class Careless:
    """Draws from generators that belong to nobody."""

    def __len__(self):
        return 40

    def spec(self):
        return {"values": "float64[2]"}

    def __getitem__(self, i):
        return {"values": np.array([random.random(), np.random.random_sample()])}


class Lines:
    """The numbers in the lines of the files of a folder."""

    def __init__(self, folder):
        files = sorted(pathlib.Path(folder).glob("*.txt"))
        self.lines = [line for path in files for line in path.read_text().splitlines()]

    def __len__(self):
        return len(self.lines)

    def spec(self):
        return {"numbers": "int32[*]"}

    def __getitem__(self, i):
        return {"numbers": np.array(self.lines[i].split(), np.int32)}


def letters(text):
    """How often each letter comes."""
    folded = np.frombuffer(bytes(text).lower(), np.uint8)
    return np.array([(folded == 97 + k).sum() for k in range(26)], np.uint16)


def crop(features, rng, size):
    begin = int(rng.bit_generator.random_raw() % max(1, len(features) - size + 1))
    return {"features": features[begin:begin + size], "begin": begin}


def noise(tactic, rng):
    return drawn(rng, 3).astype(np.float32) + np.float32(tactic)


def careless(number):
    return random.random() + np.random.random_sample() + number


def ranked(numbers, lists, rngs):
    """Of a whole batch: the place of each row, the rows' lists sorted, and a draw for each row."""
    order = np.argsort(numbers, kind="stable")
    rank = np.empty(len(numbers), np.int64)
    rank[order] = np.arange(len(numbers))
    return {"rank": rank, "sorted": [np.sort(row) for row in lists],
            "drawn": np.array([drawn(rng, 1)[0] for rng in rngs])}


def picked(values, number):
    if number % 11 == 0:
        raise Unlucky(f"number {number}")
    return values[::1 + abs(int(number)) % 3]


def spelled(numbers):
    """The decimal digits of whole numbers, and two weights for each."""
    whole = [abs(int(number)) for number in numbers]
    if whole and whole[0] % 17 == 0:
        raise Unlucky(f"begins with {whole[0]}")
    digits = [int(digit) for number in whole for digit in str(number)]
    return {"digits": np.array(digits, np.uint16),
            "weights": np.array([[k, digit / 4] for k, digit in enumerate(digits)],
                                np.float32).reshape(-1, 2)}


def sums(labels, segments):
    """The sum of the labels of each piece of a row."""
    return np.array([labels[segments == k + 1].sum() for k in range(max(segments, default=0))],
                    np.int64)
