"""tf.data 2.12: the chess pipeline over TFRecords, in the form that is fastest: batch first, one
vectorised map over whole batches, AUTOTUNE, on one core.

The same tensors as ours (records.cc): a board of float32 [8, 8, 24], ten flags and a
score of each record. tf.data checks both checksums of a record, as we do. Records come in the order
of the files: to shuffle would cost it more.
"""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import measure

A, B, K = 0.9, 50.0, 400.0
PLANES = [0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7, 11, 15, 19, 23]
SIGNS = [1.0] * 6 + [-1.0] * 6 + [1.0] * 6 + [-1.0] * 6


def chess(tf, records):
    """Tensors of a batch of serialized Examples."""
    parsed = tf.io.parse_example(records, {"d": tf.io.FixedLenFeature([], tf.string),
                                           "s": tf.io.FixedLenFeature([], tf.int64)})
    data = tf.io.decode_raw(parsed["d"], tf.uint8, fixed_length=194)
    shifts = tf.constant([7, 6, 5, 4, 3, 2, 1, 0], tf.uint8)
    bits = tf.bitwise.bitwise_and(tf.bitwise.right_shift(data[:, :, None], shifts),
                                  tf.constant(1, tf.uint8))
    bits = tf.reshape(bits, [-1, 1552])
    planes = tf.reshape(bits[:, :1536], [-1, 8, 8, 24])
    board = tf.cast(tf.gather(planes, PLANES, axis=-1), tf.float32) * tf.constant(SIGNS)
    flags = tf.cast(bits[:, 1536:1546], tf.float32)
    mate = tf.cast(bits[:, 1546], tf.bool)
    score = tf.cast(parsed["s"], tf.float64)
    short = tf.maximum(tf.constant(0.0, tf.float64), B - tf.abs(score))
    near = tf.sign(score) * (A + (1 - A) / (B - 1) * short)
    return board, flags, tf.cast(tf.where(mate, near, A * tf.tanh(score / K)), tf.float32)


def main():
    parsed = measure.options(batch=512)
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    import tensorflow as tf

    files = sorted(str(f) for f in pathlib.Path(parsed.data).glob("*tfrecord*"))
    data = tf.data.TFRecordDataset(files, buffer_size=4 << 20).repeat()
    data = data.batch(parsed.batch, drop_remainder=True)
    data = data.map(lambda r: chess(tf, r), num_parallel_calls=tf.data.AUTOTUNE)
    data = data.prefetch(tf.data.AUTOTUNE)
    batches = iter(data)
    meter = measure.Meter(parsed.seconds, one_core=True)
    checked = 0.0
    while meter.take(parsed.batch):
        board, flags, score = next(batches)
        checked += float(score[0]) + board.shape[0] + flags.shape[0]
    measure.emit("records, end to end, tf.data", meter.rate() / 1e6, "M records/s",
                 batch=parsed.batch, checked=f"{checked:.3f}", tensorflow=tf.__version__)


if __name__ == "__main__":
    main()
