"""What a measurement was like, second by second."""

import dataclasses

from processes import Failed


def schedule(load, times):
    """The loop's schedule as loop.py reads it."""
    return ",".join(f"{i * times.part}:{step}" for i, step in enumerate(load.steps))


@dataclasses.dataclass
class Course:
    name: str
    seconds: list  # lines of loop.py, one a second
    # Ours alone have these: seconds since the first batch, and what was seen then.
    statuses: list = dataclasses.field(default_factory=list)  # `millrace status` as JSON
    memory: list = dataclasses.field(default_factory=list)    # bytes of the daemon
    explained: str = ""  # `millrace tune --explain`

    @staticmethod
    def of(name, process):
        seconds = [line for line in process.lines if "batches" in line]
        if not seconds:
            raise Failed(f"{name}: it printed nothing; see {process.log}")
        return Course(name, seconds)

    def _part(self, begin, end):
        part = self.seconds[int(begin):int(end)]
        if not part:
            raise Failed(f"{self.name}: only {len(self.seconds)} s were measured")
        return part

    def _mean(self, what, begin, end):
        part = self._part(begin, end)
        return sum(second[what] for second in part) / len(part)

    def rate(self, begin, end):
        """Batches a second."""
        return self._mean("batches", begin, end)

    def waiting(self, begin, end):
        """The share of time in which the loop waited for a batch."""
        return self._mean("waited", begin, end)

    def lost(self, begin, end):
        """The share of time in which the loop waited, or its steps lasted too long."""
        return self.waiting(begin, end) + self._mean("late", begin, end)

    def longest(self, begin, end):
        return max(second["longest"] for second in self._part(begin, end))

    def held(self, begin, end):
        """Bytes of batches that the loader had begun and the loop had not taken, in the mean."""
        held = self._mean("held_bytes", begin, end)
        worker = [int(status["workers"][0].get("buffered_bytes", 0))
                  for second, status in self.statuses
                  if begin <= second < end and status.get("workers")]
        return held + (sum(worker) / len(worker) if worker else 0)

    def batches_held(self, begin, end):
        return self._mean("held_batches", begin, end)

    def batch_bytes(self):
        return sum(s["bytes"] for s in self.seconds) / max(1, sum(s["batches"] for s in self.seconds))

    def packed_bytes(self):
        """The mean size of a batch as our worker sends it; 0 where no status was seen."""
        workers = [status["workers"][0] for _, status in self.statuses if status.get("workers")]
        return int(workers[-1]["sent_bytes"]) / max(1, int(workers[-1]["sent_batches"])) if workers else 0

    def end(self):
        return len(self.seconds)

    # --- settings of ours ---

    def tunings(self):
        """(second, process, its tuning) of each status."""
        for second, status in self.statuses:
            for kind in ("consumers", "workers"):
                for peer in status.get(kind, []):
                    if "tuning" in peer:
                        yield second, kind, peer["tuning"]

    def changes(self, begin, end):
        """How often the value of each setting changed. A change that was undone counts twice."""
        found = {}
        for second, kind, tuning in self.tunings():
            for decision in tuning.get("decisions", []):
                made = second - decision["age_seconds"]
                key = (kind, decision["number"])
                found[key] = (found.get(key, (made,))[0], decision["setting"], decision["outcome"])
        counts = {}
        for made, setting, outcome in found.values():
            if begin <= made < end:
                counts[setting] = counts.get(setting, 0) + (2 if outcome == "undone" else 1)
        return counts

    def over_limits(self):
        """Settings that were seen beyond their limits."""
        return sorted({f"{setting['name']} {setting['value']:.0f}, from {setting['least']:.0f} to "
                       f"{setting['most']:.0f}" for _, _, tuning in self.tunings()
                       for setting in tuning.get("settings", [])
                       if not setting.get("least", 0) <= setting["value"] <= setting["most"]})

    def settings(self):
        """The last values, for people."""
        last = {}
        for _, _, tuning in self.tunings():
            for setting in tuning.get("settings", []):
                last[setting["name"]] = setting["value"]
        return last
