"""Metrics and probes, compared with the list of the documentation."""

import os
import pathlib
import re
import urllib.request

from harness import check, cluster, wait_for
from test_streams import DATA

PAGE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", ".")) / "docs/reference/metrics.md"
PROBES = ("--metrics-listen", "127.0.0.1:0")
# Label values that must be there before any job, with the value 0.
FROM_THE_START = {
    "millrace_asks_total": 'kind="first"', "millrace_steps_moved_total": 'reason="failed"',
    "millrace_duplicate_batches_dropped_total": "", "millrace_duplicate_mismatch_total": "",
    "millrace_file_verify_failures_total": 'kind="served"',
    "millrace_examples_dropped_total": 'reason="too_large"', "millrace_prefetch_bytes": "",
    "millrace_consumers": 'state="live"', "millrace_workers": 'state="silent"',
    "millrace_store_errors_total": 'backend="sqlite",kind="unavailable"',
    "millrace_send_blocked_seconds_total": "", "millrace_shared_batches_total": "",
    "millrace_cache_builds_total": "", "millrace_cache_failures_total": "",
    "millrace_cache_hits_total": 'level="memory"', "millrace_cache_bytes": 'level="memory"',
    "millrace_cache_evictions_total": 'level="memory"',
    "millrace_columns_measured_examples_total": "",
    "millrace_batch_build_seconds_count": 'stage="closure"',
    "millrace_start_timestamp_seconds": "", "millrace_event_seconds_count": "",
    "millrace_dataset_failed": 'dataset="data"', "millrace_memory_bytes": "",
    "millrace_memory_limit_bytes": "",
}


class Scrape:
    """One answer of /metrics: types and help texts by name, values by name and label text."""

    def __init__(self, process):
        address = wait_for(lambda: re.search(r"for=metrics address=(\S+)", process.text()),
                           "no metrics", process.popen)[1]
        with urllib.request.urlopen(f"http://{address}/metrics") as answer:
            text = answer.read().decode()
        self.types = dict(re.findall(r"^# TYPE (millrace_\S+) (\S+)$", text, re.M))
        self.helps = dict(re.findall(r"^# HELP (millrace_\S+) (.+)$", text, re.M))
        self.values = {(name, labels or ""): float(value) for name, labels, value in
                       re.findall(r"^(millrace_\w+)(?:\{(.*)\})? (\S+)$", text, re.M)}

    def value(self, name, labels=""):
        check((name, labels) in self.values, f"no {name}{{{labels}}} in {sorted(self.values)}")
        return self.values[name, labels]

    def labels(self, name):
        """The sets of label names in a metric's series."""
        return {tuple(re.findall(r'(\w+)="', labels)) for n, labels in self.values if n == name}


def documented():
    """The entries of the page: name -> (type, labels, processes, meaning)."""
    entry = re.compile(r"^- `(millrace_\w+)(?:\{([\w,]+)\})?`, (\w+) \(([\w, ]+)\): (.+)$", re.M)
    text = PAGE.read_text().replace("\n  ", " ")
    entries = {m[1]: (m[3], tuple((m[2] or "").split(",")) if m[2] else (), m[4], m[5])
               for m in entry.finditer(text)}
    listed = re.findall(r"^- `(millrace_\w+)", text, re.M)
    check(sorted(entries) == sorted(listed), f"{len(entries)} of {len(listed)} metrics in {PAGE}")
    return entries


def check_page(scrape, *processes):
    """Checks that the scrape has exactly the documented metrics of the roles that run in this
    process."""
    rows = {name: row for name, row in documented().items()
            if set(processes) & set(row[2].split(", "))}
    check(set(scrape.types) == set(rows), f"{processes}: shown and documented differ in "
                                          f"{set(scrape.types) ^ set(rows)}")
    for name, (kind, labels, _, meaning) in rows.items():
        check(scrape.types[name] == kind, f"{name} is a {scrape.types[name]}, documented as {kind}")
        check(scrape.helps[name] == meaning, f"{name}: '{scrape.helps[name]}', not '{meaning}'")
        series = name + "_count" if kind == "histogram" else name
        for shown in scrape.labels(series):
            check(set(shown) == set(labels), f"{name} has labels {shown}, documented {labels}")
        if series in FROM_THE_START:
            check((series, FROM_THE_START[series]) in scrape.values,
                  f"{processes}: {series}{{{FROM_THE_START[series]}}} is not there from the start")


def test_every_documented_metric_is_shown_and_counters_move_with_a_job():
    with cluster(DATA) as c:
        daemon = c.serve(*PROBES)
        before = Scrape(daemon)
        check_page(before, "dispatcher", "worker")
        check(before.value("millrace_asks_total", 'kind="first"') == 0, "asks before any job")
        for method in ("Attach", "Work", "StreamBatches", "GetStatic"):
            refused = f'method="{method}",reason="resource_exhausted"'
            check(before.value("millrace_refused_requests_total", refused) == 0, method)
        consumer = c.consumer(1, job="counted")
        consumer.expect_success()
        lines = c.delivered(consumer.log)
        job = 'job="counted"'
        after = Scrape(daemon)
        check_page(after, "dispatcher", "worker")
        check(after.value("millrace_batches_delivered_total", job) == len(lines), "batches")
        examples = sum(len(line["examples"]) for line in lines)
        check(after.value("millrace_examples_delivered_total", job) == examples, "examples")
        check(after.value("millrace_batch_bytes_total", job) > 0, "bytes")
        check(after.value("millrace_asks_total", 'kind="first"') > 0, "asks")
        check(after.value("millrace_leader") == 1 and after.value("millrace_term") > 1e9, "term")
        check(after.value("millrace_workers", 'state="ready"') == 1, "ready workers")
        built = after.value("millrace_batch_build_seconds_count", 'stage="closure"')
        check(built == len(lines), f"{built} batches built, {len(lines)} delivered")
        check(after.value("millrace_store_commit_seconds_count", 'backend="sqlite"') >= 1, "commits")
        check(after.value("millrace_last_progress_timestamp_seconds", job) > 1e9, "progress")
        waited = sum(v for (n, l), v in after.values.items()
                     if n == "millrace_consumer_wait_seconds_total" and job in l)
        check(waited > 0, "a consumer waits at least for its first batch")
        c.run("status", "--address", c.address)
        daemon.terminate()
        check(daemon.wait() == 0, daemon.text())


def test_operations_are_stages_of_builds_and_a_dataset_has_its_kind():
    with cluster(DATA) as c:
        daemon = c.serve(*PROBES)
        sets = ["tensors.label={cast: node_label, dtype: float64, at: worker}", "output=[label]"]
        consumer = c.consumer(1, extra=[word for text in sets for word in ("--set", text)])
        consumer.expect_success()
        scrape = Scrape(daemon)
        stage = "tensors: cast"
        built = len(c.delivered(consumer.log))
        check(scrape.value("millrace_batch_build_seconds_count", f'stage="{stage}"') == built,
              f"{scrape.values}, not {built} batches")
        check(scrape.value("millrace_dataset_unverified_ratio", 'dataset="data",kind="coq"') == 0,
              "unverified")
        wait_for(lambda: any(s["stage"] == stage and int(s["count"]) == built
                             for s in c.status()["workers"][0]["build"]),
                 f"{stage} is not in the status")
        for command in (("status",), ("top", "--once")):
            check(stage in c.run(*command, "--address", c.address), f"{stage} is not in {command}")


def test_a_worker_and_a_dispatcher_show_their_own_metrics_alone():
    with cluster(DATA) as c:
        dispatcher = c.dispatcher(extra=PROBES)
        worker = c.worker(extra=PROBES)
        check_page(Scrape(dispatcher), "dispatcher")
        check_page(Scrape(worker), "worker")
        check("millrace_term" not in Scrape(worker).types, "a worker has no term")
        wait_for(lambda: Scrape(dispatcher).value("millrace_workers", 'state="ready"') == 1,
                 "the worker is not seen")


def test_a_refused_trainer_is_counted_by_method_and_reason():
    with cluster(DATA) as c:
        daemon = c.serve(*PROBES)
        name = 'method="Attach",reason="failed_precondition"'
        check(Scrape(daemon).value("millrace_refused_requests_total", name) == 0, "refused before")
        c.consumer(1, extra=["--set", "batch.size=1000000000"]).wait()
        check(Scrape(daemon).value("millrace_refused_requests_total", name) == 1, "not counted")
