"""Compares delivery logs with `millrace digest`. It shares no code with the servers, nor with
`millrace check-log`.

A log has a line for each batch that a consumer's loop took. The reference has the lines of an epoch
as one process builds it without a server. The checks: E, each example of an epoch came exactly
once, delivered or dropped with a reason; B, each batch has the reference's hash.
"""

import json


class Wrong(AssertionError):
    """The error that a log has, with its place."""


FIELDS = ("epoch", "step", "rank", "ordinal", "hash", "examples", "dropped")


def parse(text, name, torn=False):
    """Parses the lines of a log. A last line that is not complete is left out if `torn` (the writer
    was killed), and is an error otherwise."""
    whole, newline, rest = text.rpartition("\n")
    if rest and not torn:
        raise Wrong(f"{name}: the last line is not complete: {rest[:80]}")
    lines = []
    for number, line in enumerate((whole + newline).splitlines(), 1):
        try:
            parsed = json.loads(line)
        except ValueError:
            raise Wrong(f"{name}:{number}: no JSON: {line[:80]}") from None
        if not isinstance(parsed, dict) or tuple(sorted(parsed)) != tuple(sorted(FIELDS)):
            raise Wrong(f"{name}:{number}: expected the fields {', '.join(FIELDS)}: {line[:80]}")
        lines.append(parsed)
    return lines


def place(line):
    return line["epoch"], line["step"], line["rank"]


def check_order(lines, name):
    """Checks that each rank's batches come in order in a log, each once."""
    last = {}
    for line in lines:
        at = line["epoch"], line["step"]
        before = last.get(line["rank"])
        if before is not None and at <= before:
            what = "came twice in a row" if at == before else f"came after {before}"
            raise Wrong(f"{name}: rank {line['rank']}: epoch {at[0]}, step {at[1]} {what}")
        last[line["rank"]] = at


def check_reference(lines, world_size, planned=None):
    """Checks that the reference itself is whole: it has each place and each example once an epoch.
    `planned`: the number of examples of a whole epoch, if the lines begin at its start and
    nothing is left out."""
    places = set()
    examples = {}
    for line in lines:
        if place(line) in places:
            raise Wrong(f"the reference has {place(line)} twice")
        places.add(place(line))
        if line["ordinal"] != line["step"] * world_size + line["rank"]:
            raise Wrong(f"the reference's ordinal is not step * {world_size} + rank: {line}")
        count_examples(line, examples.setdefault(line["epoch"], set()))
    for epoch, seen in examples.items():
        if planned is not None and len(seen) != planned:
            raise Wrong(f"the reference of epoch {epoch} has {len(seen)} of {planned} examples")
    return examples


def count_examples(line, seen):
    for example in [*line["examples"], *(dropped[0] for dropped in line["dropped"])]:
        if example in seen:
            raise Wrong(f"example {example} came twice in epoch {line['epoch']}, the second time at "
                        f"step {line['step']}, rank {line['rank']}")
        seen.add(example)


def check(delivered, expected, world_size, planned=None):
    """Checks E and B: `delivered` is exactly `expected`. `delivered` has the lines of all logs of a
    job; a log that was resumed is cut at its checkpoint. Returns the numbers of batches and
    examples."""
    planned_examples = check_reference(expected, world_size, planned)
    want = {place(line): line for line in expected}
    seen = {}
    examples = {}
    for line in delivered:
        at = place(line)
        name = f"epoch {at[0]}, step {at[1]}, rank {at[2]}"
        if at in seen:
            raise Wrong(f"{name}: was delivered twice")
        seen[at] = line
        if at not in want:
            raise Wrong(f"{name}: was delivered, and nobody asked for it")
        for field in FIELDS:
            if line[field] != want[at][field]:
                raise Wrong(f"{name}: {field}: delivered {line[field]}, expected {want[at][field]}")
        count_examples(line, examples.setdefault(at[0], set()))
    missing = sorted(set(want) - set(seen))
    if missing:
        raise Wrong(f"{len(missing)} of {len(want)} batches were not delivered; the first is epoch "
                    f"{missing[0][0]}, step {missing[0][1]}, rank {missing[0][2]}")
    if examples != planned_examples:
        raise Wrong("the examples delivered or dropped are not the planned ones")
    return len(seen), sum(len(ids) for ids in examples.values())


def before(lines, epoch, step):
    """The lines of a log that count if its trainer resumes from (epoch, step)."""
    return [line for line in lines if (line["epoch"], line["step"]) < (epoch, step)]
