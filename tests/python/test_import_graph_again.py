"""`millrace import edges` and `parquet`: an import goes on after a kill, a full disk, or other
arguments, or says why it does not."""

import io
import os
import subprocess
import sys

import numpy
from conftest import in_a_fork
from kills import Killed
from test_import_graph import imported, loaded, save, write

from millrace._import import journal as journals
from millrace._import import main as command

EDGES = "".join(f"{i * 7 % 10} {i % 10} {'ab'[i % 2]} {i}\n" for i in range(40))
WORDS = ["edges", "e", "--edge-label", "3", "--edge-feature", "w=4", "--undirected", "--memory", "2000"]


def import_in_a_fork(monkeypatch, folder, target, point, *words):
    """The exit code of an import in a process that is killed at a point; None: it is not."""
    def work():
        os.chdir(folder)
        if point is not None:
            Killed(monkeypatch, point)
        sys.stdout = sys.stderr = io.StringIO()
        return command.main([*(words or WORDS), "--to", str(target)])
    return in_a_fork(work)


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name != journals.JOURNAL}


def test_an_import_goes_on_after_a_kill_at_every_point(tmp_path, monkeypatch):
    write(tmp_path, "e", EDGES)
    assert import_in_a_fork(monkeypatch, tmp_path, "whole", None) == 0
    expected = files(tmp_path / "whole")
    assert set(expected) == {"graph.json", "indptr.npy", "indices.npy", "edge_label.npy",
                             "edge_feature/w.npy"}
    point, code = 0, 9
    while code == 9:
        target = tmp_path / f"killed-{point}"
        code = import_in_a_fork(monkeypatch, tmp_path, target.name, point)
        if code == 9:
            assert import_in_a_fork(monkeypatch, tmp_path, target.name, None) == 0
        assert files(target) == expected, f"killed at point {point}"
        assert journals.JOURNAL in os.listdir(target)
        point += 1
    assert code == 0 and point > 80


def test_an_import_that_numbers_nodes_goes_on_after_kills(tmp_path, monkeypatch):
    write(tmp_path, "e", "".join(f"n{i * 7 % 60} n{i * i % 60}\n" for i in range(90)))
    words = ["edges", "e", "--renumber", "--memory", "2000"]
    assert import_in_a_fork(monkeypatch, tmp_path, "whole", None, *words) == 0
    for point in range(2, 60, 6):
        target = tmp_path / f"killed-{point}"
        assert import_in_a_fork(monkeypatch, tmp_path, target.name, point, *words) == 9
        assert import_in_a_fork(monkeypatch, tmp_path, target.name, None, *words) == 0
        assert files(target) == files(tmp_path / "whole"), f"killed at point {point}"


def test_names_that_the_journal_does_not_have_are_dropped(tmp_path):
    from millrace._import.graph.renumber import Renumber

    def numbers(renumber, source, target):
        found = renumber.of_texts(numpy.array([source]), numpy.array([target]), None)
        return [int(one[0]) for one in found]

    renumber = Renumber(tmp_path, 0)
    assert numbers(renumber, b"a", b"b") == [0, 1]
    end = renumber.sync()
    assert numbers(renumber, b"c", b"d") == [2, 3]
    renumber.sync()
    renumber.close()
    renumber = Renumber(tmp_path, end)
    assert numbers(renumber, b"d", b"b") == [2, 1] and renumber.count == 3
    renumber.sync()
    renumber.close()
    assert (tmp_path / "node_names.txt").read_text() == "a\nb\nd\n"


def test_parquet_goes_on_within_a_file(tmp_path, monkeypatch):
    numbers = numpy.arange(400)
    for name in "ab":
        save(tmp_path / f"{name}.parquet", {"source": numbers * 3 % 50, "target": numbers},
             row_group_size=70)
    words = ["parquet", "a.parquet", "b.parquet", "--memory", "4000"]
    assert import_in_a_fork(monkeypatch, tmp_path, "whole", None, *words) == 0
    for point in range(4, 100, 6):
        target = tmp_path / f"killed-{point}"
        assert import_in_a_fork(monkeypatch, tmp_path, target.name, point, *words) == 9
        assert import_in_a_fork(monkeypatch, tmp_path, target.name, None, *words) == 0
        assert files(target) == files(tmp_path / "whole"), f"killed at point {point}"


def test_other_arguments_or_files_do_not_go_on(tmp_path, monkeypatch, capsys):
    write(tmp_path, "e", EDGES)
    assert import_in_a_fork(monkeypatch, tmp_path, "out", 60) == 9
    os.chdir(tmp_path)
    assert command.main([*WORDS, "--rows", "target", "--to", "out"]) == 2
    assert 'began with rows: "source", now it is "target": use the same' in capsys.readouterr().err
    assert command.main(["stream", "a:b", "--to", "out"]) == 2
    assert "an import into this folder began with" in capsys.readouterr().err
    write(tmp_path, "e", EDGES + "0 0 a 0\n")
    assert command.main([*WORDS, "--to", "out"]) == 3
    assert "when this import began: remove the folder and import again" in capsys.readouterr().err
    write(tmp_path, "e", EDGES)
    assert command.main([*WORDS[:-1], "5000", "--to", "out"]) == 0  # more memory may be given


def test_a_finished_import_says_so_again(tmp_path, capsys):
    write(tmp_path, "e", EDGES)
    before = files(imported(tmp_path, *WORDS))
    (tmp_path / "e").unlink()
    capsys.readouterr()
    assert imported(tmp_path, *WORDS) and files(tmp_path / "out") == before
    assert "out: is finished: 10 nodes and" in capsys.readouterr().err
    (tmp_path / "out" / "graph.json").unlink()
    os.chdir(tmp_path)
    assert command.main([*WORDS, "--to", "out"]) == 3
    assert "graph.json is gone" in capsys.readouterr().err


def test_a_full_disk_says_how_to_go_on(tmp_path):
    write(tmp_path, "e", "".join(f"{i} {i % 500}\n" for i in range(20_000)))
    words = [sys.executable, "-c", "import resource, sys, millrace._import.main as command\n"
             "limit = int(sys.argv.pop(1))\nresource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
             "sys.exit(command.main(sys.argv[1:]))"]
    rest = ["edges", "e", "--to", "out", "--memory", "100kB"]
    for limit in (100_000, 159_000):  # for runs, and for arrays
        done = subprocess.run([*words, str(limit), *rest], cwd=tmp_path, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 1, done.stderr
        assert "File too large; make room, and run the same command again to go on" in done.stderr
        assert not (tmp_path / "out" / "graph.json").exists()
    done = subprocess.run([*words, "1000000", *rest], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    assert len(loaded(tmp_path / "out", "indices")) == 20_000
