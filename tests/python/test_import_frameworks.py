"""`millrace import hf` and `tfds`, with datasets that are made here."""

import pathlib
import subprocess
import sys
import textwrap

import numpy
import pytest
from records import example, records_of

from millrace import _binaries


def run_import(*words, cwd):
    return subprocess.run([_binaries.path("millrace"), "import", *map(str, words)], cwd=cwd,
                          capture_output=True, text=True, check=False)


def test_a_framework_that_is_missing_is_named(tmp_path):
    for module, words, install in (
            ("datasets", ["hf", "name"], "pip install datasets"),
            ("tensorflow_datasets", ["tfds", "name"], "pip install tensorflow tensorflow-datasets")):
        # In place of what the environment may have. An empty folder would be a module, too.
        (tmp_path / f"{module}.py").write_text("" if module == "datasets" else
                                               f"raise ModuleNotFoundError('no', name={module!r})")
        done = subprocess.run([_binaries.path("millrace"), "import", *words, "--to", "out"],
                              cwd=tmp_path, capture_output=True, text=True, check=False,
                              env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"})
        assert done.returncode == 2
        assert f"need the package {module}, which is not installed in" in done.stderr
        assert install in done.stderr and not (tmp_path / "out").exists()


def hugging_face():
    datasets = pytest.importorskip("datasets")
    if not hasattr(datasets, "load_dataset"):  # an empty folder that another package left
        pytest.skip("could not import 'datasets'")
    return datasets


def saved_dataset(folder):
    datasets = hugging_face()
    made = datasets.Dataset.from_dict(
        {"text": ["a", "bc", "", "d"], "label": [0, 1, 1, 0], "wave": [[0.5], [], [1.0, 2.0], [3.0]],
         "grid": [[[i, i + 1], [2, 3]] for i in range(4)], "maybe": [1, None, 3, 4]},
        features=datasets.Features(
            {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["n", "y"]),
             "wave": datasets.Sequence(datasets.Value("float64")),
             "grid": datasets.Array2D((2, 2), "int32"), "maybe": datasets.Value("int8")}))
    datasets.DatasetDict({"train": made, "test": made.select([3])}).save_to_disk(folder / "saved")
    return [example({"text": [text], "label": [label], "grid": [i, i + 1, 2, 3],
                     **({"wave": wave} if wave else {}), **({"maybe": [maybe]} if maybe else {})})
            for i, (text, label, wave, maybe) in enumerate(
                [(b"a", 0, [0.5], 1), (b"bc", 1, [], None), (b"", 1, [1.0, 2.0], 3),
                 (b"d", 0, [3.0], 4)])]


def test_a_hugging_face_dataset_is_imported(tmp_path):
    expected = saved_dataset(tmp_path)
    done = run_import("hf", "saved", "--split", "train", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert records_of(tmp_path / "out") == expected
    assert done.stdout == ('source: {records: {text: "bytes[*]", label: int64, wave: "float32[*]", '
                           'grid: "int64[2, 2]", maybe: {type: int64, default: 0}}}\n')
    assert run_import("hf", "saved", "--split", "test", "--to", "one", cwd=tmp_path).returncode == 0
    assert records_of(tmp_path / "one") == expected[3:]
    done = run_import("hf", "saved", "--split", "dev", "--to", "none", cwd=tmp_path)
    assert done.returncode == 2 and "saved: has no split dev; there are train, test" in done.stderr


def test_a_hugging_face_dataset_is_read_from_where_an_import_ended(tmp_path):
    expected = saved_dataset(tmp_path)
    from millrace._import.sources import HuggingFaceSource

    source = HuggingFaceSource(str(tmp_path / "saved"), "train")
    assert source.total == 4
    assert [one["label"] for one in source.examples(2)] == [1, 0] and expected
    assert list(source.examples(4)) == []


def test_images_stay_as_they_are_encoded(tmp_path):
    datasets = hugging_face()
    pytest.importorskip("PIL")
    (tmp_path / "p").write_bytes(b"neither")
    datasets.Dataset.from_dict(
        {"image": [{"bytes": b"no image", "path": None},
                   {"bytes": None, "path": str(tmp_path / "p")}]},
        features=datasets.Features({"image": datasets.Image()})).save_to_disk(tmp_path / "saved")
    done = run_import("hf", "saved", "--to", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert records_of(tmp_path / "out") == [example({"image": [b"no image"]}),
                                            example({"image": [b"neither"]})]


def test_a_hugging_face_stream_is_imported(tmp_path):
    hugging_face()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("x,y\n1,0.5\n2,0.25\n3,1.5\n")
    for flags in ([], ["--streaming"]):
        target = tmp_path / f"out{len(flags)}"
        done = run_import("hf", "./data", "--to", target, *flags, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout == "source: {records: {x: int64, y: float32}}\n"
        assert records_of(target) == [example({"x": [x], "y": [y]})
                                      for x, y in ((1, 0.5), (2, 0.25), (3, 1.5))]


def test_a_name_that_the_hub_does_not_have_is_an_error(tmp_path):
    hugging_face()
    done = run_import("hf", "./nowhere", "--to", "out", cwd=tmp_path)
    assert done.returncode == 2 and "./nowhere cannot be opened:" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_tensorflow_dataset_is_imported(tmp_path):
    pytest.importorskip("tensorflow_datasets")
    tf = pytest.importorskip("tensorflow")
    (tmp_path / "little.py").write_text(textwrap.dedent("""
        import numpy
        import tensorflow_datasets as tfds

        class Little(tfds.core.GeneratorBasedBuilder):
            VERSION = tfds.core.Version("1.0.0")

            def _info(self):
                return tfds.core.DatasetInfo(builder=self, features=tfds.features.FeaturesDict({
                    "image": tfds.features.Image(shape=(2, 2, 3)), "label": numpy.int64,
                    "name": tfds.features.Text(),
                    "wave": tfds.features.Tensor(shape=(None,), dtype=numpy.float32)}))

            def _split_generators(self, manager):
                return {"train": self._generate_examples(6), "test": self._generate_examples(1)}

            def _generate_examples(self, count):
                for i in range(count):
                    yield i, {"image": numpy.full((2, 2, 3), i, numpy.uint8), "label": i,
                              "name": "é" * i, "wave": numpy.arange(i, dtype=numpy.float32)}
    """))
    make = ("import sys; sys.path.insert(0, '.'); import little; "
            "little.Little(data_dir='data').download_and_prepare()")
    subprocess.run([sys.executable, "-c", make], cwd=tmp_path, check=True, capture_output=True)
    done = run_import("tfds", "little", "--data-dir", "data", "--split", "train[2:]", "--to", "out",
                      cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ('source: {records: {image: "bytes[*]", label: int64, name: "bytes[*]", '
                           'wave: "float32[*]"}}\n')
    records = records_of(tmp_path / "out")
    assert len(records) == 4
    for record in records:
        features = tf.train.Example.FromString(record).features.feature
        label = features["label"].int64_list.value[0]
        assert list(features["wave"].float_list.value) == list(range(label))
        assert features["name"].bytes_list.value[0].decode() == "é" * label
        image = tf.io.decode_image(features["image"].bytes_list.value[0]).numpy()
        assert (image == numpy.full((2, 2, 3), label)).all()
