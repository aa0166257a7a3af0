"""Turns samples into rows, and rows into tables of text or lists in Markdown. Pure functions."""

import statistics
import textwrap


def more_is_better(unit):
    return unit.endswith("/s")


def rows_of(samples):
    """Returns one row for each figure's name, in the order first seen. `samples`: a list of figures
    for each sample."""
    rows = {}
    for figures in samples:
        for figure in figures:
            row = rows.setdefault(figure["name"], {
                "name": figure["name"], "unit": figure["unit"], "limit_name": figure["limit_name"],
                "params": dict(figure["params"]), "values": [], "limits": []})
            row["values"].append(figure["value"])
            row["limits"].append(figure["limit"])
            # Parameters that change from run to run are left out of the row.
            row["params"] = {k: v for k, v in row["params"].items()
                             if figure["params"].get(k) == v}
    return [summarise(row) for row in rows.values()]


def summarise(row):
    values, limits = row["values"], row["limits"]
    row.update(min=min(values), median=statistics.median(values), max=max(values))
    if row["limit_name"] and all(limits):
        row["limit"] = statistics.median(limits)
        row["ratio"] = statistics.median(v / l for v, l in zip(values, limits))
    return row


def rival_row(rival, ours, theirs, versions, lacking=""):
    """`ours` and `theirs`: one value for each pair, in the same unit. If `ours` is empty, `lacking`
    says why."""
    row = {"name": rival.title, "against": rival.ours.name, "note": rival.note,
           "values": theirs, "ours": ours, "versions": versions}
    row.update(min=min(theirs), median=statistics.median(theirs), max=max(theirs))
    if ours:
        row.update(ours_median=statistics.median(ours),
                   ratio=statistics.median(o / t for o, t in zip(ours, theirs)))
    else:
        row["lacking"] = lacking
    return row


def number(value):
    """Formats with three significant digits, and with k, M or G if that is shorter."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = 1e3 if letter == "k" else size
            return f"{value / scale:.3g} {letter}" if value / scale < 1000 else f"{value:.0f}"
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def table(header, lines):
    """Text in columns."""
    widths = [max(len(line[i]) for line in [header, *lines]) for i in range(len(header))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip()
                     for line in [header, *lines])


HEADER = ["what", "min", "median", "max", "unit", "its limit in the same run", "value / limit"]
RIVAL_HEADER = ["rival", "min", "median", "max", "unit", "ours, same pairs", "ours / rival",
                "what it does more or less"]


def figure_line(row):
    limit = ratio = ""
    if "ratio" in row:
        limit = f"{number(row['limit'])}: {row['limit_name']}"
        ratio = f"{row['ratio']:.3g}"
    return [row["name"], number(row["min"]), number(row["median"]), number(row["max"]), row["unit"],
            limit, ratio]


def rival_line(row):
    if "failed" in row:
        return [row["name"], "", "", "", "", "", "", "not measured: " + row["failed"]]
    versions = ", ".join(f"{k} {v}" for k, v in row["versions"].items())
    ours, ratio = row.get("lacking"), ""
    if "ratio" in row:
        ours, ratio = f"{number(row['ours_median'])}: {row['against']}", f"{row['ratio']:.3g}"
    return [row["name"], number(row["min"]), number(row["median"]), number(row["max"]), row["unit"],
            ours, ratio, f"{row['note']} ({versions})"]


def item(line):
    """A line of either table as an item of a list: `name: median unit (min to max)`, and the rest."""
    name, least, median, most, unit, beside, ratio, *note = line
    text = f"{name}: {median} {unit} ({least} to {most})" if median else name
    if ratio:
        value, what = beside.split(": ", 1)
        text += f". Ours {value} ({what}), {ratio} times" if note else f"; {ratio} of {value} ({what})"
    elif beside:
        text += f". Ours: {beside}"
    if note and note[0]:
        text += f". It does {note[0]}" if median else f": {note[0]}"
    return textwrap.fill(f"- {text}", width=120, subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def title_of(part):
    return f"({part['letter']}) {part['title']}" if len(part["letter"]) == 1 else part["title"]


def tables(results):
    """Returns all as text: one table of ours, and one of rivals if there are any."""
    parts = []
    lines = []
    for part in results["benchmarks"]:
        failed = f": {part['failed']}" if part.get("failed") else ""
        lines.append([title_of(part) + failed, "", "", "", "", "", ""])
        lines += [figure_line(row) for row in part["rows"]]
    if lines:
        parts.append(table(HEADER, lines))
    if results["rivals"]:
        parts.append(table(RIVAL_HEADER, [rival_line(row) for row in results["rivals"]]))
    return "\n\n".join(parts)


def lists(results):
    """Returns all in Markdown: a bold title for each part and for the rivals, and a list below."""
    parts = []
    for part in results["benchmarks"]:
        items = [item(figure_line(row)) for row in part["rows"]]
        if part.get("failed"):
            items.insert(0, f"- {part['failed']}")
        parts.append(f"**{title_of(part)}**\n\n" + "\n".join(items))
    if results["rivals"]:
        parts.append("**rivals**\n\n" + "\n".join(item(rival_line(row)) for row in results["rivals"]))
    return "\n\n".join(parts)
