"""Puts figures and plots into a document, only between two marks."""

import pathlib
import re
import textwrap

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


def sections_of(figures):
    """The text above the first bold title, and the text below each: {title: text}."""
    above, *rest = re.split(r"^(\*\*.+\*\*)$", figures, flags=re.M)
    return above.strip(), {title: text.strip() for title, text in zip(rest[::2], rest[1::2])}


def paragraph(text):
    return textwrap.fill(text, width=120, break_long_words=False, break_on_hyphens=False)


def with_parts(block, heading, figures, letters):
    """Puts the sections of `figures`, which are those of some parts, in place of the block's. The
    paragraph that says when they were measured is above all sections."""
    _, new = sections_of(figures)
    old, bar, plots = block.partition("\n![")
    above, sections = sections_of(old)
    if unknown := new.keys() - sections.keys():
        raise ValueError(f"the document has no section {', '.join(sorted(unknown))}")
    named = f"Parts {', '.join(letters)}: "
    paragraphs = [text for text in above.split("\n\n") if not text.startswith(named)]
    paragraphs.append(paragraph(named + heading))
    for title, text in (sections | new).items():
        paragraphs += [title, text]
    return "\n\n".join(paragraphs) + (f"\n{bar}{plots}" if bar else "")


def update_parts(path, heading, figures, letters, charts):
    """Renews the figures of some parts, and their plots. The others stay as they are."""
    path = pathlib.Path(path)
    text = path.read_text()
    for name, svg in charts:
        (path.parent / "plots" / name).write_text(svg)
    path.write_text(replace_block(text, with_parts(block_of(text), heading, figures, letters)))


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
