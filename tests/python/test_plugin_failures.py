"""Plugins that fail: what is dropped, and how a session ends."""


import pytest
from plugin_files import all_rows, broken_at, digests, of_plugin, write

import millrace


def test_exceptions_that_drop_names_drop_the_example_everywhere(broken):
    pipeline = broken_at("exception", drop=["ValueError"])
    session = millrace.reference(pipeline, plugins=broken)
    batches = [batch for _, batch in session.next_epoch()]
    assert [one for batch in batches for one in batch.dropped] == [(7, "plugin")]
    assert sorted(i for b in batches for i in b.example_ids) == [i for i in range(20) if i != 7]
    with millrace.local({}, pipeline, plugins=broken, packed=True) as served:
        assert digests(served) == [batch.digest for batch in batches]
        assert served.stats()["dropped"]["plugin"] == 1


def test_an_excluded_example_keeps_its_place(broken):
    pipeline = {**broken_at("exception"), "exclude": {"examples": [7]}}
    session = millrace.reference(pipeline, plugins=broken)
    batches = [batch for _, batch in session.next_epoch()]
    assert [one for batch in batches for one in batch.dropped] == [(7, "excluded")]
    dropping = millrace.reference(broken_at("exception", drop=["ValueError"]), plugins=broken)
    assert [b.example_ids for _, b in dropping.next_epoch()] == [b.example_ids for b in batches]


FAILURES = {
    "exception": "ValueError: the label of utterance 7 is empty",
    "dtype": 'tensor "x": float64[7], expected float32[*]',
    "rank": 'tensor "x": float32[1, 7], expected float32[*]',
    "range": 'tensor "n": 1099511627776 is out of range, expected int32',
    "names": "a dict without 'n' and with 'm', which is not declared",
    "nothing": "a NoneType in place of a dict of tensors",
    "column": "the example has n 7, and columns() says 8",
    "exit": "SystemExit: no more",
    "death": "the process ended with exit code 3",
    "segfault": "signal 11",
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_failure_ends_the_session_with_its_reason_and_the_way_on(broken, how):
    session = millrace.reference(broken_at(how), plugins=broken)
    with pytest.raises(millrace.DataError) as told:
        all_rows(session)
    said = str(told.value)
    assert FAILURES[how] in said
    assert "broken:Broken, example 7" in said and "`exclude: {examples: [7]}`" in said
    if how == "exception":
        original = str(broken["broken"] / "broken.py")
        assert f'File "{original}", line' in said and "in deeper" in said
        assert "_millrace" not in said  # the frames are the plugin's
    if how == "death":
        assert "the last words of the decoder" in said
    if how == "segfault":
        assert "in segfault" in said


def test_an_example_that_hangs_is_ended_and_shown(broken):
    session = millrace.reference(broken_at("hang", timeout=1), plugins=broken)
    with pytest.raises(millrace.DataError) as told:
        all_rows(session)
    assert "in hang" in str(told.value) and "example 7" in str(told.value)


@pytest.mark.parametrize("how", ["exception", "death"])
def test_a_served_session_ends_with_the_same_reason(broken, how):
    with millrace.local({}, broken_at(how), plugins=broken) as session:
        with pytest.raises(millrace.DataError) as told:
            all_rows(session)
    said = str(told.value)
    assert FAILURES[how] in said and "`exclude: {examples: [7]}`" in said
    assert ("in deeper" if how == "exception" else "the last words of the decoder") in said


@pytest.mark.parametrize("named, what", [
    ("corpus:Missing", "'Missing' is not in __all__"),
    ("broken:Hidden", "'Hidden' is not in __all__"),
    ("broken:gone", "'gone' is in __all__, but the module does not define it"),
    ("broken:imported", "'imported' comes from os"),
    ("broken:NoLength", "the source NoLength has no __len__"),
    ("other:Corpus", "plugin other: expected its folder"),
])
def test_what_cannot_be_a_source_is_named(corpus, broken, named, what):
    with pytest.raises(millrace.Error) as told:
        millrace.reference(of_plugin(named), plugins={**corpus, **broken})
    assert what in str(told.value)


@pytest.mark.parametrize("line, what", [
    ('{python: "corpus"}', 'expected "module:name"'),
    ('{python: "a.b:C"}', 'expected "module:name"'),
    ('{python: "corpus:Corpus", argz: {}}', "argz"),
    ('{python: "corpus:Corpus", timeout: 0}', "timeout"),
    ('{python: "corpus:Corpus", args: [1]}', "args"),
    ('{python: "corpus:Corpus", drop: 5}', "drop"),
])
def test_a_source_that_cannot_be_read_is_told_with_its_line(corpus, line, what):
    text = f"millrace: 1\nsource: {line}\nbatch: {{size: 4}}\n"
    with pytest.raises(millrace.ConfigError) as told:
        millrace.reference(text, plugins=corpus)
    assert what in str(told.value) and ":2:" in str(told.value)


def test_wrong_args_are_shown_as_python_shows_them(corpus):
    with pytest.raises(millrace.Error, match=r"unexpected keyword argument 'sise'"):
        millrace.reference(of_plugin(source={"args": {"sise": 3}}), plugins=corpus)


def test_a_module_that_cannot_be_imported_shows_where(tmp_path):
    plugins = {"bad": write(tmp_path, "bad", "import numpy\n\nimport nothing_like_this\n")}
    with pytest.raises(millrace.Error) as told:
        millrace.reference(of_plugin("bad:Source"), plugins=plugins)
    said = str(told.value)
    assert "ModuleNotFoundError: No module named 'nothing_like_this'" in said
    assert f'File "{tmp_path / "bad.py"}", line 3' in said


def test_folders_that_are_no_plugins_are_told_at_once(corpus, tmp_path):
    with pytest.raises(millrace.Error, match="has neither other.py nor other/__init__.py"):
        millrace.reference(of_plugin(), plugins={"other": corpus["corpus"]})
    with pytest.raises(millrace.Error, match="is no folder"):
        millrace.reference(of_plugin(), plugins={"corpus": tmp_path / "nothing"})
    with pytest.raises(millrace.Error, match="expected its folder"):
        millrace.reference(of_plugin())
    with pytest.raises(millrace.Error, match="or plugins, whose sources need none"):
        with millrace.local({}, of_plugin(), attach_timeout=600):
            pass
