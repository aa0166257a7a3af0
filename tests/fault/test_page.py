"""docs/internals/reliability.md shows the faults as they are."""

import os
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
os.environ.setdefault("MILLRACE_SOURCE_DIR", str(ROOT))
sys.path.insert(0, str(ROOT / "tests" / "process"))

import fault  # noqa: E402


class Page(unittest.TestCase):
    def test_the_page_has_every_fault_with_its_conditions(self):
        page = (ROOT / "docs/internals/reliability.md").read_text()
        item = re.compile(r"^- \*\*(\S+): (.*)\*\*: (.*)\. Keeps: (.*)\. Result: .*\.$", re.M)
        shown = item.findall(page.replace("\n  ", " "))
        expected = [(one.number, one.title, one.conditions, one.keeps) for one in fault.load()]
        self.assertEqual(shown, expected)


if __name__ == "__main__":
    unittest.main()
