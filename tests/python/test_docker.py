"""docker/compose.yaml keeps to the schema of the Compose specification."""

import os
import pathlib
import subprocess
import sys

import pytest
import yaml

pytest.importorskip("check_jsonschema")

FILE = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"]) / "docker" / "compose.yaml"


def validate(file):
    return subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema",
                           "vendor.compose-spec", file], capture_output=True, text=True, timeout=60,
                          check=False)


def test_the_compose_file_keeps_to_its_schema():
    done = validate(FILE)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("break_it", [
    lambda services: services["worker"].update(replcas=2),
    lambda services: services["dispatcher"]["healthcheck"].update(intervall="5s"),
    lambda services: services["grafana"].update(ports="3000"),
])
def test_the_schema_refuses_what_is_wrong(break_it, tmp_path):
    made = yaml.safe_load(FILE.read_text())
    break_it(made["services"])
    wrong = tmp_path / "compose.yaml"
    wrong.write_text(yaml.safe_dump(made))
    assert validate(wrong).returncode == 1
