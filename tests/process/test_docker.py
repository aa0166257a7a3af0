"""docker/compose.yaml: what it says, and what it runs, without docker (compose.py). test_compose.py
has what docker itself makes of it."""

import json
import os
import re
import signal
import urllib.parse

from compose import FOLDER, ROOT, Fleet, compose, fleet, interpolated, private_files
from harness import binary, check, cluster, wait_for
from machine import need
from prometheus import program, read_yaml, rules
from test_streams import DATA

MILLRACE = ("certs", "dispatcher", "worker", "trainer", "operator")
DAEMONS = ("dispatcher", "worker", "prometheus", "grafana")
PORTS = {"7700", "7702", "9090", "3000"}
NODES = 5000  # of the graph that is served


def graph(c):
    folder = c.folder / "graph"
    c.run("generate", "--kind", "graph", folder, "--nodes", NODES)
    return folder


# --- what it says ---


def test_compose_publishes_ports_on_loopback_only():
    published = [port for service in compose()["services"].values() for port in service.get("ports", [])]
    found = set()
    for port in published:
        own = re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)
        check(own, f"{port} is published beyond loopback")
        found.add(own[1])
    check(found == PORTS, f"{found}")
    modes = {service.get("network_mode") for service in compose()["services"].values()}
    check(modes == {None, "none", "service:dispatcher"}, f"{modes}")


def test_compose_pins_its_images_and_takes_millrace_of_this_version():
    version = re.search(r"project\(Millrace VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
    for name, service in compose()["services"].items():
        if name in MILLRACE:
            check(service["image"] == f"millrace:{version}", f"{name}: {service['image']}")
        else:
            check(re.fullmatch(r"[\w./]+:v?\d+\.\d+\.\d+", service["image"]), f"{name}: {service['image']}")


def test_compose_has_no_secret_and_gives_each_role_its_own_certificate():
    said = (FOLDER / "compose.yaml").read_text()
    check(not re.search(r"password|secret[_:]|token", said, re.I), "it names a secret")
    for name, service in compose()["services"].items():
        volumes = {str(v).split(":")[0] for v in service.get("volumes", [])}
        own = {f"{name}-tls"} & set(compose()["volumes"])
        if name != "certs":
            check(volumes & {"ca", *(v for v in volumes if v.endswith("-tls"))} == own,
                  f"{name} sees the certificates {volumes}")


def test_compose_confines_its_containers_and_starts_them_again():
    for name, service in compose()["services"].items():
        check(service["security_opt"] == ["no-new-privileges:true"], f"{name}: {service['security_opt']}")
        check(service["restart"] == ("unless-stopped" if name in DAEMONS else "no"), f"{name}: restart")
        if name != "grafana":  # its image starts by a script that was never run here
            check(service["read_only"] is True and service["cap_drop"] == ["ALL"], f"{name} is not confined")
        if name in DAEMONS:
            check(service["healthcheck"]["test"][0] == "CMD", f"{name} has no health check")
    for daemon in ("dispatcher", "worker"):
        service = compose()["services"][daemon]
        grace = next((int(w.split("=")[1]) for w in service["command"] if w.startswith("--grace=")), 10)
        # `grace`, and 2 s for everything else (docs/guides/run-a-daemon.md).
        check(int(service["stop_grace_period"].rstrip("s")) >= grace + 5, f"{daemon} is killed while it drains")


def test_compose_mounts_files_of_the_checkout_that_exist():
    mounted = {}
    for service in compose()["services"].values():
        for volume in service.get("volumes", []):
            source, target, *mode = interpolated(str(volume), {"MILLRACE_DATASET": "/"}).split(":")
            if source.startswith("."):
                check((FOLDER / source).exists() and mode == ["ro"], f"{volume}")
                mounted[target] = (FOLDER / source).resolve()
    check(mounted["/etc/prometheus/alerts.yml"] == ROOT / "deploy/prometheus/alerts.yml", f"{mounted}")
    [source] = read_yaml(mounted["/etc/grafana/provisioning/datasources/millrace.yml"])["datasources"]
    check(source["type"] == "prometheus" and source["isDefault"], f"{source}")
    check(source["url"] == "http://prometheus:9090", f"{source}")
    [provider] = read_yaml(mounted["/etc/grafana/provisioning/dashboards/millrace.yml"])["providers"]
    [dashboard] = [t for t in mounted if t.startswith(provider["options"]["path"] + "/")]
    check(mounted[dashboard] == ROOT / "deploy/grafana/millrace.json", f"{mounted[dashboard]}")
    home = compose()["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    check(home == dashboard, home)


# --- what it runs ---


def test_the_certificates_of_compose_are_made_once_and_only_their_user_reads_the_keys():
    need("unshare", "setpriv", "nsenter", "ip")
    with cluster(DATA) as c:
        made = Fleet(c, DATA)
        made.start("certs", 1).expect_success()
        keys = {path: path.read_bytes() for path in made.volume("").rglob("*.key")}
        check(len(keys) == 7, f"the CA's, and six roles': {sorted(keys)}")
        for name in ("dispatcher", "worker", "trainer", "operator"):
            found = private_files(made.volume(f"{name}-tls"))
            check(found == {"tls.key": made.image["user"]}, f"{name}: {found}")
        check("ca.key" in private_files(made.volume("ca")), "everybody reads the key of the CA")
        again = made.start("certs", 2)
        again.expect_success()
        check("is there already" in again.text(), again.text())
        check({path: path.read_bytes() for path in keys} == keys, "a second start made other keys")


def test_the_fleet_of_compose_serves_a_trainer_and_tells_an_operator():
    with cluster(DATA) as data, fleet(graph(data)) as (made, dispatcher, workers):
        trainer = made.start("trainer")
        trainer.expect_success()
        check(f", {NODES} examples" in trainer.text(), trainer.text())
        inside = made.program("dispatcher", dispatcher)
        operator = made.start("operator", network=inside)
        operator.expect_success()
        for number in range(len(workers)):
            check(f"{made.addresses[f'worker-{number + 1}']}:7701" in operator.text(), operator.text())
        address = f"{made.addresses['dispatcher-1']}:7700"
        status = ("--format", "json", "--address", address)
        tls = made.volume("operator-tls")
        seen = json.loads(made.on_the_host(binary("cli"), "status", *status, "--tls", tls).stdout)
        check(len(seen["workers"]) == len(workers), f"{seen['workers']}")
        refused = made.on_the_host(binary("cli"), "status", *status, expect=None)
        check(refused.returncode != 0 and "wants TLS" in refused.stderr, refused.stderr)


def test_the_index_of_compose_is_made_once_for_all_containers_and_kept():
    # The index beside this dataset is for another user only.
    with fleet(DATA) as (made, dispatcher, workers):
        dispatcher.kill()
        again = made.start("dispatcher", 2)
        wait_for(lambda: made.healthy("dispatcher", again) == 0, "the dispatcher is not healthy", again.popen)
        text = "".join(process.text() for process in (dispatcher, *workers, again))
        check(text.count("index built") == 1 and "index renewed" not in text, text)


def test_the_health_checks_of_compose_say_who_is_ready():
    with fleet(DATA, workers=1) as (made, dispatcher, [worker]):
        dispatcher.kill()
        wait_for(lambda: made.healthy("worker", worker) == 1, "a worker is healthy without a dispatcher")
        again = made.start("dispatcher", 2)
        wait_for(lambda: made.healthy("dispatcher", again) == 0, "the dispatcher is not healthy", again.popen)


def test_a_worker_of_compose_drains_when_it_is_stopped():
    with fleet(DATA, workers=1) as (made, _, [worker]):
        os.kill(made.program("worker", worker), signal.SIGTERM)
        check(worker.wait() == 0, worker.text())
        check("drain" in worker.text() or "stopped" in worker.text(), worker.text())


def test_prometheus_of_compose_scrapes_its_fleet_and_loads_the_alerts():
    program("prometheus")
    with fleet(DATA) as (made, _, workers):
        config = made.c.folder / "prometheus.yml"
        said = read_yaml(FOLDER / "prometheus.yml")
        [job] = said["scrape_configs"]
        [asked] = job.pop("dns_sd_configs")
        check(asked["names"] == ["dispatcher", "worker"] and asked["type"] == "A", f"{asked}")
        # No name server answers here as that of docker does: all addresses of a service.
        job["static_configs"] = [{"targets": [f"{a}:{asked['port']}" for a in made.addresses.values()]}]
        config.write_text(json.dumps(said))
        os.chmod(config, 0o644)
        server = made.start("prometheus", replace=[("/etc/prometheus/prometheus.yml", config)])
        wait_for(lambda: made.healthy("prometheus", server) == 0, f"not ready: {server.text()}", server.popen)
        api = f"http://{made.addresses['prometheus-1']}:9090/api/v1"
        up = urllib.parse.quote('up{fleet="compose"} == 1')
        wait_for(lambda: len(made.get(f"{api}/query?query={up}")["data"]["result"]) == 1 + len(workers),
                 "Prometheus does not see the fleet", server.popen)
        loaded = {rule["name"] for group in made.get(f"{api}/rules")["data"]["groups"] for rule in group["rules"]}
        check(loaded == set(rules()), f"the alerts are {loaded}")
