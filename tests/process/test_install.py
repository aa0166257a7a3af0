"""A program of somebody else can be built with what `cmake --install` installs."""

import os
import pathlib
import shutil
import subprocess
import tempfile

from harness import PATIENCE, Skipped, check

BUILD = os.environ.get("MILLRACE_BUILD_DIR", "")
SOURCE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))

IMAGE_SECONDS = 1400  # long, because everything is built anew

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Trainer LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Millrace 0.1 REQUIRED)
add_executable(trainer consume.cc)
target_link_libraries(trainer PRIVATE millrace::client)
"""


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=200,
                          check=False)
    check(done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return done


def test_an_installed_client_library_builds_the_example_program():
    with tempfile.TemporaryDirectory(prefix="millrace-install-") as folder:
        prefix = pathlib.Path(folder) / "prefix"
        run("cmake", "--install", BUILD, "--prefix", prefix)
        for program in ("millrace", "millraced"):
            run(prefix / "bin" / program, "--help")
        project = pathlib.Path(folder) / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        example = (SOURCE / "client/examples/consume.cc").read_text()
        (project / "consume.cc").write_text(example.replace('#include "client/',
                                                            '#include "millrace/client/'))
        run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={prefix}")
        run("cmake", "--build", project / "build")
        done = subprocess.run([project / "build/trainer"], capture_output=True, text=True, timeout=60,
                              check=False)
        check(done.returncode != 0 and "usage" in done.stderr.lower(), done.stderr)


def test_the_docker_image_is_built_where_docker_is_found():
    if shutil.which("docker") is None:
        raise Skipped("there is no docker here")
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        raise Skipped("no docker daemon answers here")
    tag = f"millrace-test-{os.getpid()}"
    built = subprocess.run(["docker", "build", "-f", SOURCE / "docker" / "Dockerfile", "-t", tag, SOURCE],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True,
                           timeout=IMAGE_SECONDS, check=False)
    try:
        check(built.returncode == 0, built.stdout[-2000:] + built.stderr[-2000:])
        said = subprocess.run(["docker", "run", "--rm", tag, "--version"], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        check(said.returncode == 0 and said.stdout.strip(), said.stdout + said.stderr)
    finally:
        subprocess.run(["docker", "image", "rm", "-f", tag], capture_output=True, check=False)
