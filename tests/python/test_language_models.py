"""The files, the program and the cells of docs/guides/language-models.md run, and attention by
pack.cu_seqlens is that of documents alone."""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import numpy
import pytest
from conftest import run
from token_files import some_documents, write_pairs

import millrace
from millrace import _binaries

sys.path.append(str(pathlib.Path(__file__).parent / "scripts"))

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
EXAMPLE = ROOT / "client/python/examples/language_model.py"
PAGE = (ROOT / "docs/guides/language-models.md").read_text()
PIPELINES = dict(re.findall(r"^```yaml\n# (\w+\.yaml)\n(.*?)^```", PAGE, re.M | re.S))
PROGRAM, VARLEN, PROVENANCE, TRAINER, TITAN = re.findall(r"^```python\n(.*?)^```", PAGE, re.M | re.S)
ROWS = {"millrace": 1, "dataset": "corpus", "source": "tokens", "shuffle": {"seed": 0},
        "pack": {"tensor": "tokens", "size": 64, "method": "fit"},
        "batch": {"size": 4, "remainder": "keep"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the files of the page, and the datasets that its commands generate."""
    work = tmp_path_factory.mktemp("page")
    for name, text in PIPELINES.items():
        (work / name).write_text(text)
    for line in re.findall(r"^millrace (generate .*)$", PAGE, re.M):
        run(*shlex.split(line), cwd=work)
    return work


@pytest.fixture
def here(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return folder


def corpus(folder):
    return write_pairs(folder / "known", some_documents(60))


def test_the_page_has_the_program_as_it_is():
    name, text = PROGRAM.split("\n", 1)
    assert name == f"# {EXAMPLE.name}" and EXAMPLE.read_text() == text
    assert sum(1 for line in text.splitlines() if line.strip()) <= 25


def test_the_pipelines_of_the_page_give_rows(here):
    for name, folders in (("rows.yaml", "corpus"), ("mixed.yaml", {"corpus": "corpus", "books": "books"})):
        session = millrace.reference(name, folders)
        _, batch = next(iter(session.next_epoch()))
        assert batch.num_examples == 16 and "pack.label" in batch
    assert millrace.reference("rows.yaml", "corpus", variant="valid").spec.order_fingerprint


def test_padding_is_as_small_as_the_page_says(here):
    told = run("inspect", "rows.yaml", "--dataset", "corpus")
    share = float(re.search(r"^rows .* \(([\d.]+)%\) padding", told, re.M)[1])
    assert share < 1


def test_the_cell_about_provenance_runs(here, capsys):
    exec(PROVENANCE, {"millrace": millrace})
    assert re.fullmatch(r"(\d+ \d+ \d+\n)+", capsys.readouterr().out)


def test_the_import_of_the_page_runs(tmp_path):
    (line,) = re.findall(r"^millrace (import .*)$", PAGE, re.M)
    (tmp_path / "web.jsonl").write_text('{"text": "a b"}\n{"text": "c"}\n')
    (tmp_path / "gpt2.py").write_text("def tokenize(texts):\n    return [[*t.encode()] for t in texts]\n")
    done = subprocess.run([_binaries.path("millrace"), *shlex.split(line)], cwd=tmp_path, check=False,
                          capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "source: tokens\n", done.stderr
    session = millrace.reference({**ROWS, "output": ["tokens", "pack.label"]}, tmp_path / "web")
    row = session.batch_of([0]).row(0)
    assert row["tokens"].tolist() == [*b"a b", 50256, *b"c", 50256]
    assert row["pack.label"].tolist() == [*b" b", 50256, -100, 50256, -100]


def test_the_program_of_the_page_learns(here):
    pytest.importorskip("torch")
    done = subprocess.run([sys.executable, EXAMPLE, "rows.yaml", "corpus"], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    losses = [float(loss) for loss in re.findall(r"^step \d+: loss (\d+\.\d+)$", done.stdout, re.M)]
    assert len(losses) > 20 and numpy.mean(losses[-5:]) < losses[0]


def dense_attention(q, k, v, segment):
    """Attention of all elements to all, with a mask that leaves blocks on the diagonal."""
    import torch

    scores = torch.einsum("ihw,jhw->hij", q, k) * q.shape[-1] ** -0.5
    mask = (segment[:, None] == segment[None, :]).tril()
    return torch.einsum("hij,jhw->ihw", scores.masked_fill(~mask, -torch.inf).softmax(-1), v)


@pytest.mark.parametrize("pad", [{}, {"pad": {"pack": {}}}])
def test_attention_by_offsets_is_that_of_documents_alone(tmp_path, pad):
    """A loop that trains by the cell of the page, beside one with a dense mask: all outputs and
    gradients agree."""
    torch = pytest.importorskip("torch")
    from varlen import attention

    import millrace.torch

    session = millrace.reference({**ROWS, **pad, "output": [
        "tokens", "pack.label", "pack.position", "pack.segment", "pack.cu_seqlens"]}, corpus(tmp_path))
    torch.manual_seed(0)
    word, qkv = torch.nn.Embedding(50, 8).double(), torch.nn.Linear(8, 24).double()
    weights = [*word.parameters(), *qkv.parameters()]
    optimizer = torch.optim.SGD(weights, 0.1)
    for _, batch in session.next_epoch():
        given = millrace.torch.tensors(batch)
        tokens, label, segment = (given[name].flatten().long() for name in (
            "tokens", "pack.label", "pack.segment"))
        # Numbers of segments begin anew in each row, which the mask must not take for one.
        row = torch.repeat_interleave(torch.arange(batch.num_examples), torch.tensor(
            [64 if pad else len(batch.row(i)["tokens"]) for i in range(batch.num_examples)]))
        q, k, v = qkv(word(tokens)).view(-1, 3, 2, 4).unbind(1)
        cell = {"millrace": millrace, "batch": batch, "q": q, "k": k, "v": v,
                "flash_attn_varlen_func": attention}
        exec(VARLEN, cell)
        assert cell["longest"] <= 64
        dense = dense_attention(q, k, v, 100 * row + segment)
        torch.testing.assert_close(cell["out"], dense)
        grads = []
        for out in (cell["out"], dense):
            logits = out.flatten(1) @ word.weight.T
            loss = torch.nn.functional.cross_entropy(logits, label)
            grads.append(torch.autograd.grad(loss, weights, retain_graph=True))
        torch.testing.assert_close(*grads)
        for weight, grad in zip(weights, grads[0], strict=True):
            weight.grad = grad
        optimizer.step()


def test_the_batches_of_torchtitan(here):
    torch = pytest.importorskip("torch")
    import millrace.torch

    cell = {}
    exec(TITAN, cell)
    session = millrace.reference("rows.yaml", "corpus")
    loader = torch.utils.data.DataLoader(
        millrace.torch.IterableDataset(session, map=cell["for_titan"]), batch_size=None)
    inputs, labels = next(iter(loader))
    assert inputs.keys() == {"input", "positions"} and labels.dtype == torch.int64
    assert inputs["input"].shape == inputs["positions"].shape == labels.shape == (16, 256)
    has = labels[:, :-1] >= 0
    goes_on = inputs["positions"][:, 1:] == inputs["positions"][:, :-1] + 1
    assert (inputs["input"][:, 1:][has & goes_on] == labels[:, :-1][has & goes_on]).all()


def trainer_of(transformers, torch, session, folder, steps):
    cell = {"transformers": transformers, "torch": torch}
    exec(TRAINER, cell)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=512, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=256))
    arguments = transformers.TrainingArguments(
        str(folder), max_steps=steps, learning_rate=1e-2, logging_steps=1, report_to=[],
        use_cpu=True, save_strategy="steps", save_steps=3, ignore_data_skip=True,
        lr_scheduler_type="constant")

    class SavesThePlace(transformers.TrainerCallback):
        def on_save(self, args, state, control, **_):
            place = pathlib.Path(args.output_dir) / f"checkpoint-{state.global_step}" / "session.json"
            place.write_text(json.dumps(session.state_dict()))

    return cell["PackedTrainer"](
        model, arguments, callbacks=[SavesThePlace()],
        train_dataset=millrace.torch.IterableDataset(session, map=cell["for_trainer"]))


def losses_of(trainer):
    return [line["loss"] for line in trainer.state.log_history if "loss" in line]


def test_the_trainer_of_transformers_needs_no_collator_and_goes_on(here, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import millrace.torch  # noqa: F401

    def train(name, steps, resume=None):
        session = millrace.reference("rows.yaml", "corpus", index_dtype="int64")
        if resume:
            session.load_state_dict(json.loads((resume / "session.json").read_text()))
        trainer = trainer_of(transformers, torch, session, tmp_path / name, steps)
        trainer.train(resume_from_checkpoint=str(resume) if resume else None)
        return losses_of(trainer)

    whole = train("whole", 6)
    assert len(whole) == 6 and whole[-1] < whole[0]
    train("first", 3)
    assert train("rest", 6, tmp_path / "first" / "checkpoint-3")[-3:] == whole[3:]


def test_a_model_of_transformers_tells_documents_by_their_positions(tmp_path):
    """The loss of rows is that of their documents, each alone."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    import millrace.torch

    session = millrace.reference({**ROWS, "pad": {"pack": {}}, "output": [
        "tokens", "pack.label", "pack.position", "pack.lengths"]}, corpus(tmp_path), index_dtype="int64")
    _, batch = next(iter(session.next_epoch()))
    cell = {"transformers": transformers, "torch": torch}
    exec(TRAINER, cell)
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=50, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=2, max_position_embeddings=64)).eval()
    of_rows = model(**cell["for_trainer"](millrace.torch.tensors(batch))).logits
    for i in range(batch.num_examples):
        row, at = batch.row(i), 0
        for length in row["pack.lengths"]:
            alone = model(input_ids=torch.tensor(row["tokens"][None, at:at + length])).logits
            torch.testing.assert_close(of_rows[i, at:at + length], alone[0], rtol=1e-4, atol=1e-4)
            at += length
