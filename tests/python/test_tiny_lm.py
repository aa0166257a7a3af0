"""A tiny language model trains on packed rows. After it was killed, it goes on bit for bit."""

import pathlib

import pytest
from token_files import some_documents, write_pairs
from trainings import check_that_it_goes_on, finish, lines, start

import millrace

SCRIPT = pathlib.Path(__file__).parent / "scripts/tiny_lm.py"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    texts = write_pairs(tmp_path_factory.mktemp("tiny") / "texts", some_documents(400))
    with millrace.LocalServer({"texts": texts}) as server:
        yield server


def check_goes_on(daemon, folder, model, ranks):
    def arguments(name):
        hold = ["--hold", 13] if name == "killed" else []
        return ["--model", model, "--address", daemon.address, "--job", f"{model}-{name}-{ranks}",
                "--ranks", ranks, *hold]

    check_that_it_goes_on(SCRIPT, 1, arguments, folder)
    losses = losses_of(folder / "whole")
    assert sum(losses[-10:]) < 0.9 * sum(losses[:10])  # it learns


def losses_of(path):
    return [float.fromhex(line["loss"]) for line in lines(path)]


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_bigram_goes_on_with_the_same_losses(daemon, tmp_path, ranks):
    check_goes_on(daemon, tmp_path, "bigram", ranks)


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_killed_gpt_goes_on_with_the_same_losses(daemon, tmp_path, ranks):
    pytest.importorskip("torch")
    check_goes_on(daemon, tmp_path, "gpt", ranks)


def test_two_ranks_train_as_one_does(daemon, tmp_path):
    """They have the rows of one rank in each step, and so nearly the same gradients."""
    for ranks in (1, 2):
        finish(start(SCRIPT, 1, "--model", "bigram", "--address", daemon.address, "--job",
                     f"alike-{ranks}", "--ranks", ranks, "--losses", tmp_path / str(ranks)))
    one, two = losses_of(tmp_path / "1"), losses_of(tmp_path / "2")
    assert two == pytest.approx(one, rel=1e-9)
