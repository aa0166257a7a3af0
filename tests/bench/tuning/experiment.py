"""Measures the loads one after another, and judges them."""

import os
import statistics

import bars
from course import Course
from processes import Failed

SMALL_PREFETCH = 16 << 20  # another fixed value of prefetch_bytes, beside the default


class Experiment:
    def __init__(self, ours, rivals, times, log):
        self._ours, self._rivals, self._times, self._log = ours, rivals, times, log
        self._cpus = len(os.sched_getaffinity(0))
        self.bars = []
        self.rows = []      # of the table of measurements
        self.stories = {}   # load -> what `millrace tune --explain` told at the end

    def run(self, load):
        self._log(f"{load.name}: {load.title}")
        try:
            if load.steady:
                self._steady(load)
            else:
                parts = self._parts(load)
                fixed = self._search(load)
                (self._in_turns if load.rounds else self._once)(load, fixed, parts)
        except Failed as error:
            self._log(f"{load.name}: {error}")
            self.bars.append(bars.Bar(load.name, "measured", "failed", "", False, str(error)))

    # --- what is measured ---

    def _parts(self, load):
        """(words, begin, end, begin of a fixed run's, its end) of what counts in a run: after the
        warm-up. Fixed settings need a shorter one."""
        times = self._times
        if load.neighbour:
            last = times.neighbour / 2
            return [(" with a neighbour", times.warm + last, times.warm + 2 * last,
                     times.fixed_warm + last, times.fixed_warm + 2 * last)]
        if len(load.steps) == 1:
            return [("", times.warm, times.warm + times.measured, times.fixed_warm,
                     times.fixed_warm + times.measured)]
        settled = min(times.warm, 0.75 * times.part)
        return [(f", part {i + 1}: {1e3 * step:.0f} ms after {settled:.0f} s",
                 i * times.part + settled, (i + 1) * times.part,
                 i * times.part + settled, (i + 1) * times.part)
                for i, step in enumerate(load.steps)]

    def _search(self, load):
        """The best fixed settings: (threads, prefetch_bytes)."""
        times = self._times
        candidates = [(threads, None) for threads in range(1, min(4, self._cpus) + 1)]
        found = {}

        def try_out(one):
            told = self._ours.measure(load, times, times.search, *one)
            found[one] = told.rate(times.search * 0.3, told.end())
            self._log(f"  fixed {words(one)}: {found[one]:.1f} batches/s, waits "
                      f"{told.waiting(times.search * 0.3, told.end()):.2%}")

        for one in candidates:
            try_out(one)
        try_out((max(found, key=found.get)[0], SMALL_PREFETCH))
        best = max(found.values())
        # Among equals the first: fewer threads.
        return next(one for one in found if found[one] >= 0.995 * best)

    def _note(self, load, who, told, begin, end):
        row = {"load": load.name, "who": who, "rate": told.rate(begin, end),
               "waiting": told.waiting(begin, end), "lost": told.lost(begin, end), "longest": told.longest(begin, end),
               "held_bytes": told.held(begin, end), "held_batches": told.batches_held(begin, end),
               "batch_bytes": told.batch_bytes(), "packed_bytes": told.packed_bytes()}
        self.rows.append(row)
        self._log("  " + row_text(row))
        return row

    def _tuned(self, load, seconds, disturbed=None):
        told = self._ours.measure(load, self._times, seconds, disturbed=disturbed)
        self.stories[load.name] = told.explained
        return told

    def _in_turns(self, load, fixed, parts):
        (_, begin, end, fixed_begin, fixed_end), = parts
        ratios, tuned, best = [], [], []
        for _ in range(self._times.rounds):
            told = self._tuned(load, end)
            tuned.append(self._note(load, f"tuned to {setting_words(told)}", told, begin, end))
            other = self._ours.measure(load, self._times, fixed_end, *fixed)
            best.append(self._note(load, f"fixed {words(fixed)}", other, fixed_begin, fixed_end))
            ratios.append(tuned[-1]["rate"] / best[-1]["rate"])
        self.bars.append(bars.of_fixed(load.name, statistics.median(ratios), words(fixed)))
        waits = mean(tuned, "waiting")
        self.bars.append(bars.waits(load.name, waits, mean(best, "waiting")))
        self.bars += bars.limits(load.name, told, self._cpus, load.memory_limit)
        if load.rivals:
            self._against(load, fixed, begin, end,
                          {what: mean(tuned, what)
                           for what in ("held_bytes", "lost", "batch_bytes", "packed_bytes")})

    def _once(self, load, fixed, parts):
        """A run that changes under way: tuned and fixed once each."""
        times = self._times
        told = self._tuned(load, parts[-1][2], self._disturbed(load, times.warm))
        other = self._ours.measure(load, times, parts[-1][4], *fixed,
                                   disturbed=self._disturbed(load, times.fixed_warm))
        for when, begin, end, fixed_begin, fixed_end in parts:
            row = self._note(load, f"tuned{when}", told, begin, end)
            best = self._note(load, f"fixed {words(fixed)}{when}", other, fixed_begin, fixed_end)
            self.bars.append(bars.of_fixed(load.name, row["rate"] / best["rate"], words(fixed), when))
            self.bars.append(bars.waits(load.name, row["waiting"], best["waiting"], when))
        self.bars += bars.limits(load.name, told, self._cpus, load.memory_limit)
        self._against(load, fixed, parts[-1][1], parts[-1][2], row)

    def _disturbed(self, load, warm):
        return (warm, warm + self._times.neighbour) if load.neighbour else None

    def _against(self, load, fixed, begin, end, ours):
        """The rivals on the same load, over the same seconds. Where ours wait less with more memory,
        they are measured with half of a rival's, too."""
        for name in self._rivals.names():
            try:
                workers = None
                if name == "torch":
                    workers = self._rivals.workers(load, self._times, lambda t: self._log("  " + t))
                told = self._rivals.measure(name, load, self._times, end, workers,
                                            self._disturbed(load, self._times.warm))
            except Failed as error:
                self._log(f"  {error}")
                self.bars.append(bars.Bar(load.name, f"against {name}", "failed", "", None, str(error)))
                continue
            who = name if workers is None else f"{name}, {workers} workers"
            row = self._note(load, who, told, begin, end)
            lean = ours
            half = row["held_bytes"] * bars.OF_RIVALS
            if ours["held_bytes"] > half and not bars.comparable(ours, row):
                lean = self._lean(load, fixed[0], begin, end, half, ours, name)
            self.bars.append(bars.held(load.name, lean, row, name))

    def _lean(self, load, threads, begin, end, held_bytes, ours, name):
        """Ours with so little room that they hold about `held_bytes`: of two batches so many lie
        expanded as there is room for, and the session asks for one packed batch more than fits."""
        expanded, packed = ours["batch_bytes"], ours["packed_bytes"]
        ahead = max(0, min(2, int((held_bytes - 1.5 * packed) / expanded)))
        prefetch = int(max(held_bytes - ahead * expanded - 1.5 * packed, 0.5 * packed))
        told = self._ours.measure(load, self._times, end, threads, prefetch,
                                  self._disturbed(load, self._times.warm), ahead)
        return self._note(load, f"{threads} threads, half of {name}'s memory", told, begin, end)

    def _steady(self, load):
        times = self._times
        told = self._tuned(load, times.warm + times.steady)
        row = self._note(load, f"tuned to {setting_words(told)}", told, times.warm, told.end())
        self.bars.append(bars.changes(load.name, told.changes(times.warm, told.end()), times.steady))
        self.bars.append(bars.Bar(load.name, "waits of the loop", f"{row['waiting']:.2%}", "", None,
                                  "beside others on this machine"))
        self.bars += bars.limits(load.name, told, self._cpus, load.memory_limit)


def mean(rows, what):
    return statistics.fmean(row[what] for row in rows)


def words(fixed):
    threads, prefetch = fixed
    return f"{threads} threads" + (f", prefetch {prefetch >> 20} MiB" if prefetch else "")


def setting_words(told: Course):
    found = told.settings()
    return (f"{found.get('threads', 0):.0f} threads, prefetch "
            f"{found.get('prefetch_bytes', 0) / 1e6:.1f} MB")


def row_text(row):
    return (f"{row['who']:<58}{row['rate']:>9.1f} batches/s{row['waiting']:>8.2%} waits"
            f"{row['lost']:>8.2%} lost"
            f"{1e3 * row['longest']:>8.0f} ms longest{row['held_bytes'] / 1e6:>9.2f} MB held"
            f"{row['held_batches']:>7.1f} batches")
