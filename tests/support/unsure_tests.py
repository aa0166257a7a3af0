"""The list of unsure tests that were seen and are not mended: tests/unsure.md."""

import datetime
import re

HEAD = ["| date | test | what was seen |", "|---|---|---|"]
ROW = re.compile(r"\| (\d{4}-\d\d-\d\d) \| `([^`]+)` \| (\S.*) \|")


def read(path):
    """The names of the tests. Raises ValueError if the list has not its form."""
    lines = path.read_text().splitlines()
    if HEAD[0] not in lines:
        raise ValueError(f"{path}: expected a table that begins with '{HEAD[0]}', found none")
    first = lines.index(HEAD[0])
    if lines[first + 1:first + 2] != HEAD[1:]:
        raise ValueError(f"{path}:{first + 2}: expected '{HEAD[1]}' below the table's head")
    names = []
    for number, line in enumerate(lines[first + 2:], first + 3):
        row = ROW.fullmatch(line)
        if row is None:
            raise ValueError(f"{path}:{number}: expected '| YYYY-MM-DD | `TEST` | WHAT WAS SEEN |',"
                             f" found '{line}'")
        try:
            datetime.date.fromisoformat(row[1])
        except ValueError as error:
            raise ValueError(f"{path}:{number}: '{row[1]}' is no date: {error}") from None
        names.append(row[2])
    return names
