"""Jobs that mix two datasets, with the real binaries."""

from harness import check, cluster, wait_for

PIPELINE = """millrace: 1
branches:
  large: {{dataset: data, source: {{roots: train}}, shuffle: {{seed: 1}}}}
  small: {{dataset: other, source: {{roots: train}}, filter: {{where: "nodes > 1"}}, cache: {{examples: memory}}}}
mix: {{weights: {{large: 3, small: 1}}, epoch: {{of: large}}}}
targets: [y]
batch: {{{batch}, remainder: {remainder}}}
"""


def graphs(c):
    """Makes the datasets `data` and `other`. Returns what names the second one."""
    c.dataset = c.folder / "large"
    other = c.folder / "small"
    for folder, nodes in ((c.dataset, 600), (other, 90)):
        c.run("generate", folder, "--kind", "graph", "--nodes", nodes, "--roots", nodes // 3,
              "--degree", 4)
    return ("--dataset", f"other={other}")


def test_a_mix_is_delivered_as_built_alone_by_workers_that_have_both_datasets():
    with cluster(None, pipeline=PIPELINE) as c:
        other = graphs(c)
        c.dispatcher(extra=other)
        c.worker()  # has only one of them
        consumer = c.consumer(2, epochs=3)
        missing = "measuring column nodes: 0 %, waits for a worker with dataset 'other'"
        wait_for(lambda: any(missing in job.get("why", "") for job in c.status()["jobs"]),
                 "the job does not say which dataset is missing", consumer.popen)
        c.worker(extra=other)
        consumer.expect_success()
        checked = c.run("check-log", c.pipeline, "--log", consumer.log, "--dataset",
                        f"data={c.dataset}", *other, "--world-size", 2, "--epochs", 3)
        check("each as often as the mix has it" in checked, checked)
        later = c.consumer(1, job="later", epochs=0)

        def branches():
            return [job["branches"] for job in c.status()["jobs"] if job.get("branches")]

        wait_for(lambda: any(float(b[1].get("passes", 0)) > 0 for b in branches()),
                 "status does not say how far branches are read", later.popen)
        names = [branch["name"] for branch in branches()[0]]
        check(names == ["large", "small"], names)
        told = c.run("status", "--address", c.address)
        check("BRANCH" in told and "small" in told, told)
