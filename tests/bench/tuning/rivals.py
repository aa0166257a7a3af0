"""Runs the rivals on the same loads."""

import pathlib

import course
from ours import follow
from processes import Process

HERE = pathlib.Path(__file__).resolve().parent
WORKERS = (0, 1, 2, 4)  # of torch's DataLoader


class Rivals:
    def __init__(self, options, folder, arrays, datasets):
        self._options, self._folder = options, folder
        self._arrays, self._datasets = arrays, datasets
        self._count = 0
        self._best = {}  # source -> workers

    def names(self):
        return [name for name, python in (("tf.data", self._options.tensorflow),
                                          ("torch", self._options.torch)) if python]

    def measure(self, name, load, times, seconds, workers=None, disturbed=None):
        self._count += 1
        folder = self._folder / f"rival-{self._count}-{load.name}"
        folder.mkdir()
        python, script = {"tf.data": (self._options.tensorflow, "tfdata.py"),
                          "torch": (self._options.torch, "torchdata.py")}[name]
        command = [python, HERE / script, "--source", load.source, "--batch", load.batch,
                   "--milliseconds", load.milliseconds, "--seconds", seconds, "--schedule",
                   course.schedule(load, times)]
        if load.source in self._arrays:
            command += ["--file", self._arrays[load.source]]
        if load.source == "records":
            command += ["--folder", self._datasets["records"]]
        if workers is not None:
            command += ["--workers", workers]
        process = Process(name, command, folder / "log")
        try:
            follow(process, seconds, disturbed, folder)
            return course.Course.of(name, process)
        finally:
            process.close()

    def workers(self, load, times, log):
        """The best number of workers: the fewest with which the loop loses no more than half a percent
        above the least, since every worker holds batches. Without workers the loop makes its batches
        itself: none is held ahead, so there is no memory to compare. Searched for once for each
        source."""
        key = load.source
        if key not in self._best:
            found = {}
            for workers in WORKERS:
                told = self.measure("torch", load, times, times.search, workers)
                found[workers] = told.lost(times.search * 0.3, told.end())
                log(f"torch with {workers} workers loses {found[workers]:.1%}")
            ahead = {workers: lost for workers, lost in found.items() if workers > 0}
            least = min(ahead.values())
            self._best[key] = min(w for w, lost in ahead.items() if lost <= least + 0.005)
        return self._best[key]
