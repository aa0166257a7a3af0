"""deploy/kubernetes: the manifests keep to their schemas, and what they run serves a job."""

import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml
from conftest import run
from custom_resources import SCHEMAS
from jsonschema import Draft202012Validator
from patience import tries

from millrace import _binaries

kubernetes_validate = pytest.importorskip("kubernetes_validate")

ROOT = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
FOLDER = ROOT / "deploy" / "kubernetes"
COMBINATIONS = ([], ["several-dispatchers"], ["tls"], ["hpa"], ["keda"], ["trainer"],
                ["trainer", "tls"], ["several-dispatchers", "trainer", "tls", "keda"])
OLDEST = 5  # of kustomize: earlier ones do not know `labels`


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """build(components) gives the resources of the base with components, as kubectl makes them."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    version = subprocess.run(["kubectl", "version", "--client"], capture_output=True, text=True,
                             check=False).stdout
    found = re.search(r"Kustomize Version: v(\d+)", version)
    if found is None or int(found[1]) < OLDEST:
        pytest.skip(f"kubectl has no kustomize {OLDEST}: {version.strip()}")
    scratch = tmp_path_factory.mktemp("kustomize")
    shutil.copytree(FOLDER, scratch / "kubernetes")
    made = {}

    def make(folder):
        done = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0 and not done.stderr, done.stderr
        return list(yaml.safe_load_all(done.stdout))

    def resources(components):
        key = tuple(components)
        if key not in made:
            overlay = scratch / f"overlay-{len(made)}"
            overlay.mkdir()
            (overlay / "kustomization.yaml").write_text(json.dumps({
                "namespace": "millrace", "resources": ["../kubernetes/base"],
                "components": [f"../kubernetes/{name}" for name in components]}))
            made[key] = make(overlay)
        return made[key]

    resources.example = lambda: make(scratch / "kubernetes" / "example")
    return resources


def one(resources, kind, name):
    """The resource of that kind whose name is `name`, with or without the hash of its content."""
    found = [r for r in resources if r["kind"] == kind
             and re.fullmatch(rf"{name}(-[a-z0-9]{{10}})?", r["metadata"]["name"])]
    assert len(found) == 1, (kind, name, [r["metadata"]["name"] for r in resources])
    return found[0]


def check(resource):
    """Raises an error if a resource does not keep to its schema, or has a field that it has not."""
    if resource["kind"] in SCHEMAS:
        Draft202012Validator(SCHEMAS[resource["kind"]]).validate(resource)
    else:
        kubernetes_validate.validate(resource, "1.30", strict=True)


def pods(resources):
    return [(r["kind"], r["spec"]["template"]["spec"]) for r in resources
            if r["kind"] in ("StatefulSet", "Deployment", "Job")]


def test_the_manifests_keep_to_their_schemas(build):
    kinds = set()
    for resources in [*map(build, COMBINATIONS), build.example()]:
        for resource in resources:
            check(resource)
            kinds.add(resource["kind"])
            if resource["kind"] != "Namespace":
                assert resource["metadata"]["namespace"] == "millrace"
    assert kinds >= {"Issuer", "Certificate", "ScaledObject", "HorizontalPodAutoscaler", "Job",
                     "PodDisruptionBudget", "NetworkPolicy", "StatefulSet", "Deployment"}


def test_the_schemas_refuse_what_is_wrong(build):
    resources = build(["several-dispatchers", "trainer", "tls", "keda"])
    for kind, name in (("Deployment", "millrace-worker"), ("Certificate", "millrace-worker"),
                       ("ScaledObject", "millrace-worker"), ("Job", "train")):
        wrong = json.loads(json.dumps(one(resources, kind, name)))
        wrong["spec"]["replcas"] = 1
        with pytest.raises(Exception, match="replcas"):
            check(wrong)


def test_every_container_is_confined(build):
    for components in COMBINATIONS:
        for kind, pod in pods(build(components)):
            assert pod["securityContext"]["runAsNonRoot"] is True
            assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
            assert pod["automountServiceAccountToken"] is False
            for container in [*pod["containers"], *pod.get("initContainers", [])]:
                confined = container["securityContext"]
                assert confined["readOnlyRootFilesystem"] is True, (kind, container["name"])
                assert confined["allowPrivilegeEscalation"] is False
                assert confined["capabilities"] == {"drop": ["ALL"]}
                assert {"requests", "limits"} <= set(container["resources"])


def test_images_have_the_version_of_this_checkout(build):
    text = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"^project\(\w+\s+VERSION\s+([\d.]+)", text, re.M | re.I)[1]
    images = {container["image"] for components in COMBINATIONS
              for _, pod in pods(build(components))
              for container in [*pod["containers"], *pod.get("initContainers", [])]}
    assert images == {f"millrace:{version}"}


def test_what_refers_to_something_finds_it(build):
    """Mounts, ConfigMaps, Secrets, ports of probes, and Services have what they name."""
    for components in COMBINATIONS:
        resources = build(components)
        named = {(r["kind"], r["metadata"]["name"]) for r in resources}
        named |= {("Secret", r["spec"]["secretName"]) for r in resources
                  if r["kind"] == "Certificate"}
        for kind, pod in pods(resources):
            volumes = {v["name"]: v for v in pod["volumes"]}
            if kind == "StatefulSet":
                owner = one(resources, kind, "millrace-dispatcher")["spec"]
                assert ("Service", owner["serviceName"]) in named
                claims = owner.get("volumeClaimTemplates") or []
                volumes |= {claim["metadata"]["name"]: claim for claim in claims}
            for volume in volumes.values():
                if "configMap" in volume:
                    assert ("ConfigMap", volume["configMap"]["name"]) in named
                if "secret" in volume:
                    assert ("Secret", volume["secret"]["secretName"]) in named
            for container in [*pod["containers"], *pod.get("initContainers", [])]:
                assert {m["name"] for m in container["volumeMounts"]} <= set(volumes)
                for source in container["envFrom"]:
                    assert ("ConfigMap", source["configMapRef"]["name"]) in named
                ports = {p["containerPort"] for p in container.get("ports", [])}
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    if probe in container:
                        assert container[probe]["grpc"]["port"] in ports
        fleet = one(resources, "ConfigMap", "millrace-fleet")["data"]
        stateful = one(resources, "StatefulSet", "millrace-dispatcher")["spec"]
        addresses = [f"millrace-dispatcher-{n}:7700" for n in range(stateful["replicas"])]
        assert fleet["MILLRACE_DISPATCHERS"].split(",") == addresses
        for address in addresses:
            assert ("Service", address.split(":")[0]) in named
        # A worker has the time that it may need to drain.
        pod = one(resources, "Deployment", "millrace-worker")["spec"]["template"]["spec"]
        grace = next(int(a.split("=")[1]) for a in pod["containers"][0]["args"] if "--grace" in a)
        assert pod["terminationGracePeriodSeconds"] >= grace + 5


def test_an_autoscaler_owns_the_number_of_workers(build):
    for components in COMBINATIONS:
        workers = one(build(components), "Deployment", "millrace-worker")["spec"]
        assert ("replicas" in workers) == (not {"hpa", "keda"} & set(components)), components


def run_program(*arguments, env):
    done = subprocess.run([_binaries.path("millraced"), *arguments], env=env, capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


class Container:
    """A container's process on this machine: its variables, its arguments and its configuration,
    with folders and addresses of this machine in place of the pod's."""

    def __init__(self, resources, kind, name, folder, replace, fields, init=False):
        pod = one(resources, kind, name)["spec"]["template"]["spec"]
        made = pod["initContainers" if init else "containers"][0]
        values = {}
        for source in made["envFrom"]:
            values |= one(resources, "ConfigMap", source["configMapRef"]["name"])["data"]
        for variable in made.get("env", []):
            values[variable["name"]] = variable.get("value", fields.get(variable["name"]))
        self.environment = {key: self._local(str(value), replace) for key, value in values.items()}
        arguments = [re.sub(r"\$\((\w+)\)", lambda m: str(values[m[1]]), argument)
                     for argument in [*made["command"], *made["args"]]]
        self.command = [self._local(argument, replace) for argument in arguments]
        self.probes = {made[p]["grpc"]["service"] for p in ("livenessProbe", "readinessProbe")
                       if p in made}
        self._folder = folder
        self._name = f"{name}-{made['name']}"

    @staticmethod
    def _local(text, replace):
        for pod, here in replace.items():
            text = text.replace(pod, str(here))
        return text

    def start(self, *more):
        programs = pathlib.Path(_binaries.path("millrace")).parent
        environment = {**os.environ, **self.environment,
                       "PATH": f"{programs}:{os.environ['PATH']}"}
        with open(self._folder / f"{self._name}.log", "wb") as log:
            return subprocess.Popen([*self.command, *more], env=environment, stdout=log, stderr=log,
                                    stdin=subprocess.DEVNULL)

    def print_config(self):
        """The options in force; an assertion fails if the daemon refuses one of them."""
        return run_program(*self.command[1:], "--print-config",
                           env={**os.environ, **self.environment})

    def log(self):
        return (self._folder / f"{self._name}.log").read_text(errors="replace")


@pytest.mark.parametrize("components", [["trainer"], ["trainer", "tls"]])
def test_what_the_manifests_run_serves_a_job(build, tmp_path, components):
    """Dispatcher, worker, the trainer's wait and the trainer, as the manifests start them."""
    resources = build(components)
    data = tmp_path / "data"
    run("generate", "--kind", "graph", data / "stdlib", "--nodes", 2000)
    for config, name in (("millrace", "daemon.yaml"), ("train", "train.yaml")):
        text = one(resources, "ConfigMap", config)["data"][name]
        (tmp_path / name).write_text(text.replace("/data", str(data)))
    (tmp_path / "state").mkdir()
    if "tls" in components:
        run("certs", tmp_path / "tls")
    replace = {"/etc/millrace/": f"{tmp_path}/", "/etc/train/": f"{tmp_path}/",
               "/var/lib/millrace": tmp_path / "state", "/var/cache/millrace": tmp_path / "cache"}
    free = {f"0.0.0.0:{port}": "127.0.0.1:0" for port in range(7700, 7704)}
    fields = {"POD_NAME": "pod", "POD_IP": "127.0.0.1", "RANK": "all"}  # what comes of the pod

    def container(kind, name, role, at=free, init=False):
        here = {**replace, **at, "/etc/millrace-tls": tmp_path / "tls" / role}
        return Container(resources, kind, name, tmp_path, here, fields, init)

    pods_options = container("StatefulSet", "millrace-dispatcher", "dispatcher", {}).print_config()
    assert pods_options["listen"] == "0.0.0.0:7700" and pods_options["store"] == ""
    pods_options = container("Deployment", "millrace-worker", "worker", {}).print_config()
    assert pods_options["advertise"] == "127.0.0.1:7701"
    assert pods_options["insecure"] != ("tls" in components)
    processes = []
    try:
        dispatcher = container("StatefulSet", "millrace-dispatcher", "dispatcher")
        port = tmp_path / "port"
        processes.append(dispatcher.start(f"--port-file={port}"))
        for _ in tries():
            assert processes[0].poll() is None, dispatcher.log()
            if port.exists() and port.read_text().strip():
                break
        at = {**free, "millrace-dispatcher-0:7700": port.read_text().strip(), ":7701": ":0"}
        worker = container("Deployment", "millrace-worker", "worker", at=at)
        processes.append(worker.start())
        assert dispatcher.probes == worker.probes == {"liveness", "readiness"}
        for init, name in ((True, "the wait"), (False, "the trainer")):
            made = container("Job", "train", "trainer", at=at, init=init)
            process = made.start()
            processes.append(process)
            assert process.wait() == 0, f"{name}: {made.log()}"
        # Two ranks, two epochs of the 2,000 nodes; `remainder: drop` leaves out some.
        examples = re.search(r"batches, (\d+) examples", made.log())[1]
        assert examples == str(2 * 1920), made.log()
        processes[1].terminate()
        assert processes[1].wait() == 0, worker.log()
    finally:
        for process in processes:
            process.kill()
            process.wait()
