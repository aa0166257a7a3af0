"""Links between pages, and mentions of pages in other files: the path of a page in the checkout,
with an anchor behind `#`, or with a heading in quotes behind a comma."""

import pathlib
import re
import subprocess

FENCE = re.compile(r"^```.*?^```$", re.M | re.S)
LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
MENTION = re.compile(r"(?<![\w/.:-])(docs/[\w./-]*\w)(?:#([\w-]+)|,? \"([A-Z][^\"]*)\")?")
# Comments that go on in the next line are one text.
CONTINUED = re.compile(r"\n[ \t]*(?://+|#|\*)?[ \t]*")


def files(root):
    """The text files of a checkout, as {path: text}."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], capture_output=True, check=False)
    paths = [pathlib.Path(name) for name in listed.stdout.decode().split("\0") if name]
    if listed.returncode != 0 or not paths:
        found = (path.relative_to(root) for path in root.rglob("*"))
        paths = [path for path in found if path.parts[0] not in ("build", "shared", ".git")]
    texts = {}
    for path in paths:
        try:
            texts[path] = (root / path).read_text()
        except (UnicodeDecodeError, OSError):  # no text, or a link or file that is gone
            continue
    return texts


def anchor(heading):
    """The anchor that code hosts give a heading."""
    text = LINK.sub(lambda link: re.match(r"\[(.*?)\]", link[0])[1], heading)
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")


def headings(text):
    return [line.lstrip("#").strip() for line in FENCE.sub("", text).splitlines()
            if re.match(r"#+ ", line)]


def broken(root):
    """The links and mentions that lead nowhere, each as one line."""
    texts = files(root)

    def wrong(path, place, name, heading=None):
        if not (root / place).exists():
            return f"{path}: there is no {place}"
        if not (name or heading):
            return None
        found = headings(texts.get(place, ""))
        there = heading in found if heading else name in map(anchor, found)
        return None if there else f"{path}: {place} has no {heading or '#' + name}"

    for path, text in texts.items():
        if path.suffix == ".md":
            for target in LINK.findall(FENCE.sub("", text)):
                if re.match(r"[a-z]+:", target):
                    continue
                page, _, name = target.partition("#")
                place = (root / path.parent / page).resolve().relative_to(root.resolve()) if page else path
                yield wrong(path, place, name)
        for place, name, heading in MENTION.findall(CONTINUED.sub(" ", text)):
            yield wrong(path, pathlib.Path(place), name, heading)
