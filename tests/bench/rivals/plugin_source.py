"""The sources that bench_plugins and its rivals read: examples of about 500 B and of 260 kB."""

import numpy as np

__all__ = ["Source"]

SIZES = {"small": 100, "large": 65000}  # values of x on average


class Source:
    """Slices of one array, as a data set that lies in memory gives them."""

    def __init__(self, size):
        mean = SIZES[size]
        self.values = np.random.default_rng(0).random(4 * mean, np.float32)
        self.lengths = np.random.default_rng(1).integers(mean * 9 // 10, mean * 11 // 10, 4096)
        self.labels = np.random.default_rng(2).random((4096, 20), np.float32)
        self.lengths = self.lengths.tolist()

    def __len__(self):
        return 4096

    def spec(self):
        return {"x": "float32[*]", "y": "float32[20]", "n": "int64"}

    def __getitem__(self, i):
        return {"x": self.values[i % 50:i % 50 + self.lengths[i]], "y": self.labels[i], "n": i}
