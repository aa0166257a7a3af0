"""Wrong options: the error names the option, and says what was expected and what it got."""

import inspect
import json
import re
import subprocess

import pytest
from conftest import pipeline, run
from recording_proxy import RecordingProxy, hello_priority

import millrace
from millrace import _binaries

WHOLE = "an integer from 0 to "
FROM_1 = "an integer from 1 to "


@pytest.mark.parametrize("options, message", [
    ({"rank": -1, "world_size": 2}, f"rank: expected {WHOLE}1048575, got -1"),
    ({"rank": 0, "world_size": -1}, "world_size: expected an integer from 1 to 1048576, got -1"),
    ({"replica": -1}, f"replica: expected {WHOLE}4294967295, got -1"),
    ({"micro": "2"}, f"micro: expected {FROM_1}4294967295, got '2'"),
    ({"micro": 2.0}, f"micro: expected {FROM_1}4294967295, got 2.0"),
    ({"micro": 0}, f"micro: expected {FROM_1}4294967295, got 0"),
    ({"prefetch_bytes": "1XB"}, "prefetch_bytes: expected a number of bytes of at least 0, got '1XB'"),
    ({"prefetch_bytes": 1e9}, "prefetch_bytes: expected .*, got 1000000000.0"),
    ({"expanded_batches": -1}, "expanded_batches: expected .*, got -1"),
    ({"job": 5}, "job: expected a text, got 5"),
    ({"address": None}, "address: expected a text, got None"),
    ({"cursor": 5}, "cursor: expected a text, got 5"),
    ({"connect_timeout": "3"}, "connect_timeout: expected a number of seconds of at least 0, got '3'"),
    ({"attach_timeout": None}, "attach_timeout: expected a number of seconds of at least 0, got None"),
    ({"connect_timeout": float("nan")}, "connect_timeout: expected a number of seconds of at least 0, got nan"),
    ({"read_timeout": -1}, "read_timeout: expected a number of seconds of at least 0, got -1"),
    ({"attach_timeout": -1}, "attach_timeout: expected a number of seconds of at least 0, got -1"),
    ({"priority": 0}, f"priority: expected {FROM_1}1000, got 0"),
    ({"priority": 1001}, f"priority: expected {FROM_1}1000, got 1001"),
    ({"priority": "high"}, f"priority: expected {FROM_1}1000, got 'high'"),
    ({"index_dtype": None}, "index_dtype: expected one of int32, int64, got None"),
    ({"index_dtype": "int16"}, "index_dtype: expected one of int32, int64, got 'int16'"),
    ({"compression": "gzip"}, "compression: expected one of zstd, lz4, off, got 'gzip'"),
    ({"compression": None}, "compression: expected one of zstd, lz4, off, got None"),
    ({"any_start": 1}, "any_start: expected True or False, got 1"),
    ({"packed": "yes"}, "packed: expected True or False, got 'yes'"),
    ({"log_level": ["x"] * 99}, "log_level: expected a text, got something of type list"),
])
def test_an_option_of_connect_that_cannot_be_is_named(server, options, message):
    options = {"address": server.address, "pipeline": pipeline(), "job": "options", **options}
    with pytest.raises(millrace.ConfigError, match=message):
        millrace.connect(**options)


@pytest.mark.parametrize("options, message", [
    ({"rank": -1}, f"rank: expected {WHOLE}1048575, got -1"),
    ({"micro": -1}, f"micro: expected {FROM_1}4294967295, got -1"),
    ({"micro": 0}, f"micro: expected {FROM_1}4294967295, got 0"),
    ({"index_dtype": "float32"}, "index_dtype: expected one of int32, int64, got 'float32'"),
    ({"cursor": 5}, "cursor: expected a text, got 5"),
])
def test_an_option_of_reference_that_cannot_be_is_named(dataset, options, message):
    with pytest.raises(millrace.ConfigError, match=message):
        millrace.reference(pipeline(), dataset, **options)


def test_an_index_dtype_of_load_batch_that_cannot_be_is_named(dataset, tmp_path):
    millrace.reference(pipeline(), dataset).batch_at(0, 0).save(tmp_path / "batch")
    assert millrace.load_batch(tmp_path / "batch", "int64")["root"].dtype == "int64"
    with pytest.raises(millrace.ConfigError, match="index_dtype: expected .*, got 'int16'"):
        millrace.load_batch(tmp_path / "batch", "int16")


def test_an_option_that_does_not_exist_is_a_wrong_call(dataset):
    for call in (lambda **o: millrace.connect(pipeline=pipeline(), **o),
                 lambda **o: millrace.local({"data": dataset}, pipeline(), **o)):
        with pytest.raises(TypeError, match="unexpected keyword argument 'prefetch'"):
            call(prefetch=1)


def test_signature_and_help_of_connect_show_every_option():
    parameters = inspect.signature(millrace.connect).parameters
    assert parameters["priority"].default == 1 and parameters["micro"].default == 1
    assert parameters["prefetch_bytes"].default == 256 << 20
    assert parameters["shared_memory"].default is True
    assert parameters["index_dtype"].default == "int32"
    assert parameters["address"].default == "127.0.0.1:7700"
    assert not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in parameters:
        assert name in millrace.connect.__doc__, name


def test_the_command_line_refuses_a_value_in_the_same_words(tmp_path, server):
    (tmp_path / "p").write_text(json.dumps(pipeline()))
    with pytest.raises(millrace.ConfigError) as caught:
        millrace.connect(server.address, pipeline=pipeline(), priority=1001)
    words = str(caught.value).removesuffix("got 1001")
    done = subprocess.run([_binaries.path("millrace"), "consume", tmp_path / "p", "--priority", "1001"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 2 and words in done.stdout + done.stderr


def test_an_epoch_or_step_that_cannot_be_is_named(dataset):
    session = millrace.reference(pipeline(), dataset)
    with pytest.raises(millrace.ConfigError, match="epoch.*-1"):
        session.batch_at(-1, 0)
    with pytest.raises(millrace.ConfigError, match="step.*an epoch has the steps|step: expected"):
        session.batch_at(0, -1)
    with pytest.raises(millrace.ConfigError, match="context: expected an integer .*, got -1"):
        session.context(-1)


def test_changes_of_the_pipeline_are_a_dict_or_a_list(dataset):
    for wrong in ("batch.size=64", [("batch.size", 64)]):
        with pytest.raises(millrace.ConfigError, match=f"set=: expected .* got {re.escape(repr(wrong))}"):
            millrace.reference(pipeline(), dataset, set=wrong)


def test_the_priority_of_a_session_reaches_the_dispatcher(server):
    with RecordingProxy(server.address) as proxy:
        with millrace.connect(proxy.address, pipeline=pipeline(), job="heavy", priority=777) as session:
            assert next(iter(session.next_epoch()))[0] == 0
        assert hello_priority(777) in proxy.sent


def test_a_session_may_wait_for_ever(connect):
    session = connect(connect_timeout=float("inf"), attach_timeout=float("inf"))
    assert next(iter(session.next_epoch()))[0] == 0


def test_a_port_that_is_not_the_dispatchers_is_named(server, connect):
    connect()  # so that there is a worker
    told = json.loads(run("status", "--address", server.address, "--format", "json"))
    (address,) = set(re.findall(r"127\.0\.0\.1:\d+", json.dumps(told))) - {server.address}
    with pytest.raises(millrace.ConfigError, match=f"{address}: another service is on this port"):
        millrace.connect(address, pipeline=pipeline(), job="elsewhere")


def test_a_long_name_of_a_job_leaves_any_step_to_be_had(connect):
    session = connect(job="ä" * 64)  # 128 bytes, the longest name that is allowed
    assert session.batch_at(0, 2).step == 2
