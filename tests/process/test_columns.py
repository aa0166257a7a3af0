"""Columns that the workers of a fleet measure, with the real binaries."""

import re
import subprocess

from harness import binary, check, check_same, cluster, wait_for
from test_files import own_dataset, worker_of
from test_metrics import PROBES, Scrape
from test_streams import DATA

PIPELINE = """millrace: 1
dataset: data
source: proof_states
shuffle: {{seed: 7}}
closure: {{max_subgraph_size: 64}}
filter: {{where: "nodes > 2"}}
batch: {{bucket: {{by: nodes, count: 4, budget: 600}}, remainder: {remainder}}}
"""
MEASURED = "millrace_columns_measured_examples_total"


def columns_of(folder):
    return {file.name: file.read_bytes() for file in (folder / ".millrace.columns").iterdir()}


def test_a_daemon_alone_measures_a_column_once_and_delivers_by_it():
    with cluster(DATA, pipeline=PIPELINE) as c:
        c.dataset, _ = own_dataset(c)
        daemon = c.serve(*PROBES)
        consumer = c.consumer(2)
        consumer.expect_success()
        once = Scrape(daemon).value(MEASURED)
        check(once > 0, "no example was built for the column")
        check("measuring columns" in daemon.text() and "columns are measured" in daemon.text(),
              daemon.text())
        check_same(c.delivered(consumer.log), c.reference(0, 2))
        c.consumer(1, job="again").expect_success()
        check(Scrape(daemon).value(MEASURED) == once, "the column was measured again")


def test_a_job_waits_for_a_worker_that_measures_and_the_next_worker_fetches_the_column():
    with cluster(DATA, pipeline=PIPELINE) as c:
        c.dataset, _ = own_dataset(c)
        dispatcher = c.dispatcher()
        consumer = c.consumer(1)

        def why():
            return "".join(job.get("why", "") for job in c.status()["jobs"])

        wait_for(lambda: "measuring column nodes: 0 %, waits for a worker with dataset 'data'" in why(),
                 "the job does not say what it waits for", consumer.popen)
        top = c.run("top", "--once", "--address", c.address)
        check("measuring column nodes: 0 %" in top, top)
        other, _ = own_dataset(c, "of-the-worker")
        worker = worker_of(c, other)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 1))
        check(re.search(r"fetched a measured column.*column=nodes", worker.text()), worker.text())
        check(columns_of(other) == columns_of(c.dataset), "the worker has another column")
        worker.kill()
        third, _ = own_dataset(c, "of-the-next")
        c.dataset, first = third, c.dataset
        late = c.worker(extra=PROBES)
        c.dataset = first
        again = c.consumer(1, job="again")
        again.expect_success()
        check(Scrape(late).value(MEASURED) == 0, "the second worker measured too")
        check(columns_of(third) == columns_of(first), "the second worker has another column")
        check(dispatcher.popen.poll() is None, dispatcher.text())


def test_a_command_without_a_server_shows_how_far_it_is_with_measuring():
    with cluster(DATA, pipeline=PIPELINE) as c:
        c.dataset, _ = own_dataset(c)
        command = [binary("cli"), "inspect", str(c.pipeline), "--dataset", f"data={c.dataset}"]
        for measured in (True, False):
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  check=True)
            check(("measuring columns of data" in done.stderr) == measured, done.stderr)
