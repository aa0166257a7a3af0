"""Reports how a training loop spent its time."""


class Timer:
    """Counts steps and the time that the loop waited for their batches.

    The loop's own time runs from when it gets a batch until it asks for the next one. If the loop
    only queues work for a GPU, this is not the whole step. repeat_first measures a whole step that
    never waits for a batch.
    """

    def __init__(self):
        self.steps = 0
        self.waited = 0.0
        self.began = None
        self.ended = None
        self.alone_steps = 0
        self.alone_seconds = 0.0

    def taken(self, began, ended):
        """A batch was asked for at `began` and given at `ended`."""
        if self.began is None:
            self.began = ended  # the wait for the first batch belongs to the start, not to a step
        else:
            self.waited += ended - began
            self.ended = ended

    def done(self):
        """The loop has finished with a batch."""
        self.steps += 1

    def alone(self, steps, seconds):
        """The loop ran `steps` steps on one batch."""
        self.alone_steps += steps
        self.alone_seconds += seconds


def text(timer, stats, held):
    """The report for a person."""
    if timer.alone_steps:
        limit = timer.alone_seconds / timer.alone_steps
    else:
        limit = None
    lines = []
    if timer.steps and timer.ended is not None:
        total = timer.ended - timer.began
        step = total / timer.steps
        lines.append(f"{timer.steps} steps, {1e3 * step:.3f} ms each")
        share = timer.waited / total if total > 0 else 0.0
        lines.append(f"  waiting for batches    {1e3 * timer.waited / timer.steps:.3f} ms, "
                     f"{share:.1%} of the time")
        lines.append(f"  the loop's own         {1e3 * (total - timer.waited) / timer.steps:.3f} ms")
    else:
        lines.append("no steps yet")
    if limit is not None:
        lines.append(f"  on one repeated batch  {1e3 * limit:.3f} ms a step: the training's own limit"
                     f" ({timer.alone_steps} steps)")
    else:
        lines.append("  the training's own limit: open the session with repeat_first=50 to see it")
    waits = {cause: s for cause, s in stats.get("waited_seconds", {}).items() if s > 0}
    if waits:
        lines.append("waited, by cause, since the session was opened or last moved")
        for cause, seconds in sorted(waits.items(), key=lambda item: -item[1]):
            lines.append(f"  {cause:<22} {seconds:.3f} s")
    if waits.get("slot"):
        lines.append("the loop holds these batches, and later ones wait for their memory:")
        for epoch, step, paths in held[:8]:
            what = ", ".join(paths) if paths else "the batch itself"
            lines.append(f"  epoch {epoch}, step {step}: {what}")
    return "\n".join(lines)
