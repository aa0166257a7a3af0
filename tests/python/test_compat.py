"""The Python package of earlier releases (tests/compat) reads from the daemon of this build: the
bytes are the same, or the refusal names both protocols."""

import json
import os
import pathlib
import re
import subprocess
import sys
import sysconfig

import pytest
from conftest import pipeline

KEPT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"]) / "tests" / "compat"
REFUSAL = re.compile(r"speaks protocol (\d+); this build speaks (\d+)")
READS = """
import json, sys
import millrace

address, pipeline = sys.argv[1:]
with millrace.connect(address, pipeline=json.loads(pipeline), job="kept", packed=True) as session:
    digests = [[step, batch.digest] for step, batch in session.next_epoch()]
print(json.dumps([millrace.__version__, millrace.__file__, digests]))
"""


def releases():
    return sorted(KEPT.glob("*/programs.tar.xz"))


def test_there_is_a_release():
    assert releases()


@pytest.mark.parametrize("archive", releases(), ids=lambda archive: archive.parent.name)
def test_an_earlier_package_reads_the_same_bytes_or_is_refused(server, connect, tmp_path, archive):
    subprocess.run(["tar", "-xJf", archive, "-C", tmp_path, "python"], check=True)
    package = tmp_path / "python"
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    if not (package / "millrace" / f"_core{suffix}").exists():
        pytest.skip(f"the package of {archive.parent.name} was kept for another Python than {suffix}")
    done = subprocess.run([sys.executable, "-c", READS, server.address, json.dumps(pipeline())],
                          capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(package)})
    if done.returncode:
        said = REFUSAL.search(done.stderr)
        assert said and said[1] != said[2], done.stderr
        return
    version, where, digests = json.loads(done.stdout)
    assert version == archive.parent.name
    assert pathlib.Path(where).is_relative_to(package), "this build's package was imported"
    expected = [[step, batch.digest] for step, batch in connect(packed=True).next_epoch()]
    assert expected and digests == expected
