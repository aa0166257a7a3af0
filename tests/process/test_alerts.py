"""Alerts: what they name exists, each has its tests and a section of the page, and faults of real
daemons raise them in a real Prometheus."""

import re
import subprocess

from harness import check, cluster, wait_for
from prometheus import (DEPLOY, ROOT, Prometheus, check_names, labels_by_series, metrics_address,
                        program, read_yaml, rules, selectors)
from test_files import own_dataset, write_zeros
from test_metrics import PROBES
from test_streams import DATA

PAGE = "docs/guides/alerts.md"
# Selectors of alerts without series in a fleet without faults, and why.
WITHOUT_SERIES = {
    "millrace_plugin_restarts_total": "the fleet has no plugin; the dashboard's test has one",
    "millrace_plugin_failed_tries_total": "likewise",
}


def promtool(*arguments):
    done = subprocess.run([program("promtool"), *arguments], cwd=DEPLOY, capture_output=True, text=True,
                          check=False)
    check(done.returncode == 0, f"promtool {' '.join(arguments)}:\n{done.stdout}{done.stderr}")


def test_each_alert_fires_in_one_case_and_stays_quiet_in_another():
    promtool("check", "config", "prometheus.yml")
    promtool("test", "rules", "alerts_test.yml")
    cases = {}
    for test in read_yaml(DEPLOY / "alerts_test.yml")["tests"]:
        for case in test["alert_rule_test"]:
            cases.setdefault(case["alertname"], set()).add(bool(case["exp_alerts"]))
    for name in rules():
        check(cases.get(name) == {True, False}, f"{name} has no test of each kind: {cases.get(name)}")
    check(set(cases) == set(rules()), "tests of alerts that do not exist")


def test_each_alert_names_what_exists_and_a_section_that_says_what_to_do():
    known = labels_by_series()
    page = (ROOT / PAGE).read_text()
    sections = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=\n##|\Z)", page, re.M | re.S))
    check(list(sections) == list(rules()), "sections of the page and alerts differ: "
          f"{set(sections) ^ set(rules())}, or their order does")
    for name, rule in rules().items():
        check_names(rule["expr"], name, known)
        check(set(rule["annotations"]) == {"summary", "description", "runbook"}, name)
        check(rule["annotations"]["runbook"] == f"{PAGE}#{name.lower()}", f"{name}: runbook")
        check(rule["labels"].get("severity") in ("critical", "warning", "info"), f"{name}: severity")
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]):
            check(any(label in known[metric] for metric, _ in selectors(rule["expr"])),
                  f"{name}: its description names the label {label}")
        for part in ("**Means**", "**Look**", "**Do**"):
            check(part in sections[name] or "**do** as for" in sections[name], f"{PAGE}: {name}: no {part}")


def secure_fleet(c):
    """A dispatcher, a worker and a job with certificates and a dataset of their own. Returns the
    processes that listen, and the largest file of the dataset."""
    tls = c.folder / "tls"
    c.run("certs", tls)
    c.dataset, file = own_dataset(c)
    dispatcher = c.dispatcher(extra=(*PROBES, "--tls", tls / "dispatcher"))
    worker = c.worker(extra=(*PROBES, "--tls", tls / "worker"))
    c.consumer(1, epochs=0, job="secret", extra=("--delay", "0.02", "--tls", tls / "trainer"))
    return dispatcher, worker, file


def test_faults_of_real_daemons_raise_alerts():
    program("prometheus")
    with cluster(DATA) as c:
        serve = c.serve(*PROBES, state="main")
        c.consumer(1, epochs=0, job="train", extra=("--delay", "0.02"))
        dispatcher, worker, file = secure_fleet(c)
        secure = [metrics_address(process) for process in (dispatcher, worker)]
        p = Prometheus(c, {"main": [metrics_address(serve)], "secure": secure})
        wait_for(lambda: len(p.query('millrace_workers{state="ready"} == 1')) == 2, "no worker is ready")
        for name, rule in rules().items():
            for metric, matchers in selectors(rule["expr"]):
                if metric not in WITHOUT_SERIES:
                    wait_for(lambda s=f"{metric}{{{matchers}}}": p.query(s), f"{name}: {metric} "
                             f"has no series with {matchers}")
        wait_for(lambda: all(rule["health"] == "ok" for rule in p.rules()), "a rule is not evaluated")
        check(len(p.rules()) == len(rules()), "rules are missing")
        check(not any(state == "firing" for alerts in p.alerts().values() for state, _ in alerts),
              f"an alert fires without a fault: {p.alerts()}")

        write_zeros(file)
        p.wait_for_alert("MillraceFilesChanged", "firing", "secure")
        p.wait_for_alert("MillraceDatasetFailed", "pending", "secure")
        worker.kill()
        p.wait_for_alert("MillraceWorkerLost", "firing", "secure")
        p.wait_for_alert("MillraceNoWorker", "pending", "secure")
        dispatcher.kill()
        p.wait_for_alert("MillraceDaemonDown", "pending", "secure")
        p.wait_for_alert("MillraceNoLeader", "pending", "secure")
        check(not any(("firing", "main") in alerts for alerts in p.alerts().values()),
              f"an alert of the other fleet fires: {p.alerts()}")
