"""The programs and cells of docs/guides/bring-your-data.md and docs/guides/plugins.md run, and
datasets of frameworks stream through workers that are killed, value for value."""

import math
import os
import pathlib
import re
import runpy
import subprocess
import sys

import numpy
import pytest
from conftest import run
from fleet import Fleet, config_of
from plugin_files import all_rows, of_plugin, write

import millrace

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
EXAMPLES = ROOT / "client/python/examples"
PAGE = (ROOT / "docs/guides/bring-your-data.md").read_text()
LINES = 25  # of a program, without empty ones


def test_the_page_has_the_programs_as_they_are():
    programs = re.findall(r"^```python\n# (\w+\.py)\n(.*?)^```", PAGE, re.M | re.S)
    assert len(programs) == 6
    for name, text in programs:
        assert (EXAMPLES / name).read_text() == text, name
        assert sum(1 for line in text.splitlines() if line.strip()) <= LINES, name


def finished(*command, cwd=EXAMPLES):
    done = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, capture_output=True,
                          text=True, check=False,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout + done.stderr


def test_records_into_keras(tmp_path):
    pytest.importorskip("tensorflow")
    run("generate", "--kind", "records", tmp_path / "records", "--records", 600, "--files", 2)
    out = finished("records_keras.py", tmp_path / "records")
    assert "Epoch 2/2" in out and "loss" in out


def test_a_torch_dataset_is_padded_by_buckets():
    pytest.importorskip("torch")
    assert re.search(r"^step \d+: loss \d", finished("torch_padded.py"), re.M)


def hugging_face(folder, rows=50):
    """A folder of a dataset with texts, of which the first is empty, and its texts."""
    datasets = pytest.importorskip("datasets")
    texts = ["ä" * i for i in range(rows)]
    made = datasets.Dataset.from_dict(
        {"text": texts, "label": [i % 3 for i in range(rows)], "other": [[i] for i in range(rows)]})
    made.save_to_disk(str(folder))
    return texts


def test_a_hugging_face_dataset(tmp_path):
    hugging_face(tmp_path / "texts")
    out = finished("hf_texts.py", tmp_path / "texts")
    assert len(re.findall(r"^\d \[[012 ]+\] ä+$", out, re.M)) == 6  # 49 are not empty


def losses(out):
    # Ranks share the output: one may write between another's line and its end.
    return [float(loss) for loss in re.findall(r"epoch \d: loss (\d+\.\d{3})", out)]


def test_neighbourhoods_train_graphsage_on_two_ranks(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    (block,) = (block for block in re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
                if "graph_sage.py" in block)
    generate, serve, train = (line.split("  #")[0].split() for line in block.splitlines())
    assert serve == ["millraced", "serve", "--dataset", "papers=citations"]
    run(*generate[1:], cwd=tmp_path)
    assert train[:3] == ["torchrun", "--nproc-per-node", "2"]
    with millrace.LocalServer({"papers": tmp_path / "citations"}) as daemon:
        out = finished("-m", "torch.distributed.run", "--master-port", "0", "--rdzv-backend", "c10d",
                       "--rdzv-endpoint", "127.0.0.1:0", *train[1:-1], daemon.address)
    given = losses(out)
    assert len(given) == 6  # three epochs of two ranks
    assert max(given[-2:]) < math.log(16)  # better than a guess


def test_small_graphs_train_a_gcn(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("torch_geometric")
    command = re.search(r"`millrace (generate --kind graph FOLDER [^`]*)`", PAGE)[1]
    run(*command.replace("FOLDER", str(tmp_path / "graphs")).split())
    assert len(losses(finished("graph_gcn.py", tmp_path / "graphs"))) == 3


def test_returnn_reads_millrace(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("returnn")
    for name in ("returnn_reads.py", "torch_padded.py"):  # RETURNN writes models where it runs
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    out = finished("-m", "returnn", "returnn_reads.py", cwd=tmp_path)
    losses = [float(loss) for loss in re.findall(r"^Epoch \d: Total train loss: ([\d.]+)", out, re.M)]
    assert len(losses) == 2 and losses[1] < losses[0]


# Datasets of frameworks as sources

RETURNN = """
import numpy as np
from returnn.datasets import init_dataset

__all__ = ["ByNumber", "ByOrder"]


class ByNumber:
    '''Reads a dataset of RETURNN that gives any sequence by its number.'''

    def __init__(self, options):
        self.data = init_dataset(options)
        self.data.init_seq_order(epoch=1)

    def __len__(self):
        return self.data.num_seqs

    def spec(self):
        return {"data": "float32[*, 9]", "classes": "int32[*]"}

    def __getitem__(self, i):
        return self.row(self.data.get_corpus_seq(i))

    @staticmethod
    def row(seq):
        return {"data": seq.features["data"].astype(np.float32),
                "classes": seq.features["classes"].astype(np.int32)}


class ByOrder(ByNumber):
    '''Reads one that follows an order, which is then one sequence.'''

    def __getitem__(self, i):
        self.data.init_seq_order(epoch=1, seq_order=[i])
        self.data.load_seqs(0, 1)
        return {key: self.data.get_data(0, key).astype(dtype)
                for key, dtype in (("data", np.float32), ("classes", np.int32))}
"""
SEQS = [{"data": numpy.random.default_rng(i).random((3 + i * 7 % 11, 9)).astype(numpy.float32),
         "classes": numpy.arange(3 + i * 7 % 11, dtype=numpy.int32) % 5} for i in range(60)]


def through_killed_workers(folder, pipeline, plugins, names, datasets=None):
    """{id: (value, …)} of an epoch that two workers serve, both of which are replaced."""
    config = config_of(folder / "config", plugins, processes=2)
    rows = {}
    with Fleet(folder / "fleet", [config, config], datasets=datasets) as fleet:
        with fleet.connect(pipeline, prefetch_bytes=4096) as session:
            for step, batch in session.next_epoch():
                if step in (2, 5):
                    fleet.replace_a_worker()
                columns = [batch[name].numpy() for name in names]
                for row, example in enumerate(batch.example_ids):
                    assert example not in rows
                    length = batch[f"{names[0]}.length"].numpy()[row]
                    rows[example] = [column[row][:length] if column.ndim > 1 else column[row]
                                     for column in columns]
    return rows


def bucketed(named, args=None, ragged="data", **more):
    return of_plugin(named, {"args": args} if args else {},
                     batch={"bucket": {"by": f"{ragged}.length", "count": 4, "size": 4},
                            "remainder": "keep"}, pad={ragged: {"to": "bound"}}, **more)


def test_a_torch_dataset_streams_value_for_value(tmp_path):
    torch = pytest.importorskip("torch")
    plugins = {"torch_padded": EXAMPLES}
    rows = through_killed_workers(tmp_path, bucketed("torch_padded:Utterances", ragged="features"),
                                  plugins, ["features", "label"])
    assert sorted(rows) == list(range(2000))
    for i, (features, label) in rows.items():
        assert label == i % 10
        assert (features == torch.full((20 + i * 37 % 180, 40), i % 10 / 10).numpy()).all()


def test_a_hugging_face_dataset_streams_value_for_value(tmp_path):
    texts = hugging_face(tmp_path / "texts", 120)
    rows = through_killed_workers(
        tmp_path, bucketed("hf_texts:Texts", ragged="text", dataset="texts"),
        {"hf_texts": EXAMPLES}, ["text", "label"], {"texts": f"python:{tmp_path / 'texts'}"})
    assert {i: bytes(text).decode() for i, (text, _) in rows.items()} == dict(enumerate(texts))
    assert all(label == i % 3 for i, (_, label) in rows.items())


@pytest.mark.parametrize("name", ["ByNumber", "ByOrder"])
def test_a_dataset_of_returnn_streams_value_for_value(tmp_path, name):
    pytest.importorskip("returnn")
    plugins = {"corpus": write(tmp_path / "plugins", "corpus", RETURNN)}
    if name == "ByNumber":
        options = {"class": "DummyDatasetMultipleSequenceLength", "input_dim": 9, "output_dim": 5,
                   "num_seqs": 60, "seq_len": {"data": 7, "classes": 7}}
    else:
        pytest.importorskip("h5py")
        from returnn.datasets.hdf import SimpleHDFWriter
        file = tmp_path / "data.hdf"
        writer = SimpleHDFWriter(str(file), dim=9, ndim=2, extra_type={"classes": (5, 1, "int32")})
        for i, seq in enumerate(SEQS):
            writer.insert_batch(inputs=seq["data"][None], seq_len=[len(seq["data"])],
                                seq_tag=[f"seq-{i}"], extra={"classes": seq["classes"][None]})
        writer.close()
        options = {"class": "HDFDataset", "files": [str(file)]}
    own = runpy.run_path(str(tmp_path / "plugins" / "corpus.py"))[name](options)
    rows = through_killed_workers(tmp_path, bucketed(f"corpus:{name}", {"options": options},
                                                     output=["data"]), plugins, ["data"])
    assert sorted(rows) == list(range(60))
    for i, (data,) in rows.items():
        assert (data == own[i]["data"]).all()


# docs/guides/plugins.md


def test_the_cells_of_the_page_of_plugins_run(tmp_path):
    page = (ROOT / "docs/guides/plugins.md").read_text()
    modules = re.findall(r"^```python\n# (\w+)\.py[^\n]*\n(.*?)^```", page, re.M | re.S)
    for name, module in modules:
        folder = write(tmp_path / "plugins", name, module)
    name = modules[0][0]
    pipeline, config, functions = re.findall(r"^```yaml\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "train.yaml").write_text(pipeline)
    env = {**os.environ, "MILLRACE_PYTHON": sys.executable}
    command = re.search(r"`millrace (check train\.yaml [^`]*)`", page)[1]
    words = command.replace("/srv/plugins", str(folder)).replace("train.yaml", str(tmp_path / "train.yaml"))
    assert "same bytes" in run(*words.split(), env=env)
    expected = all_rows(millrace.reference(tmp_path / "train.yaml", plugins={name: folder}))
    assert len(expected) > 4000
    config = config.replace("/srv/plugins", str(folder)).replace("/srv/venv/bin/python", sys.executable)
    (tmp_path / "daemon.yaml").write_text(config)
    with Fleet(tmp_path / "fleet", [tmp_path / "daemon.yaml"]) as fleet:
        with fleet.connect(tmp_path / "train.yaml") as session:
            assert len(all_rows(session)) == len(expected)
    (tmp_path / "augmented.yaml").write_text(functions)
    augmented = millrace.reference(tmp_path / "augmented.yaml",
                                   plugins={name: folder for name, _ in modules})
    for _, loudness, features, begin in all_rows(augmented, "loudness", "part/features",
                                                 "part/begin"):
        assert len(features) == min(len(loudness), 200) and 0 <= begin <= len(loudness) - len(features)
