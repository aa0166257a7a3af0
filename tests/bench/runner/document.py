"""Puts tables and plots into a document, only between two marks."""

import pathlib

BEGIN = "<!-- figures: made by tests/bench/run --document, do not edit -->"
END = "<!-- end of figures -->"


def replace_block(text, block):
    block_of(text)
    begin, end = text.find(BEGIN), text.find(END)
    return text[:begin] + BEGIN + "\n\n" + block.strip() + "\n\n" + text[end:]


def block_of(text):
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"no block between '{BEGIN}' and '{END}'")
    return text[begin + len(BEGIN):end].strip()


def sections_of(lines):
    """Groups the lines of a Markdown table by the bold titles in them: (title, lines) each."""
    sections = []
    for line in lines:
        if line.startswith("| **") or not sections:
            sections.append((line, []))
        sections[-1][1].append(line)
    return sections


def with_parts(block, heading, table, letters):
    """Puts the sections of `table`, which has the figures of some parts, in place of those of the
    block's first table. The line that says when they were measured stands above it."""
    new = dict(sections_of(table.splitlines()[2:]))
    lines = block.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("| what "))
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("|")), len(lines))
    sections = sections_of(lines[begin + 2:end])
    if unknown := new.keys() - dict(sections).keys():
        raise ValueError(f"the document has no section {', '.join(sorted(unknown))}")
    named = f"Parts {', '.join(letters)}: "
    above = [line for line in lines[:begin] if not line.startswith(named)]
    while above and not above[-1]:
        above.pop()
    rows = [row for title, old in sections for row in new.get(title, old)]
    return "\n".join([*above, "", named + heading, "", *lines[begin:begin + 2], *rows, *lines[end:]])


def update_parts(path, heading, table, letters, charts):
    """Renews the figures of some parts, and their plots. The others stay as they are."""
    path = pathlib.Path(path)
    text = path.read_text()
    for name, svg in charts:
        (path.parent / "plots" / name).write_text(svg)
    path.write_text(replace_block(text, with_parts(block_of(text), heading, table, letters)))


def update(path, block, charts):
    """Writes plots into plots/ beside the document, and links them in the block."""
    path = pathlib.Path(path)
    plots = path.parent / "plots"
    plots.mkdir(exist_ok=True)
    for old in plots.glob("*.svg"):
        old.unlink()
    links = []
    for name, svg in charts:
        (plots / name).write_text(svg)
        links.append(f"![{name.removesuffix('.svg').replace('-', ' ')}](plots/{name})")
    path.write_text(replace_block(path.read_text(), block + "\n\n" + "\n".join(links)))
