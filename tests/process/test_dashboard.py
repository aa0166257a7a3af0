"""The dashboard for Grafana: it is well formed, and each of its queries finds series in a real
Prometheus that scrapes daemons at work."""

import json
import re

from harness import check, cluster, numpy_python, tries, wait_for
from prometheus import ROOT, Prometheus, check_names, labels_by_series, metrics_address, program
from test_metrics import PROBES
from test_streams import DATA
from test_tuning import SLOW

DASHBOARD = ROOT / "deploy" / "grafana" / "millrace.json"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}
WIDTH = 24  # of Grafana's grid
# Units of Grafana that the panels use.
UNITS = {"short", "none", "s", "bytes", "Bps", "percentunit"}
# Grafana puts a length of time in its place.
INTERVAL = "$__rate_interval"


def dashboard():
    return json.loads(DASHBOARD.read_text())


def plots():
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def queries():
    return [(panel["title"], target["expr"]) for panel in plots() for target in panel["targets"]]


def variables():
    return {variable["name"]: variable for variable in dashboard()["templating"]["list"]}


def test_the_dashboard_is_well_formed():
    made = dashboard()
    check(made["schemaVersion"] >= 36, "older than Grafana 9")
    ids = [panel["id"] for panel in made["panels"]]
    check(len(set(ids)) == len(ids), f"panels with the same id: {ids}")
    titles = [panel["title"] for panel in made["panels"]]
    check(all(titles) and len(set(titles)) == len(titles), f"titles: {titles}")
    taken = {}
    for panel in made["panels"]:
        at = panel["gridPos"]
        check(at["x"] >= 0 and at["x"] + at["w"] <= WIDTH, f"{panel['title']} is beyond the grid")
        for cell in ((x, y) for x in range(at["x"], at["x"] + at["w"])
                     for y in range(at["y"], at["y"] + at["h"])):
            check(cell not in taken, f"{panel['title']} lies over {taken.get(cell)}")
            taken[cell] = panel["title"]
    for panel in plots():
        title = panel["title"]
        check(panel["description"], f"{title} has no description")
        check(panel["fieldConfig"]["defaults"].get("unit") in UNITS, f"{title} has no unit")
        check(panel["datasource"] == SOURCE, f"{title}: datasource")
        check(panel["targets"], f"{title} has no query")
        refs = [target["refId"] for target in panel["targets"]]
        check(len(set(refs)) == len(refs), f"{title}: {refs}")
        for target in panel["targets"]:
            check(target["datasource"] == SOURCE, f"{title}: datasource of a query")
            check(target["legendFormat"], f"{title}: a query without a legend")
    check(variables()["datasource"]["type"] == "datasource", "the variable datasource")
    check(set(variables()) == {"datasource", "fleet", "job", "instance"}, variables().keys())


def check_variables(query, where):
    for name in re.findall(r"\$\{?(\w+)", query.replace(INTERVAL, "")):
        check(name in variables(), f"{where}: there is no variable {name}")


def test_every_query_of_the_dashboard_names_what_exists():
    known = labels_by_series()
    for title, query in queries():
        check_names(query, title, known)
        check_variables(query, title)
        legends = [t["legendFormat"] for panel in plots() for t in panel["targets"] if t["expr"] == query]
        for label in re.findall(r"\{\{(\w+)\}\}", " ".join(legends)):
            check(any(label in known[m] for m in re.findall(r"\b(?:millrace_\w+|up)\b", query)),
                  f"{title}: the legend names the label {label}")
    for variable in variables().values():
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"]).groups()
            check_names(metric, variable["name"], known)
            check_variables(metric, variable["name"])
            check(variable["definition"] == variable["query"]["query"], f"{variable['name']}: definition")
            check(label in known[metric.split("{")[0]], f"{variable['name']}: label {label}")


def expanded(query):
    """The query as Grafana asks it with `All` chosen in every variable."""
    query = query.replace(INTERVAL, "10s")
    for name, variable in variables().items():
        query = query.replace(f"${name}", variable.get("allValue", ""))
    return query


def serve(c):
    """Starts a daemon with certificates, a cache on disk and a plugin."""
    tls = c.folder / "tls"
    c.run("certs", tls)
    plugin = c.folder / "plugin"
    plugin.mkdir()
    (plugin / "slow.py").write_text(SLOW)
    config = c.folder / "serve.yaml"
    config.write_text(f"plugins: {{slow: {{path: {plugin}, python: {numpy_python()}}}}}\n")
    return c.serve(*PROBES, "--config", config, "--cache-dir", c.folder / "cache", "--tls", tls / "serve")


def begin_jobs(c):
    """Starts a job over the dataset, with the cache, and one over the plugin."""
    secure = ("--delay", "0.02", "--tls", c.folder / "tls" / "trainer")
    c.pipeline.write_text(c.pipeline.read_text() + "cache: {examples: disk}\n")
    c.consumer(2, epochs=0, job="train", extra=secure)
    c.pipeline = c.folder / "plugin.yaml"
    c.pipeline.write_text('millrace: 1\nsource: {python: "slow:Slow"}\nbatch: {size: 2}\n')
    c.consumer(1, epochs=0, job="speech", extra=secure)


def test_every_query_of_the_dashboard_finds_series_over_a_daemon_at_work():
    program("prometheus")
    with cluster(DATA) as c:
        p = Prometheus(c, {"main": [metrics_address(serve(c))]})
        # Jobs begin later, so that Prometheus sees what they add.
        wait_for(lambda: p.query("millrace_leader == 1"), "Prometheus does not see the daemon")
        begin_jobs(c)
        missing = dict.fromkeys(queries())
        for _ in tries(pause=0.5):
            missing = {(title, query): None for title, query in missing if not p.query(expanded(query))}
            if not missing:
                break
        check(not missing, "no series for\n" + "\n".join(f"{t}: {expanded(q)}" for t, q in missing))
        for name, variable in variables().items():
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)",
                                             variable["query"]["query"]).groups()
                values = {s["metric"].get(label) for s in p.query(expanded(metric))}
                check(values and None not in values, f"the variable {name} has the values {values}")
        wait_for(lambda: p.query('sum by (exported_job) (rate(millrace_batches_delivered_total'
                                 '{exported_job="train"}[10s])) > 0'), "the dashboard shows no rate")
