"""The installed client library, as a stranger's project uses it."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import binary, check

PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(Stranger LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Millrace REQUIRED)
add_executable(consume consume.cc)
target_link_libraries(consume PRIVATE millrace::client)
"""

# What a user's file must not have to include to include ours.
FOREIGN = re.compile(r"/(grpcpp|grpc|google/protobuf|absl|spdlog|fmt)/")


def run(*command):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=200, check=False)
    text = done.stdout.decode(errors="replace")
    check(done.returncode == 0, f"{' '.join(map(str, command))} failed:\n{text[-3000:]}")
    return text


def test_the_installed_library_is_found_and_its_headers_stand_alone():
    build = pathlib.Path(binary("cli")).parents[2]
    source = pathlib.Path(os.environ["MILLRACE_SOURCE_DIR"])
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.M).group(1)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-install-"))
    try:
        run("cmake", "--install", build, "--prefix", folder / "prefix", "--component", "Development")
        example = (source / "client/examples/consume.cc").read_text()
        project = folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(PROJECT)
        (project / "consume.cc").write_text(
            example.replace('#include "client/session.h"', "#include <millrace/client/session.h>"))
        include = folder / "prefix/include"
        seen = run(compiler, "-std=c++20", "-fsyntax-only", "-H", "-I", include, "-I",
                   include / "millrace", project / "consume.cc")
        foreign = [line for line in seen.splitlines() if FOREIGN.search(line)]
        check(not foreign, f"the public headers include {foreign[:3]}")
        run("cmake", "-S", project, "-B", folder / "build", "-G", "Ninja",
            f"-DCMAKE_PREFIX_PATH={folder / 'prefix'}", f"-DCMAKE_CXX_COMPILER={compiler}")
        run("cmake", "--build", folder / "build")
        done = subprocess.run([folder / "build/consume"], stderr=subprocess.PIPE, check=False,
                              timeout=30)
        check(done.returncode == 2 and b"usage" in done.stderr, "the program runs")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
