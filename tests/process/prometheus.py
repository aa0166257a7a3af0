"""Prometheus for tests: the metrics and labels that queries may name, and a server that scrapes
daemons."""

import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.parse
import urllib.request

from harness import Skipped, check, wait_for
from test_metrics import documented

ROOT = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
DEPLOY = ROOT / "deploy" / "prometheus"
# Labels that Prometheus gives to what it scrapes (`fleet`: the example of a configuration).
OF_TARGETS = {"job", "instance", "fleet"}
# Series that Prometheus makes by itself.
OF_PROMETHEUS = {"up": OF_TARGETS, "ALERTS": OF_TARGETS | {"alertname", "alertstate", "severity"}}
METRIC = r"\b(?:millrace_\w+|up|ALERTS)\b"
SELECTOR = re.compile(rf"({METRIC})(?:\{{([^}}]*)\}})?")


def read_yaml(path):
    """Reads with Debian's Python, which has python3-yaml; the one that runs this needs no package."""
    code = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
    with path.open() as file:
        return json.loads(subprocess.run(["/usr/bin/python3", "-c", code], stdin=file,
                                         capture_output=True, check=True).stdout)


def program(name):
    if not (found := shutil.which(name)):
        raise Skipped(f"{name} is not installed: deploy/install-deps installs it")
    return found


def labels_by_series():
    """The labels of each series that Prometheus can have of Millrace. It renames a metric's own
    label `job`, because a target has such a label too."""
    found = dict(OF_PROMETHEUS)
    for name, (kind, labels, _, _) in documented().items():
        own = {"exported_job" if label == "job" else label for label in labels} | OF_TARGETS
        if kind == "histogram":
            found.update({name + "_bucket": own | {"le"}, name + "_sum": own, name + "_count": own})
        else:
            found[name] = own
    return found


def selectors(query):
    """The selectors of a query: [(metric, text of the matchers)]."""
    return [(m[1], m[2] or "") for m in SELECTOR.finditer(query)]


def check_names(query, where, known):
    """Checks that every metric and label of the query exists."""
    found = selectors(query)
    check(found, f"{where}: no metric of Millrace in {query}")
    every = set()
    for metric, matchers in found:
        check(metric in known, f"{where}: there is no metric {metric}")
        every |= known[metric]
        for label in re.findall(r"(\w+)\s*[=!]~?\s*\"", matchers):
            check(label in known[metric], f"{where}: {metric} has no label {label}")
    for group in re.findall(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^()]*)\)", query):
        for label in filter(None, re.split(r"[\s,]+", group)):
            check(label in every, f"{where}: no metric of the query has the label {label}: {query}")


def rules():
    """The alerts of alerts.yml, by name."""
    groups = read_yaml(DEPLOY / "alerts.yml")["groups"]
    every = [rule for group in groups for rule in group["rules"]]
    found = {rule["alert"]: rule for rule in every}
    check(len(found) == len(every), "two alerts have the same name")
    return found


def metrics_address(process):
    return wait_for(lambda: re.search(r"for=metrics address=(\S+)", process.text()), "no metrics",
                    process.popen)[1]


class Prometheus:
    """A server with the example's configuration, which scrapes `targets` ({fleet: [address]}) every
    second."""

    def __init__(self, c, targets):
        config = read_yaml(DEPLOY / "prometheus.yml")
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(DEPLOY / name) for name in config["rule_files"]]
        [scrape] = config["scrape_configs"]
        scrape["static_configs"] = [{"targets": addresses, "labels": {"fleet": fleet}}
                                    for fleet, addresses in targets.items()]
        file = c.folder / "prometheus.yml"
        file.write_text(json.dumps(config))  # which is YAML, too
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.process = c.start("prometheus", program("prometheus"), "--config.file", file,
                               "--storage.tsdb.path", c.folder / "prometheus",
                               "--web.listen-address", self.address, "--log.level", "warn")
        wait_for(self._ready, "Prometheus is not ready", self.process.popen)

    def _ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready"):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _get(self, path):
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}") as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            check(False, f"Prometheus refuses {urllib.parse.unquote(path)}: {error.read().decode()}")

    def query(self, query):
        """The series that the query returns now, without values that are no numbers."""
        data = self._get("/api/v1/query?" + urllib.parse.urlencode({"query": query}))
        return [series for series in data["result"] if series["value"][1] != "NaN"]

    def alerts(self):
        """{name: [(state, fleet)]} of all alerts that are pending or fire."""
        found = {}
        for alert in self._get("/api/v1/alerts")["alerts"]:
            labels = alert["labels"]
            found.setdefault(labels["alertname"], []).append((alert["state"], labels.get("fleet")))
        return found

    def rules(self):
        return [rule for group in self._get("/api/v1/rules")["groups"] for rule in group["rules"]]

    def wait_for_alert(self, name, state, fleet):
        """Waits until an alert is `pending`, or fires already, or until it is `firing`."""
        states = ("pending", "firing") if state == "pending" else (state,)
        wait_for(lambda: any(found in states and of == fleet
                             for found, of in self.alerts().get(name, [])),
                 f"{name} is not {state} in the fleet {fleet}", self.process.popen)
