"""Adds the type SessionKeywords to the stub: the options that connect() passes on unchanged.

    stub_options.py FOLDER_OF_CORE STUB OUTPUT
"""

import sys


def main(folder, stub, output):
    sys.path.insert(0, folder)
    import _core

    lines = ["", "class SessionKeywords(typing.TypedDict, total=False):"]
    lines += [f"    {option['name']}: {type(option['default']).__name__}"
              for option in _core.session_options() if option["keyword"]]
    with open(stub, encoding="utf-8") as made, open(output, "w", encoding="utf-8") as file:
        file.write("import typing\n" + made.read() + "\n".join(lines) + "\n")


main(*sys.argv[1:])
