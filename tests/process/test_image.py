"""The image: what docker/build makes, run on its own files as an orchestrator would run it."""

import json
import os
import pathlib
import shutil
import subprocess
import tempfile

from container import command as in_container, namespace_of, processes_in, program_of
from harness import Skipped, check, check_same, cluster, deploy, wait_for
from machine import make_image, make_packages, need, run
from test_streams import DATA

SOURCE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))
IMAGE = SOURCE / "docker"
USER = "7700"


class Image:
    """An image's files, and how its configuration wants to be run."""

    def __init__(self, archive, folder):
        files = folder / "archive"
        files.mkdir()
        run("tar", "-xf", archive, "-C", files)
        manifest = json.loads((files / "manifest.json").read_text())[0]
        self.config = json.loads((files / manifest["Config"]).read_text())["config"]
        self.tags = manifest["RepoTags"]
        self.root = folder / "root"
        self.root.mkdir()
        for layer in manifest["Layers"]:
            run("tar", "-xpf", files / layer, "-C", self.root)

    @property
    def user(self):
        return self.config["User"].split(":")[0]

    def command(self, state, *command):
        """The command that runs `command` in the image, on a read-only root and as its user."""
        return in_container(self.root, self.user, command, dict(v.split("=", 1) for v in self.config["Env"]),
                            binds=[(state, "/var/lib/millrace", True), (DATA, "/mnt", False)],
                            tmpfs=["/var/cache/millrace"])


@deploy(1800)
def test_the_image_serves_on_a_read_only_root_as_a_user_who_is_not_root():
    need("mmdebstrap", "buildah", "unshare", "setpriv", "cpack", "dpkg-shlibdeps")
    with tempfile.TemporaryDirectory(prefix="millrace-image-") as name, cluster(DATA) as c:
        folder = pathlib.Path(name)
        packages = folder / "packages"
        make_packages(packages, "daemon", "cli")
        make_image(packages, folder / "image.tar")
        image = Image(folder / "image.tar", folder)
        check(image.config["User"] == f"{USER}:{USER}", f"{image.config['User']}")
        check(image.config["Entrypoint"] == ["millraced"], f"{image.config['Entrypoint']}")
        check(image.config["Healthcheck"]["Test"][1] == "millrace", "it has a health check")
        state = folder / "state"
        state.mkdir()
        os.chown(state, int(USER), int(USER))
        check_confined(image, state)
        port = state / "port"
        daemon = c.start("image", *image.command(
            state, *image.config["Entrypoint"], "serve", "--dataset", "data=/mnt", "--listen",
            "127.0.0.1:0", "--batch-listen", "127.0.0.1:0", "--port-file", "/var/lib/millrace/port"))
        c.address = wait_for(lambda: port.exists() and port.read_text().strip(),
                             f"the image does not serve: {daemon.text()}", daemon.popen)
        consumer = c.consumer(2, epochs=2)
        consumer.expect_success()
        check_same(c.delivered(consumer.log), c.reference(0, 2) + c.reference(1, 2))
        healthy = image.config["Healthcheck"]["Test"][1:]
        run(*image.command(state, *healthy, "--address", c.address))
        namespace = namespace_of(program_of(daemon.popen.pid, USER))
        daemon.kill()
        wait_for(lambda: not processes_in(namespace), "the image's daemon outlives its container")


def check_confined(image, state):
    said = run(*image.command(state, "id", "-u")).stdout.strip()
    check(said == USER, f"it runs as {said}")
    for path in ("/usr/bin/x", "/etc/x", "/mnt/x"):
        refused = run(*image.command(state, "touch", path), expect=1).stderr
        check("Read-only file system" in refused, refused)


def test_the_docker_image_is_built_where_docker_is_found():
    if shutil.which("docker") is None:
        raise Skipped("there is no docker here")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        raise Skipped("no docker daemon answers here")
    tag = f"millrace-test-{os.getpid()}"
    with tempfile.TemporaryDirectory(prefix="millrace-image-") as folder:
        make_packages(pathlib.Path(folder), "daemon", "cli")
        try:
            run("docker", "build", "-f", IMAGE / "Dockerfile", "-t", tag, folder, seconds=1400)
            said = run("docker", "run", "--rm", "--read-only", tag, "--version").stdout
            check(said.strip(), "the image says no version")
        finally:
            subprocess.run(["docker", "image", "rm", "-f", tag], capture_output=True, check=False)
