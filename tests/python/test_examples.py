"""The example trains. After it was killed, it goes on bit for bit where it was."""

import os
import pathlib

import pytest
from trainings import check_that_it_goes_on, finish, lines, start

pytest.importorskip("torch")
pytest.importorskip("torch_geometric")

EXAMPLE = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"]) / "client/python/examples/tactics.py"


@pytest.mark.parametrize("ranks, local", [(1, False), (2, False), (1, True)])
def test_a_killed_training_goes_on_with_the_same_losses(dataset, server, tmp_path, ranks, local):
    def arguments(name):
        at = ["--local", dataset] if local else ["--address", server.address, "--job",
                                                 f"{name}-{ranks}"]
        return [*at, "--epochs", 2, "--batch-size", 8]

    report = check_that_it_goes_on(EXAMPLE, ranks, arguments, tmp_path)
    assert "waiting for batches" in report


def test_local_gives_the_same_losses(dataset, server, tmp_path):
    finish(start(EXAMPLE, 1, "--address", server.address, "--job", "far", "--losses", tmp_path / "far"))
    finish(start(EXAMPLE, 1, "--local", dataset, "--losses", tmp_path / "near"))
    assert lines(tmp_path / "far") == lines(tmp_path / "near") != []
