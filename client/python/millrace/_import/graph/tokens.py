"""The numbers and names in a piece of text: many lines at once, with numpy."""

import numpy

_SPACES = numpy.zeros(256, bool)
_SPACES[[ord(space) for space in " \t,\r\n"]] = True
_LONGEST = 256  # bytes of a name


class BadToken(ValueError):
    """`row`: the number of the line among those with edges. str() says what was found."""

    def __init__(self, row, message):
        super().__init__(message)
        self.row = row


class Tokens:
    """The columns of lines. Lines without any, and lines that begin with # or %, are left out."""

    def __init__(self, text):
        """text: bytes that end with the end of a line, and none of which is 0."""
        self._text = numpy.frombuffer(text, numpy.uint8)
        space = _SPACES[self._text]
        begins = ~space
        begins[1:] &= space[:-1]
        ends = ~space
        ends[:-1] &= space[1:]
        self._begins = numpy.flatnonzero(begins)
        self._lengths = numpy.flatnonzero(ends) - self._begins + 1
        newlines = numpy.flatnonzero(self._text == ord("\n"))
        self.lines_in_text = len(newlines)
        line = numpy.searchsorted(newlines, self._begins)  # of each token
        first = numpy.ones(len(line), bool)
        first[1:] = line[1:] != line[:-1]
        first = numpy.flatnonzero(first)
        mark = self._text[self._begins[first]]
        data = (mark != ord("#")) & (mark != ord("%"))
        counts = numpy.diff(first, append=len(line))
        # The lines with an edge: number in the text, first token, and count of tokens.
        self.lines, self._first, self._counts = line[first][data], first[data], counts[data]

    def __len__(self):
        return len(self.lines)

    def require_columns(self, count):
        short = numpy.flatnonzero(self._counts < count)
        if len(short):
            row = int(short[0])
            raise BadToken(row, f"has {self._counts[row]} columns, expected at least {count}: "
                                f"{self._whole(row)!r}")

    def integers(self, column):
        """A column of integers, as int64."""
        begins, lengths = self._column(column)
        negative = self._text[begins] == ord("-")
        begins, digits = begins + negative, lengths - negative
        wrong = (digits > 18) | (digits < 1)
        values = numpy.zeros(len(begins), numpy.int64)
        digits = numpy.minimum(digits, 18)
        for place in range(int(digits.max(initial=0))):
            inside = digits > place
            at = begins + place
            digit = self._text[numpy.minimum(at, len(self._text) - 1)].astype(numpy.int64) - ord("0")
            wrong |= inside & ((digit < 0) | (digit > 9))
            values = numpy.where(inside, values * 10 + digit, values)
        if wrong.any():
            row = int(numpy.flatnonzero(wrong)[0])
            raise BadToken(row, f"expected an integer in column {column + 1}, got "
                                f"{self._token(row, column)!r}")
        return numpy.where(negative, -values, values)

    def floats(self, column):
        """A column of numbers, as float64."""
        texts = self.texts(column)
        try:
            return texts.astype(numpy.float64)
        except ValueError:
            for row in range(len(texts)):
                try:
                    float(texts[row])
                except ValueError:
                    raise BadToken(row, f"expected a number in column {column + 1}, got "
                                        f"{self._token(row, column)!r}") from None
            raise

    def texts(self, column):
        """A column as it stands, as an array of bytes."""
        begins, lengths = self._column(column)
        longest = int(lengths.max(initial=1))
        if longest > _LONGEST:
            row = int(numpy.argmax(lengths))
            raise BadToken(row, f"column {column + 1} has {longest} bytes, expected at most "
                                f"{_LONGEST}")
        wide = numpy.zeros((len(begins), longest), numpy.uint8)
        for place in range(longest):
            inside = lengths > place
            wide[inside, place] = self._text[begins[inside] + place]
        return wide.view(f"S{longest}").reshape(-1)

    def _column(self, column):
        token = self._first + column
        return self._begins[token], self._lengths[token]

    def _token(self, row, column):
        token = self._first[row] + column
        begin = self._begins[token]
        return _shown(self._text[begin:begin + self._lengths[token]])

    def _whole(self, row):
        last = self._first[row] + self._counts[row] - 1
        return _shown(self._text[self._begins[self._first[row]]:
                                 self._begins[last] + self._lengths[last]])


def _shown(text):
    return text[:80].tobytes().decode(errors="replace")
