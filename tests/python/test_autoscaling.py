"""The queries of deploy/kubernetes that say how many workers are wanted, in a real Prometheus."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import urllib.parse
import urllib.request

import pytest
import yaml
from conftest import pipeline, run
from patience import tries

from millrace import _binaries

FOLDER = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"]) / "deploy" / "kubernetes"


def keda():
    spec = yaml.safe_load((FOLDER / "keda" / "autoscaler.yaml").read_text())["spec"]
    (trigger,) = spec["triggers"]
    return trigger["metadata"]


def adapter():
    """The query that prometheus-adapter makes of its rule for the HorizontalPodAutoscaler."""
    values = yaml.safe_load((FOLDER / "hpa" / "prometheus-adapter-values.yaml").read_text())
    (rule,) = values["rules"]["external"]
    metric = yaml.safe_load((FOLDER / "hpa" / "autoscaler.yaml").read_text())["spec"]["metrics"][0]
    assert rule["seriesQuery"] == metric["external"]["metric"]["name"]
    return rule["metricsQuery"].replace("<<.LabelMatchers>>", 'namespace="millrace"')


def wait_for(condition, what):
    for _ in tries(pause=0.1):
        if found := condition():
            return found
    pytest.fail(what)


class Prometheus:
    """Scrapes each of the targets that a file names, once a second."""

    def __init__(self, folder):
        self.targets = folder / "targets.json"
        self.targets.write_text("[]")
        config = folder / "prometheus.yml"
        config.write_text(json.dumps({
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "pods", "file_sd_configs": [
                {"files": [str(self.targets)], "refresh_interval": "1s"}]}]}))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        self._url = f"http://{address}"
        self.log = folder / "prometheus.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--web.listen-address={address}",
                 f"--storage.tsdb.path={folder}/data"], stdout=log, stderr=log)

    def ready(self):
        try:
            with urllib.request.urlopen(f"{self._url}/-/ready") as answer:
                return answer.status == 200
        except OSError:
            assert self.process.poll() is None, self.log.read_text()
            return False

    def query(self, text):
        """The values of the series that a query gives."""
        url = f"{self._url}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
        with urllib.request.urlopen(url) as answer:
            data = json.load(answer)["data"]
        assert data["resultType"] == "vector", data
        return [float(series["value"][1]) for series in data["result"]]


def test_the_wanted_workers_come_out_of_prometheus(dataset, tmp_path):
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed")
    queries = [keda()["query"], adapter()]
    assert 'namespace="millrace"' in queries[0]
    prometheus = Prometheus(tmp_path)
    processes = [prometheus.process]
    try:
        wait_for(prometheus.ready, "Prometheus does not start")
        # Nothing is said while the metric is missing: then the workers have to stay.
        assert [prometheus.query(query) for query in queries] == [[], []]
        assert keda()["ignoreNullValues"] == "false"
        log, port = tmp_path / "serve.log", tmp_path / "port"
        with open(log, "wb") as out:
            daemon = subprocess.Popen(
                [_binaries.path("millraced"), "serve", "--dataset", f"data={dataset}", "--listen",
                 "127.0.0.1:0", "--batch-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0",
                 "--state", tmp_path / "state", "--port-file", port], stdout=out, stderr=out)
        processes.append(daemon)
        wait_for(lambda: port.exists() and "for=metrics" in log.read_text(), "no daemon")
        metrics = re.search(r"for=metrics address=(\S+)", log.read_text())[1]
        prometheus.targets.write_text(json.dumps(
            [{"targets": [metrics], "labels": {"namespace": "millrace"}}]))
        address = port.read_text().strip()
        (tmp_path / "train.yaml").write_text(json.dumps(pipeline()))
        processes.append(subprocess.Popen(
            [_binaries.path("millrace"), "consume", tmp_path / "train.yaml", "--address", address,
             "--epochs", "1000", "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def said():
            status = json.loads(run("status", "--address", address, "--format", "json"))
            return status.get("desired_workers", {})

        for query in queries:
            (value,) = wait_for(lambda: prometheus.query(query), f"{query}: no series")
            assert 1 <= value <= 2  # one worker is there, and the figure is at most twice that
        wait_for(lambda: [prometheus.query(query) for query in queries]
                 == [[float(workers(said()))]] * 2, f"status says {said()}")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def workers(desired):
    """The figure of all jobs together in `millrace status --format json`."""
    return desired.get("workers", 0)


