"""The devices that tensors are delivered to. Tests that need a GPU are skipped if there is none."""

import pytest
from conftest import pipeline

import millrace


def on_gpu(connect, **options):
    """A session that delivers to the first GPU. Skips the test if there is no GPU."""
    try:
        return connect(pipeline(), device="cuda:0", **options)
    except millrace.ConfigError as error:
        pytest.skip(str(error))


def test_the_host_is_a_device(connect):
    for device in (None, "cpu", "host"):
        session = connect(pipeline(), device=device)
        _, batch = next(iter(session.next_epoch()))
        assert batch["node_label"].device == "cpu"
        assert batch["node_label"].__dlpack_device__() == (1, 0)
        assert session.stats()["device"] == "host"


def test_a_device_that_is_not_there_is_refused(connect):
    with pytest.raises(millrace.ConfigError, match="device cuda:99: "):
        connect(pipeline(), device="cuda:99")
    with pytest.raises(millrace.ConfigError, match="device tpu: expected host, or cuda:0"):
        connect(pipeline(), device="tpu")
    with pytest.raises(millrace.ConfigError, match="validate reads batches in the host's memory"):
        connect(pipeline(), device="cuda:0", validate=True)


def test_a_gpu_gives_the_hosts_numbers(connect, dataset):
    torch = pytest.importorskip("torch")
    session = on_gpu(connect)
    wanted = millrace.reference(pipeline(), dataset)
    for (_, batch), (_, host) in zip(session.next_epoch(), wanted.next_epoch(), strict=True):
        for path in batch:
            tensor = batch[path].torch()
            assert tensor.device == torch.device("cuda:0")
            assert (tensor.cpu().numpy() == host[path].numpy()).all(), path


def test_what_lies_on_a_gpu_is_not_read_by_the_host(connect):
    session = on_gpu(connect)
    _, batch = next(iter(session.next_epoch()))
    labels = batch["node_label"]
    assert labels.device == "cuda:0" and labels.__dlpack_device__() == (2, 0)
    for read in (labels.numpy, labels.tolist, lambda: memoryview(labels), lambda: labels[0]):
        with pytest.raises(BufferError, match="lies in memory of cuda:0"):
            read()
    with pytest.raises(ValueError, match="stream 0 is ambiguous"):
        labels.__dlpack__(stream=0)
