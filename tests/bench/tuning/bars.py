"""The bars of self-tuning: what was reached, beside what has to be."""

import dataclasses

OF_FIXED = 0.95      # of the rate of the best fixed settings, at least
WAITS = 0.01         # share of the time, below which a loop counts as one that does not wait
OF_RIVALS = 0.5      # of the bytes that a rival holds, at most
EQUAL_WAITS = 0.01   # a rival may lose this more of the time, and is compared nevertheless
CHANGES = 5          # of a setting, at most


@dataclasses.dataclass
class Bar:
    load: str
    what: str
    value: str
    limit: str
    ok: object  # True, False, or None: it does not apply
    note: str = ""

    def line(self):
        verdict = {True: "OK", False: "MISSED", None: "-"}[self.ok]
        return f"{verdict:<7}{self.load:<11}{self.what:<56}{self.value:>12}   {self.limit:<18}{self.note}"


def of_fixed(load, ratio, fixed, when=""):
    return Bar(load, f"rate of the best fixed settings'{when}", f"{ratio:.3f}",
               f"at least {OF_FIXED}", ratio >= OF_FIXED, f"fixed: {fixed}")


def waits(load, tuned, fixed, when=""):
    applies = fixed < WAITS
    return Bar(load, f"waits of the loop{when}", f"{tuned:.2%}", f"below {WAITS:.0%}",
               tuned < WAITS if applies else None,
               f"fixed {fixed:.2%}" + ("" if applies else ": waits cannot be avoided"))


def limits(load, told, cpus, memory_limit):
    """Whether a tuned run kept to all limits, always. A `memory_limit` of 0 is not checked."""
    over = told.over_limits()
    threads = [s["value"] for _, kind, tuning in told.tunings() if kind == "workers"
               for s in tuning.get("settings", []) if s["name"] == "threads"]
    yield Bar(load, "settings seen beyond their limits", str(len(over)), "none", not over,
              "; ".join(over))
    yield Bar(load, "threads that build, at most", f"{max(threads, default=0):.0f}",
              f"{cpus} CPUs", 1 <= max(threads, default=0) <= cpus,
              f"seen {len(threads)} times")
    if memory_limit:
        most = max((value for _, value in told.memory), default=0)
        yield Bar(load, "memory of the daemon, at most", megabytes(most), megabytes(memory_limit),
                  0 < most <= memory_limit, f"{len(told.memory)} samples")


def comparable(ours, rival):
    """Whether rows of measurements have equal waits. Time that a rival takes from the loop's steps
    counts as waits."""
    return abs(rival["lost"] - ours["lost"]) <= EQUAL_WAITS


def held(load, ours, rival, name):
    """Memory where ours lose no more time than a rival."""
    ratio = ours["held_bytes"] / rival["held_bytes"] if rival["held_bytes"] else float("inf")
    return Bar(load, f"bytes held ahead of the loop, of {name}'s", f"{ratio:.2f}",
               f"at most {OF_RIVALS}",
               ratio <= OF_RIVALS and ours["lost"] <= rival["lost"] + EQUAL_WAITS,
               f"ours {megabytes(ours['held_bytes'])}, {name} {megabytes(rival['held_bytes'])}; ours "
               f"lose {ours['lost']:.1%} of the time, {name} {rival['lost']:.1%}")


def changes(load, counts, seconds):
    most = max(counts.values(), default=0)
    text = ", ".join(f"{name} {count}" for name, count in sorted(counts.items())) or "none"
    return Bar(load, f"changes of one setting in {seconds:.0f} s", str(most), f"at most {CHANGES}",
               most <= CHANGES, text)


def megabytes(count):
    return f"{count / 1e6:.1f} MB"
