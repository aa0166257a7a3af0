"""Bar charts in SVG, without a library. Bars are medians, whiskers go from minimum to maximum, and
a tick is the limit of the same run."""

import math
from xml.sax.saxutils import escape

from rivals.catalogue import RIVALS
from runner.catalogue import BENCHMARKS
from runner.summary import number

WIDTH = 920
LABEL = 430
ROW = 22
COLOURS = {"ours": "#3b6ea5", "rival": "#a5673b"}


def bars(title, unit, rows, logarithmic=False):
    """`rows`: dicts with name, min, median, max, and maybe limit and kind (a key of COLOURS)."""
    values = [v for row in rows for v in (row["min"], row["max"], row.get("limit") or 0) if v > 0]
    high = max(values, default=1)
    low = min(values, default=1)
    span = WIDTH - LABEL - 90
    if logarithmic:
        bottom = math.floor(math.log10(low))
        scale = span / max(math.log10(high) - bottom, 1e-9)

        def place(value):
            return LABEL + (math.log10(value) - bottom) * scale if value > 0 else LABEL
    else:
        def place(value):
            return LABEL + value / high * span
    height = 56 + ROW * len(rows)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
           f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
           f'<text x="8" y="20" font-size="14" font-weight="bold">{escape(title)}</text>',
           f'<text x="8" y="38" fill="#666">{escape(unit)}'
           f'{", logarithmic" if logarithmic else ""}; bar: median, line: minimum to maximum, '
           'black tick: limit in the same run</text>']
    for i, row in enumerate(rows):
        y = 48 + i * ROW
        middle = y + ROW / 2
        colour = COLOURS[row.get("kind", "ours")]
        out.append(f'<text x="{LABEL - 6}" y="{middle + 4:.1f}" text-anchor="end">'
                   f'{escape(row["name"])}</text>')
        out.append(f'<rect x="{LABEL}" y="{y + 4}" height="{ROW - 8}" '
                   f'width="{max(place(row["median"]) - LABEL, 1):.1f}" fill="{colour}"/>')
        out.append(f'<line x1="{place(row["min"]):.1f}" x2="{place(row["max"]):.1f}" '
                   f'y1="{middle}" y2="{middle}" stroke="#222" stroke-width="1"/>')
        end = max(place(row["median"]), place(row["max"]))
        if row.get("limit"):
            x = place(row["limit"])
            out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + ROW - 1}" '
                       'stroke="black" stroke-width="2"/>')
            if x - end < 60:
                end = max(end, x)
        out.append(f'<text x="{end + 5:.1f}" y="{middle + 4:.1f}">{number(row["median"])}</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def charts(results):
    """Yields (file name, SVG) for every unit of every part, and for every group of rivals."""
    for part in results["benchmarks"]:
        units = {}
        for row in part["rows"]:
            units.setdefault(row["unit"], []).append(row)
        for unit, rows in units.items():
            yield _file_name(part["letter"], unit), bars(part["title"], unit, rows, _wide(rows))
    groups = {}
    for row in results["rivals"]:
        if "failed" not in row:
            groups.setdefault(row["against"], []).append(row)
    names = {rival.ours.name: rival.ours.plot for rival in RIVALS}
    for against, rows in groups.items():
        if not names[against]:
            continue
        shown = [{**row, "kind": "rival"} for row in rows]
        if ours := sorted(value for row in rows for value in row["ours"]):
            shown.insert(0, {"name": "Millrace", "min": ours[0], "max": ours[-1],
                             "median": ours[len(ours) // 2]})
        yield f"{names[against]}.svg", bars(f"{against}: Millrace and rivals", rows[0]["unit"],
                                            shown, _wide(shown))


def _file_name(letter, unit):
    """The name that the catalogue gives the plot of a part's figures in a unit."""
    names = next((b.plots for b in BENCHMARKS if b.letter == letter), {})
    if unit not in names:
        raise ValueError(f"part ({letter}) has figures in '{unit}', and plots are named only for "
                         f"{', '.join(names) or 'no unit'}: name one in "
                         "tests/bench/runner/catalogue.py, then use --from-json")
    return f"{names[unit]}.svg"


def _wide(rows):
    """Whether the smallest bar would be too small to see beside the largest bar or its limit."""
    values = [v for row in rows for v in (row["median"], row.get("limit")) if v]
    return bool(values) and max(values) > 50 * min(values)
