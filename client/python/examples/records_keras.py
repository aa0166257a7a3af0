"""Trains a Keras model on TFRecord files: python records_keras.py FOLDER"""
import sys

import keras

import millrace
import millrace.tf

PIPELINE = {
    "millrace": 1, "dataset": "games", "shuffle": {"seed": 0}, "batch": {"size": 64},
    "source": {"records": {"d": "bytes[194]", "s": "int64"}},
    "tensors": {"bits": {"bits": "d"}, "board": {"cast": "bits", "dtype": "float32"},
                "score": {"expr": "tanh(s / K)", "with": {"K": 400}, "dtype": "float32"}},
    "output": ["board", "score"],
}

with millrace.local({"games": sys.argv[1]}, PIPELINE) as session:
    batches = millrace.tf.dataset(session).map(lambda batch: (batch["board"], batch["score"]))
    model = keras.Sequential([keras.layers.Dense(32, "relu"), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(batches, epochs=2, steps_per_epoch=len(session), verbose=2)
    print("example ids and seeds decide the order; the next run gives the same:", session.cursor)
