"""How far an import is, on standard error: a bar on a terminal, otherwise a line now and then.

Not thread-safe.
"""

import sys
import time

_WIDTH = 28


class Progress:
    """Use it as a context manager, so that the line ends."""

    def __init__(self, total=None, out=None, clock=time.monotonic, verb="importing",
                 unit="examples"):
        """total: of what share() counts, None if it is not known. verb, unit: what is done, and
        with what."""
        self._total = total
        self._verb, self._unit = verb, unit
        self._out = sys.stderr if out is None else out
        self._clock = clock
        self._terminal = self._out.isatty()
        self._period = 0.1 if self._terminal else 5
        self._examples = self._bytes = self._done = 0
        self._began = self._shown = clock()
        self._first = None  # examples, bytes and done when this call began to write
        self._open = False
        self.note = ""  # a few words in place of the rate

    def begin(self, examples, written, done):
        """An earlier call did this much. Rates count from here."""
        self._first = (examples, written, done)
        self._examples, self._bytes, self._done = self._first
        self._began = self._clock()
        self.note = ""

    def set(self, examples, written, done):
        """Examples and bytes written, and how much of the total is done."""
        self._examples, self._bytes, self._done = examples, written, done
        now = self._clock()
        if now - self._shown >= self._period:
            self._show(now)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        """The last line, unless there was an error."""
        if kind is None:
            self._show(self._clock())
        if self._open:
            self._out.write("\n")
            self._out.flush()

    def _show(self, now):
        self._shown = now
        text = self._text(now)
        if self._terminal:
            self._out.write(f"\r\033[K{text}")
            self._open = True
        else:
            self._out.write(text + "\n")
        self._out.flush()

    def _text(self, now):
        texts = [f"{self._examples:,} {self._unit}", f"{self._bytes / 1e6:,.1f} MB"]
        first = self._first or (0, 0, 0)
        seconds = now - self._began
        if self.note:
            texts.append(self.note)
        elif seconds > 0.2:
            texts.append(f"{(self._examples - first[0]) / seconds:,.0f} {self._unit}/s")
            texts.append(f"{(self._bytes - first[1]) / 1e6 / seconds:,.1f} MB/s")
            if self._total and self._done > first[2]:
                left = (self._total - self._done) * seconds / (self._done - first[2])
                texts.append(f"{_time(left)} left")
        return f"{self._verb} " + self._share() + ", ".join(texts)

    def _share(self):
        if not self._total:
            return ""
        share = min(self._done / self._total, 1)
        full = int(share * _WIDTH)
        bar = f"[{'#' * full}{'.' * (_WIDTH - full)}] " if self._terminal else ""
        return f"{bar}{share * 100:3.0f} % "


def _time(seconds):
    seconds = max(0, round(seconds))
    if seconds >= 3600:
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{seconds // 60}:{seconds % 60:02}"
