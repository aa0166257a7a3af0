"""The memory that a process of a plugin shares with its daemon, and how values get into it.

The daemon lays out a reply and says where each part lies (server/plugin/reply/reply_layout.h):

    0         64-bit words: the row in work; whether one call builds all rows; how many of the first
              rows are complete
    outcomes  a byte a row
    table     of each ragged tensor two numbers a row: where its values lie, and its first extent
    columns   of each dense tensor its values, row after row
    heap      the values of ragged tensors, in the order in which they come

Values are copied at once, so a plugin may use its own arrays again for the next example. Small ones
are copied into `bytes`, which go to the memory many rows at a time, because that takes half of the
time.

Needs Python 3.8 and numpy 1.22, and nothing of Millrace.
"""

import mmap
import os
import sys

import numpy as np

PAGE = 4096
ROW, AT_ONCE, COMPLETE = 0, 1, 2  # words
SMALL = 4096  # bytes up to which values of several rows are collected
WINDOW = 256  # rows whose small values are collected


class WrongValue(Exception):
    """A value that is not what its tensor was declared to be. The text says both."""


class Memory:
    """Shared memory that this process writes and enlarges, and that never shrinks."""

    def __init__(self, file):
        self.file = file
        self.size = 0
        self.position = 0  # of the heap: where the next value goes
        self.bytes = None  # a memoryview of everything
        self.words = None  # the same as 64-bit numbers
        self.array = None  # the same as an array of uint8
        self.grow(PAGE)

    def grow(self, size):
        """Makes room for `size` bytes. Earlier views stay good: they show the same memory."""
        if size > self.size:
            size = (max(size, 2 * self.size) + PAGE - 1) // PAGE * PAGE
            if os.fstat(self.file).st_size < size:
                os.ftruncate(self.file, size)
            pages = mmap.mmap(self.file, size)
            self.size = size
            self.bytes = memoryview(pages)
            self.words = self.bytes.cast("Q")
            self.array = np.frombuffer(pages, np.uint8)

    def replaced_by(self, file):
        """Other memory, in place of this one, which the daemon goes on reading."""
        os.close(self.file)
        return Memory(file)

    def take(self, size):
        """Room on the heap, at a multiple of 8 bytes. Returns where it lies."""
        begin = self.position
        self.position = (begin + size + 7) & ~7
        self.grow(self.position)
        return begin

    def append(self, array):
        """Copies an array to the heap, and returns where it lies."""
        begin = self.take(array.nbytes)
        target = self.array[begin:begin + array.nbytes].view(array.dtype)
        target.reshape(array.shape)[...] = array
        return begin


class Tensor:
    """The declared type of a tensor. `inner` are its fixed extents; a ragged one has one before."""

    def __init__(self, declared):
        self.name = declared["name"]
        self.text = declared["type"]
        self.ragged = declared["ragged"]
        self.inner = tuple(declared["inner"])
        self.bfloat = declared["dtype"] == "bfloat16"  # numpy has no such type
        self.dtype = np.dtype("uint16" if self.bfloat else declared["dtype"])
        self.rank = len(self.inner) + self.ragged
        self.unit = self.dtype.itemsize * int(np.prod(self.inner, dtype=np.int64))
        self.is_text = self.rank == 1 and self.dtype == np.uint8
        self.is_bool = self.dtype == np.bool_

    def array(self, value):
        """The value as an array of exactly this type, or WrongValue."""
        array = as_array(value, self)
        if self.ragged and array.size == 0 and array.shape == (0,):
            array = array.reshape((0,) + self.inner)  # an empty list
        good = array.ndim == self.rank and array.shape[self.rank - len(self.inner):] == self.inner
        if not good or array.dtype != self.dtype:
            raise self.wrong(describe(value, array))
        # A byte of a bool may be something else than 0 and 1, for example in a view.
        return np.not_equal(array.view(np.uint8), 0) if self.is_bool and array.ndim else array

    def wrong(self, found):
        return WrongValue('tensor "%s": %s, expected %s' % (self.name, found, self.text))


class DenseColumn(Tensor):
    """Has the same extents in every row; the rows lie one after another."""

    def __init__(self, declared):
        super().__init__(declared)
        self.whole = Tensor({**declared, "ragged": True, "type": self.text + " in every row"})
        self.pending = []  # the rows of the window that are not in the memory yet
        self.small_shape = self.inner if self.unit <= SMALL and not self.is_bool else None
        self.limits = None
        if not self.inner and self.dtype.kind in "iu" and not self.bfloat:
            limits = np.iinfo(self.dtype)
            self.limits = int(limits.min), int(limits.max)

    def place(self, memory, place, rows):
        column = memory.array[place:place + rows * self.unit].view(self.dtype)
        self.column = column.reshape((rows,) + self.inner)
        self.pending.clear()

    def put(self, row, value):
        if type(value) is int and self.limits is not None:
            if not self.limits[0] <= value <= self.limits[1]:
                raise self.wrong("%d is out of range" % value)
            self.pending.append(value.to_bytes(self.unit, "little", signed=self.limits[0] < 0))
        elif self.unit <= SMALL:
            self.pending.append(self.array(value).tobytes())
        else:
            self.column[row] = self.array(value)

    def forget(self, count):
        """Drops what was put after the first `count` rows of the window."""
        del self.pending[count:]

    def flush(self, rows):
        """Writes the window; `rows` are the rows that were put, or a slice of them."""
        if self.pending:
            values = np.frombuffer(b"".join(self.pending), self.dtype)
            self.column[rows] = values.reshape((-1,) + self.inner)
            self.pending.clear()

    def put_all(self, values, rows):
        """Stores an array whose first axis are the rows, or a list with a value a row."""
        if isinstance(values, (list, tuple)):
            check_length(self, values, rows)
            for row, value in enumerate(values):
                self.put(row, value)
        else:
            array = self.whole.array(values)
            check_length(self, array, rows)
            self.column[...] = array


class RaggedColumn(Tensor):
    """Has a first extent of its own in every row."""

    def __init__(self, declared):
        super().__init__(declared)
        self.pending = []  # of the rows of the window; empty where a value is large
        self.extents = []  # of the same rows
        self.large = {}    # where the large ones of them lie
        # Arrays of this rank need no look at their inner extents.
        self.small_rank = -1 if self.inner or self.is_bool else 1

    def place(self, memory, place, rows):
        self.memory = memory
        self.table = memory.array[place:place + 16 * rows].view(np.uint64).reshape(rows, 2)
        self.forget(0)

    def put(self, row, value):
        array = self.array(value)
        if array.nbytes <= SMALL:
            self.pending.append(array.tobytes())
        else:
            self.large[len(self.pending)] = self.memory.append(array)
            self.pending.append(b"")
        self.extents.append(len(array))

    def forget(self, count):
        del self.pending[count:]
        del self.extents[count:]
        self.large.pop(count, None)
        if not count:
            self.large.clear()

    def flush(self, rows):
        if not self.pending:
            return
        data = b"".join(self.pending)
        begin = self.memory.take(len(data))
        self.memory.bytes[begin:begin + len(data)] = data
        sizes = np.fromiter(map(len, self.pending), np.uint64, len(self.pending))
        places = np.cumsum(sizes) - sizes + np.uint64(begin)
        for row, place in self.large.items():
            places[row] = place
        self.table[rows, 0] = places
        self.table[rows, 1] = self.extents
        self.forget(0)

    def put_all(self, values, rows):
        if not isinstance(values, (list, tuple)):
            raise self.wrong("%s, where a list with an array a row is due" % type(values).__name__)
        check_length(self, values, rows)
        for row, value in enumerate(values):
            self.put(row, value)


def check_length(tensor, values, rows):
    if len(values) != rows:
        raise tensor.wrong("%d rows in place of %d" % (len(values), rows))


def make_column(declared):
    return (RaggedColumn if declared["ragged"] else DenseColumn)(declared)


def as_array(value, tensor):
    """Turns arrays, numbers, lists, texts and CPU tensors into arrays, and nothing else."""
    if isinstance(value, (str, bytes, bytearray)):
        return text_array(value, tensor)
    if isinstance(value, np.ma.MaskedArray):
        raise tensor.wrong("a masked array")
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        return array.view(np.uint16) if tensor.bfloat and array.dtype.name == "bfloat16" else array
    if isinstance(value, (bool, int, float, list, tuple)):
        return number_array(value, tensor)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        if value.device.type != "cpu":
            raise tensor.wrong("a tensor on the device %s" % value.device)
        if value.dtype == torch.bfloat16:
            bits = value.detach().view(torch.int16).numpy()
            return bits.view(np.uint16) if tensor.bfloat else bits
        return value.detach().numpy()
    raise tensor.wrong("a %s is no array" % type(value).__name__)


def text_array(value, tensor):
    if not tensor.is_text or (isinstance(value, str) and not tensor.ragged):
        raise tensor.wrong("a %s" % type(value).__name__)
    if isinstance(value, str):
        try:
            value = value.encode()
        except UnicodeEncodeError as error:
            raise tensor.wrong("a str that is no UTF-8 (%s)" % error.reason) from None
    return np.frombuffer(value, np.uint8)


def number_array(value, tensor):
    """Plain numbers have no type of their own: they take the tensor's if it holds them exactly."""
    leaf = value
    while isinstance(leaf, (list, tuple)) and leaf:
        leaf = leaf[0]
    try:
        array = np.asarray(value)
    except ValueError:  # lists of different lengths
        array = None
    if array is None or array.dtype == object:
        raise tensor.wrong("a %s that is no array of numbers" % type(value).__name__)
    if array.size == 0:
        return array.astype(tensor.dtype)
    if type(leaf) in (bool, int, float):
        return exact_array(array, tensor)
    return array


def exact_array(array, tensor):
    kind, dtype = array.dtype.kind, tensor.dtype
    wanted = "f" if tensor.bfloat else dtype.kind
    if wanted in "iu" and kind in "iu":
        limits = np.iinfo(dtype)
        for number in (int(array.min()), int(array.max())):
            if not limits.min <= number <= limits.max:
                raise tensor.wrong("%d is out of range" % number)
        return array.astype(dtype)
    if wanted != "f" or kind not in "iuf":
        return array  # the types differ, which is reported with the extents
    with np.errstate(over="ignore"):
        narrow = array.astype(np.float32 if tensor.bfloat else dtype)
    bits = narrow.view(np.uint32) if tensor.bfloat else None
    if bits is not None:
        narrow = (bits & 0xFFFF0000).view(np.float32)
    for number, kept in zip(array.ravel().tolist(), narrow.ravel().tolist()):
        if number != kept and number == number:
            raise tensor.wrong("%r is not exact in this type; give an array of it" % number)
    return narrow if bits is None else (bits >> 16).astype(np.uint16)


def describe(value, array):
    """What was found, with the type of the original."""
    dtype = getattr(value, "dtype", array.dtype)
    shape = ", ".join(str(extent) for extent in array.shape)
    text = "%s[%s]" % (str(dtype).replace("torch.", ""), shape) if array.ndim else str(dtype)
    return text if isinstance(value, np.ndarray) else "a %s: %s" % (type(value).__name__, text)
