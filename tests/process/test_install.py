"""A program of somebody else can be built with what `cmake --install` installs."""

import os
import pathlib
import subprocess
import tempfile

from harness import check

BUILD = os.environ.get("MILLRACE_BUILD_DIR", "")
SOURCE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))

PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Trainer LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Millrace 0.1 REQUIRED)
add_executable(trainer consume.cc)
target_link_libraries(trainer PRIVATE millrace::client)
"""


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
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
        done = subprocess.run([project / "build/trainer"], capture_output=True, text=True,
                              check=False)
        check(done.returncode != 0 and "usage" in done.stderr.lower(), done.stderr)
