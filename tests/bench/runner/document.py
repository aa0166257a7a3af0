"""Puts tables and plots into a document, only between two marks."""

import pathlib

BEGIN = "<!-- figures: made by tests/bench/run --document, do not edit -->"
END = "<!-- end of figures -->"


def replace_block(text, block):
    begin, end = text.find(BEGIN), text.find(END)
    if begin < 0 or end < begin:
        raise ValueError(f"no block between '{BEGIN}' and '{END}'")
    return text[:begin] + BEGIN + "\n\n" + block.strip() + "\n\n" + text[end:]


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
