"""tf.data service: dispatcher and worker in processes of their own, elements of 1 MiB, no
compression.

The worker reads 256 MiB of distinct random records from a file in the page cache, and sends each
with a running number. The client reads every byte: it computes the XXH3-128 of each element.

The reference's own dataset cannot be served in this way: it is a Python generator, which works only
in the process that made it. This does less than Millrace's wire: nobody checks the bytes that
arrive.
"""

import os
import pathlib
import subprocess
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

import measure

TOTAL = 256 << 20
service = tf.data.experimental.service


def serve_dispatcher():
    server = service.DispatchServer(service.DispatcherConfig(port=0))
    print(server.target.split("://")[1], flush=True)
    server.join()


def serve_worker(dispatcher):
    server = service.WorkerServer(service.WorkerConfig(dispatcher_address=dispatcher, port=0))
    print("ready", flush=True)
    server.join()


def start(parsed, *role):
    return subprocess.Popen([sys.executable, __file__, "--data", parsed.data, *role],
                            stdout=subprocess.PIPE)


def dataset(file, record, address):
    records = tf.data.FixedLengthRecordDataset(str(file), record, buffer_size=4 << 20)
    numbered = records.map(lambda r: tf.io.decode_raw(r, tf.uint8)).repeat().enumerate()
    return numbered.apply(service.distribute("distributed_epoch", f"grpc://{address}",
                                             compression=None, max_outstanding_requests=8))


def main():
    parsed = measure.options(kib=1024, role="", dispatcher="")
    if parsed.role == "dispatcher":
        serve_dispatcher()
        return
    if parsed.role == "worker":
        serve_worker(parsed.dispatcher)
        return
    file = pathlib.Path(parsed.scratch) / "tfdata_service.records"
    if not file.exists() or file.stat().st_size != TOTAL:
        file.write_bytes(np.random.default_rng(1).bytes(TOTAL))
    children = []
    try:
        children.append(start(parsed, "--role", "dispatcher"))
        address = children[0].stdout.readline().decode().strip()
        children.append(start(parsed, "--role", "worker", "--dispatcher", address))
        children[1].stdout.readline()
        meter = measure.Meter(parsed.seconds)
        cpu = None
        pids = [c.pid for c in children]
        for _, element in dataset(file, parsed.kib << 10, address):
            meter.touch(np.asarray(memoryview(element)))
            if not meter.take():
                break
            if meter.warm and cpu is None:
                cpu = measure.cpu_seconds(*pids)
        gigabytes = meter.count * (parsed.kib << 10) / 1e9
        measure.emit("payload", gigabytes / meter.took(), "GB/s",
                     cpu_seconds_per_gigabyte=round(
                         (measure.cpu_seconds(*pids) - cpu) / gigabytes, 3),
                     **measure.versions("tensorflow"))
    finally:
        for child in children:
            child.kill()
            child.wait()


if __name__ == "__main__":
    main()
