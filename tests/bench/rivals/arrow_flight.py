"""Arrow Flight: DoGet of record batches of 1 MiB, server and client in processes of their own.

The payload is 256 MiB of distinct random bytes, prepared beforehand; Flight's C++ code alone serves
it from memory. The client reads every byte: it compares the XXH3-128 of each batch with that of the
pass before.

This does less than Millrace's wire: the sender hashes nothing, and batches stay where Flight put
them (Millrace gathers them in an aligned slot).
"""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.flight as flight
import xxhash

import measure

TOTAL = 256 << 20


class Server(flight.FlightServerBase):
    def __init__(self, kib):
        super().__init__("grpc://127.0.0.1:0")
        words = np.random.default_rng(1).integers(0, 1 << 62, TOTAL // 8)
        column = pa.array(words)
        rows = (kib << 10) // 8
        batches = [pa.record_batch([column.slice(i, rows)], names=["payload"])
                   for i in range(0, len(words), rows)]
        self._table = pa.Table.from_batches(batches)

    def do_get(self, context, ticket):
        return flight.RecordBatchStream(self._table)


def serve(kib):
    server = Server(kib)
    print(server.port, flush=True)
    server.serve()


def main():
    parsed = measure.options(kib=1024, serve=0)
    if parsed.serve:
        serve(parsed.kib)
        return
    child = subprocess.Popen([sys.executable, __file__, "--data", parsed.data, "--serve", "1",
                              "--kib", str(parsed.kib)], stdout=subprocess.PIPE)
    try:
        client = flight.connect(f"grpc://127.0.0.1:{int(child.stdout.readline())}")
        meter = measure.Meter(parsed.seconds)
        known, more, cpu = {}, True, None
        while more:
            reader = client.do_get(flight.Ticket(b""))
            at = 0
            while more:
                try:
                    batch = reader.read_chunk().data
                except StopIteration:
                    break
                payload = batch.column(0).buffers()[1]
                digest = xxhash.xxh3_128_digest(memoryview(payload)[:batch.num_rows * 8])
                if known.setdefault(at, digest) != digest:
                    raise SystemExit(f"batch {at} came with other bytes")
                at += 1
                more = meter.take()
                if meter.warm and cpu is None:
                    cpu = measure.cpu_seconds(child.pid)
            reader.cancel()
        gigabytes = meter.count * (parsed.kib << 10) / 1e9
        measure.emit("payload", gigabytes / meter.took(), "GB/s",
                     cpu_seconds_per_gigabyte=round(
                         (measure.cpu_seconds(child.pid) - cpu) / gigabytes, 3),
                     **measure.versions("pyarrow"))
    finally:
        child.kill()
        child.wait()


if __name__ == "__main__":
    main()
