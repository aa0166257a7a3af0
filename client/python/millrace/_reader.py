"""Readers over readers. All have the interface of `_core.Reader`."""


class Wrapped:
    """A reader over another one, which does all that a subclass does not override."""

    def __init__(self, reader):
        self.reader = reader

    def call(self, method, *arguments):
        """Every call of the other reader goes through here."""
        return method(*arguments)

    def attach(self):
        return self.call(self.reader.attach)

    def next(self):
        return self.call(self.reader.next)

    def next_epoch(self):
        return self.call(self.reader.next_epoch)

    def at(self, epoch, step):
        return self.call(self.reader.at, epoch, step)

    def spec(self):
        return self.call(self.reader.spec)

    def places(self):
        return self.call(self.reader.places)

    def epoch(self):
        return self.call(self.reader.epoch)

    def position(self):
        return self.call(self.reader.position)

    def waiting_why(self):
        return self.call(self.reader.waiting_why)

    def table(self, name):
        return self.call(self.reader.table, name)

    def vocabulary(self):
        return self.call(self.reader.vocabulary)

    def context(self, number):
        return self.call(self.reader.context, number)

    def describe(self, example):
        return self.call(self.reader.describe, example)

    def stats(self):
        return self.call(self.reader.stats)

    def held(self):
        return self.call(self.reader.held)

    def cancel(self):
        return self.call(self.reader.cancel)

    def close(self):
        return self.call(self.reader.close)
