"""`millrace size`: its numbers agree with each other, and with what other commands say."""

import json
import math
import os
import re

from harness import check, cluster, numpy_python
from test_streams import DATA
from test_tools import run


def near(got, expected, what):
    """Numbers are rounded to four significant digits."""
    check(abs(got - expected) <= 0.0006 * abs(expected) + 1e-12, f"{what}: {got}, expected {expected}")


def size(c, *arguments):
    code, out, err = run("size", c.pipeline, "--dataset", f"data={DATA}", "--seconds", 0.5, *arguments)
    check(code == 0, f"{arguments}: {code}: {err}")
    return out


def check_agrees(found):
    """Each number follows from others."""
    request, sample, facts, answer = (found[k] for k in ("request", "sample", "facts", "answer"))
    demand = answer["batches_per_second"]
    near(demand, request["gpus"] / request["step_seconds"], "demand")
    near(answer["examples_per_second"], demand * sample["examples"], "examples")
    near(answer["send_seconds"], 1e-4 + 0.8e-9 * sample["bytes"]["mean"], "sending")
    near(answer["batch_seconds"], sample["cpu_seconds"]["mean"] + answer["send_seconds"], "CPU")
    near(answer["busy_cores"], demand * answer["batch_seconds"], "busy cores")
    near(answer["cores_with_reserve"], answer["busy_cores"] * (1 + request["reserve"]), "reserve")
    check(answer["cores"] == max(1, math.ceil(answer["cores_with_reserve"])), f"cores: {answer}")
    check(answer["cores_low"] <= answer["cores"] <= answer["cores_high"], f"range: {answer}")
    near(answer["python_seconds"], sum(s["seconds"] for s in sample["stages"] if s["python"]), "python")
    near(answer["busy_processes"], demand * answer["python_seconds"], "busy processes")
    check(answer["python_processes"] == math.ceil(answer["processes_with_reserve"]), f"{answer}")
    taken = answer["cores"] + answer["python_processes"]
    check(answer["workers"] == math.ceil(taken / request["worker_cores"]), f"workers: {answer}")
    near(answer["gbit_per_second"], demand * sample["bytes"]["mean"] * 8 / 1e9, "network")
    near(answer["gbit_per_second_consumer"] * request["gpus"], answer["gbit_per_second"], "consumers")
    near(answer["gbit_per_second_worker"] * answer["workers"], answer["gbit_per_second"], "workers")
    near(answer["consumer_bytes"], max(facts["prefetch_bytes"], 2 * sample["bytes"]["largest"]), "ahead")
    parts = ("building_bytes", "plugin_bytes", "ahead_bytes")
    near(answer["worker_bytes"], sample["base_bytes"] + sum(answer[p] for p in parts), "worker")
    check(answer["memory_limit_bytes"] >= max(answer["worker_bytes"], 4 * answer["ahead_bytes"]),
          f"limit: {answer}")
    near(answer["epoch_seconds"] * demand, facts["epoch_batches"], "epoch")
    # Stages are timed apart from each other, and the digest of a batch is in none of them.
    check(sum(s["seconds"] for s in sample["stages"]) < 1.05 * sample["elapsed_seconds"], f"{sample}")
    check(sample["cpu_seconds"]["mean"] <= sample["cpu_seconds"]["largest"], f"{sample}")
    if answer["share_bytes"] is not None:
        near(answer["share_bytes"] * facts["epoch_batches"], facts["dataset_bytes"], "dataset")
        near(answer["disk_bytes_per_second"], demand * answer["disk_batch_bytes"], "disk")


def test_the_numbers_of_size_agree_with_each_other():
    with cluster(DATA) as c:
        found = json.loads(size(c, "--gpus", 4, "--step-ms", 2.5, "--worker-cores", 2, "--json"))
        check_agrees(found)
        check(found["request"] == {"gpus": 4, "step_seconds": 0.0025, "reserve": 0.25, "worker_cores": 2},
              f"{found['request']}")
        check(found["sample"]["batches"] >= 4 and found["sample"]["examples"] > 7, f"{found['sample']}")
        check(found["answer"]["python_processes"] == 0, "a process of a plugin, without a plugin")
        files = sum(p.stat().st_size for p in DATA.rglob("*.bin"))
        near(found["facts"]["dataset_bytes"], files, "dataset")
        # 1500 examples, 32 a step, and one short step.
        check(found["facts"]["epoch_batches"] == 4 * math.ceil(1500 / 32), f"{found['facts']}")
        more = json.loads(size(c, "--gpus", 4, "--step-ms", 2.5, "--json", "--reserve", 900,
                               "--worker-cores", 1, "--set", "batch.size=64"))
        check_agrees(more)
        check(more["sample"]["bytes"]["mean"] > 3 * found["sample"]["bytes"]["mean"],
              f"batches of eight times as many examples: {more['sample']}, {found['sample']}")


def test_size_shows_its_arithmetic():
    with cluster(DATA) as c:
        out = size(c, "--gpus", 8, "--step-ms", 120)
        check("8 GPUs / 0.12 s a step = 66.67 batches/s\n" in out, out)
        units = {"us": 1e-6, "ms": 1e-3, "s": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9}
        cpu, unit, busy = re.search(r"66.67 batches/s x ([\d.]+) (\w+) CPU = ([\d.]+) busy", out).groups()
        near(float(busy), 66.67 * float(cpu) * units[unit], "busy cores")
        mean, unit, gbit = re.search(r"s x ([\d.]+) (\w+) x 8 bits = ([\d.]+) Gbit/s in total", out).groups()
        near(float(gbit), 66.67 * float(mean) * units[unit] * 8 / 1e9, "network")
        check("assumed        A core of a worker is as fast" in out, out)


def test_size_counts_the_processes_of_a_plugin_apart():
    with cluster(DATA) as c:
        (c.folder / "slow.py").write_text(SLOW)
        c.pipeline.write_text('millrace: 1\nsource: {python: "slow:Slow"}\nbatch: {size: 2}\n')
        arguments = ["size", c.pipeline, "--gpus", 2, "--step-ms", 10, "--seconds", 1, "--json"]
        code, _, err = run(*arguments)
        check(code == 2 and "--plugin slow=FOLDER" in err, f"without the plugin: {code}: {err}")
        os.environ["MILLRACE_PYTHON"] = numpy_python()
        code, out, err = run(*arguments, "--plugin", f"slow={c.folder}")
        check(code == 0, err)
        found = json.loads(out)
        check_agrees(found)
        answer = found["answer"]
        # Each example sleeps for 10 ms, which takes no CPU time of this process or its own.
        check(answer["python_seconds"] >= 0.02, f"{found}")
        check(answer["python_processes"] >= 5, f"{found}")
        check(found["sample"]["cpu_seconds"]["mean"] < 0.5 * answer["python_seconds"], f"{found}")
        check(found["facts"]["python_process_bytes"] > 1e6, f"{found}")
        check(answer["share_bytes"] is None and answer["fits_host"] is None, f"{found}")


SLOW = """
import time
__all__ = ["Slow"]
class Slow:
    def __len__(self):
        return 1000
    def spec(self):
        return {"x": "int64"}
    def __getitem__(self, i):
        time.sleep(0.01)
        return {"x": i}
"""


def test_size_refuses_what_cannot_be_meant():
    with cluster(DATA) as c:
        data = ["--dataset", f"data={DATA}"]
        rate = ["--gpus", 8, "--step-ms", 120]
        slips = [
            ([c.pipeline, *data, "--step-ms", 120], "--gpus is required"),
            ([c.pipeline, *data, "--gpus", 8], "--step-ms is required"),
            ([c.pipeline, *data, "--gpus", 0, "--step-ms", 120], "--gpus: expected an integer from 1"),
            ([c.pipeline, *data, "--gpus", 8, "--step-ms", 0], "--step-ms: expected milliseconds from"),
            ([c.pipeline, *data, "--gpus", 8, "--step-ms", -1], "got '-1'"),
            ([c.pipeline, *data, "--gpus", 8, "--step-ms", "soon"], "got 'soon'"),
            ([c.pipeline, *data, *rate, "--reserve", -1], "--reserve: expected percent from 0"),
            ([c.pipeline, *data, *rate, "--worker-cores", 0], "--worker-cores: expected an integer"),
            ([c.pipeline, *data, *rate, "--seconds", -1], "--seconds: expected seconds from 0"),
            ([c.pipeline, *rate], "say where it lies with --dataset ID=DIR"),
            ([c.pipeline, *rate, "--dataset", f"data={c.folder}/none"], "no folder"),
            ([c.folder / "none.yaml", *data, *rate], "none.yaml"),
            ([c.pipeline, *data, *rate, "--set", "batch={size: null, global_size: 7}"], "7"),
            ([c.pipeline, *data, *rate, "--set", "batch={size: 1000, remainder: drop}"], "drop"),
        ]
        for arguments, words in slips:
            code, out, err = run("size", *arguments)
            check(code == 2, f"{arguments}: exit code {code}, expected 2\n{out[-300:]}{err}")
            check(words in err and out == "", f"{arguments}: '{words}' is not in: {err}")
