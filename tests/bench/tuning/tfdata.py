"""Trains on batches of tf.data with AUTOTUNE, for tests/bench/tuning.

A batch is made by one map over whole batches: of TensorFlow's own vectorised operations for
records, of numpy_function for what only Python can do. Parallel calls and prefetch are AUTOTUNE.
Batches held are those that the map has begun and the loop has not taken.
"""

import os
import pathlib

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import loop
import work


def in_python(tf, options):
    """Batches of a source in Python, and a function that says how many were begun."""
    begun = [0]
    source = work.SOURCES[options.source](options.file, options.milliseconds)

    def make(ids):
        begun[0] += 1
        return source.__getitems__(ids)

    types = [tf.as_dtype(array.dtype) for array in source.__getitems__(list(range(options.batch)))]
    data = tf.data.Dataset.range(len(source)).shuffle(len(source)).repeat()
    data = data.batch(options.batch, drop_remainder=True)
    data = data.map(lambda ids: tf.numpy_function(make, [ids], types),
                    num_parallel_calls=tf.data.AUTOTUNE)
    return data, lambda: begun[0]


def of_records(tf, options):
    """The same of records, in TensorFlow's operations over files."""
    import tfdata_records

    begun = tf.Variable(0, dtype=tf.int64)

    def make(records):
        begun.assign_add(1)
        return tfdata_records.chess(tf, records)

    files = sorted(str(f) for f in pathlib.Path(options.folder).glob("*tfrecord*"))
    data = tf.data.TFRecordDataset(files, buffer_size=4 << 20).repeat()
    data = data.batch(options.batch, drop_remainder=True)
    data = data.map(make, num_parallel_calls=tf.data.AUTOTUNE)
    return data, lambda: int(begun.numpy())


def main():
    parser = loop.parser(__doc__)
    work.add_arguments(parser)
    options = parser.parse_args()
    import tensorflow as tf

    data, begun = (of_records if options.source == "records" else in_python)(tf, options)
    taken = 0

    def batches():
        nonlocal taken
        for batch in data.prefetch(tf.data.AUTOTUNE):
            taken += 1
            yield [tensor.numpy() for tensor in batch]

    def held(mean):
        count = max(0, begun() - taken)
        return count, count * mean

    loop.run(batches(), options, held)


if __name__ == "__main__":
    main()
