"""A release is one command, and its checksums are those of its files."""

import os
import pathlib
import re
import tempfile

from harness import check, deploy
from machine import need, run

SOURCE = pathlib.Path(os.environ.get("MILLRACE_SOURCE_DIR", "."))


def version_in(path, pattern):
    return re.search(pattern, (SOURCE / path).read_text(), re.M)[1]


def test_programs_and_wheel_have_one_version():
    programs = version_in("CMakeLists.txt", r"project\(Millrace VERSION (\S+)")
    wheel = version_in("client/python/pyproject.toml", r'^version = "(.*)"')
    check(programs == wheel, f"CMakeLists.txt has {programs}, client/python/pyproject.toml {wheel}")


@deploy(5400)
def test_a_release_has_packages_image_wheel_and_checksums():
    need("mmdebstrap", "buildah")
    version = version_in("CMakeLists.txt", r"project\(Millrace VERSION (\S+)")
    with tempfile.TemporaryDirectory(prefix="millrace-release-") as folder:
        print(run(SOURCE / "deploy" / "release", folder, seconds=5000).stdout[-1500:])
        names = sorted(path.name for path in pathlib.Path(folder).iterdir())
        for pattern in (rf"libmillrace-dev_{version}_\w+\.deb", rf"millrace-cli_{version}_\w+\.deb",
                        rf"millrace-daemon_{version}_\w+\.deb", rf"millrace-{version}-image\.tar",
                        rf"millrace-{version}-cp3.*manylinux.*\.whl"):
            check(any(re.fullmatch(pattern, name) for name in names), f"no {pattern} in {names}")
        sums = (pathlib.Path(folder) / "SHA256SUMS").read_text().splitlines()
        check([line.split()[1] for line in sums] == [n for n in names if n != "SHA256SUMS"], f"{sums}")
        run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=folder)
        for package in names:
            if package.endswith(".deb"):
                said = run("dpkg-deb", "-f", pathlib.Path(folder) / package, "Version").stdout.strip()
                check(said == version, f"{package}: {said}")
