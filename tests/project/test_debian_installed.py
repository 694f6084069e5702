"""The Debian package lives in a throwaway root: `make deb-installed` builds it and runs this."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from sources import ROOT

SCRIPT = ROOT / "tests" / "project" / "debian_life.sh"
STEPS = ["install", "verify", "serve and stop", "upgrade", "remove", "purge"]
PROGRAMS = ("unshare", "ip", "dpkg", "setpriv", "systemd-analyze", "adduser")
NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child")


@pytest.fixture
def package(request: pytest.FixtureRequest) -> Path:
    given: Path | None = request.config.getoption("--deb")
    if given is None:
        pytest.skip("needs a package: make deb-installed builds one")
    if os.geteuid() != 0:
        pytest.skip("needs to be root")
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    if subprocess.run([*NAMESPACES, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("namespaces cannot be made here")
    return given.absolute()


def test_the_package_is_installed_serves_and_leaves_nothing_behind(package: Path) -> None:
    done = subprocess.run(
        [*NAMESPACES, "sh", str(SCRIPT), str(package)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=280,
        check=False,
    )
    did = [line.removeprefix("did: ") for line in done.stdout.splitlines() if line.startswith("did: ")]
    assert (did, done.returncode) == (STEPS, 0), done.stdout
