"""Turns samples into rows, and rows into a table. Pure functions."""

import statistics


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


def table(header, lines, markdown):
    """Text columns, or a Markdown table. The first column is left-aligned; numbers are
    right-aligned."""
    if markdown:
        out = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
        return "\n".join(out + ["| " + " | ".join(line) + " |" for line in lines])
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


def tables(results, markdown=False):
    """Returns all as text: one table of ours, and one of rivals if there are any."""
    parts = []
    lines = []
    for part in results["benchmarks"]:
        title = f"({part['letter']}) {part['title']}" if len(part["letter"]) == 1 else part["title"]
        if part.get("failed"):
            lines.append([f"{title}: {part['failed']}", "", "", "", "", "", ""])
        elif not markdown:
            lines.append([title, "", "", "", "", "", ""])
        else:
            lines.append([f"**{title}**", "", "", "", "", "", ""])
        lines += [figure_line(row) for row in part["rows"]]
    if lines:
        parts.append(table(HEADER, lines, markdown))
    if results["rivals"]:
        parts.append(table(RIVAL_HEADER, [rival_line(row) for row in results["rivals"]], markdown))
    return "\n\n".join(parts)
