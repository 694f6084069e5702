"""Builds the Debian package: ``python release/debian.py --wheels DIR --output DIR``.

The package carries wheels, kpybroker's own and those it depends on, and its installation makes a virtual environment of
them in /opt/kpybroker/VERSION without a network. So it depends on nothing but Debian's Python, of the version that the
wheels are for. DIR is what ``make deb`` fills: the libraries of ``release/requirements.lock``, and kpybroker itself.
Two builds with the same SOURCE_DATE_EPOCH are equal.

An upgrade leaves the environment of a running node alone until the node is restarted. Removal leaves configuration and
data. Purge deletes them, and the user.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
EPOCH = "1700000000"
MAINTAINER = "The authors of kpybroker <kpybroker@localhost>"
CONTROL = """\
Package: kpybroker
Version: {version}
Architecture: {architecture}
Maintainer: {maintainer}
Depends: {python}, python3-venv, adduser
Section: net
Priority: optional
Installed-Size: {kilobytes}
Description: Apache Kafka broker in Python
 It speaks Kafka's protocol, keeps Kafka's files and answers with Kafka's
 errors, so unmodified clients work with it as with Kafka.
"""
POSTINST = """\
#!/bin/sh
set -e
if [ "$1" = configure ]; then
    if ! getent passwd kpybroker > /dev/null; then
        adduser --system --group --home /var/lib/kpybroker --no-create-home kpybroker
    fi
    [ -d /var/lib/kpybroker ] || install -d -m 0700 -o kpybroker -g kpybroker /var/lib/kpybroker
    # Passwords are written there. After the first installation its owner decides.
    if [ -z "$2" ] && [ -f /etc/kpybroker/server.properties ]; then
        chown root:kpybroker /etc/kpybroker/server.properties
        chmod 0640 /etc/kpybroker/server.properties
    fi
    home=/opt/kpybroker/{version}
    python3 -m venv --clear $home
    wheels=/usr/share/kpybroker/wheels
    $home/bin/python -m pip install --quiet --no-index --find-links $wheels 'kpybroker[security,schemas,remote]'
    ln -sf $home/bin/kpybroker /usr/bin/kpybroker
    if [ -d /run/systemd/system ]; then
        systemctl daemon-reload
        # A new installation is not started: its owner reads /etc/kpybroker/server.properties first.
        if [ -n "$2" ]; then systemctl try-restart kpybroker.service; fi
    fi
    find /opt/kpybroker -mindepth 1 -maxdepth 1 ! -name {version} -exec rm -rf {} +
fi
"""
PRERM = """\
#!/bin/sh
set -e
if [ "$1" = remove ]; then
    if [ -d /run/systemd/system ]; then systemctl stop kpybroker.service; fi
    rm -rf /opt/kpybroker
    rm -f /usr/bin/kpybroker
fi
"""
POSTRM = """\
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /var/lib/kpybroker /etc/kpybroker
    if getent passwd kpybroker > /dev/null; then userdel kpybroker; fi
fi
if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
"""
SCRIPTS = {"postinst": POSTINST, "prerm": PRERM, "postrm": POSTRM}
BOUND = re.compile(r"-cp3(\d+)-cp3\d+t?-")
"""The tag of a wheel that fits one minor version of CPython only."""


def debian_version(version: str) -> str:
    """A version of Python's form in Debian's, where a development version comes before its release."""
    return re.sub(r"\.?(dev|a|b|rc)(\d)", r"~\1\2", version)


def python_for(wheels: list[Path]) -> str:
    """The Python that these wheels can be installed with, as a dependency."""
    minors = sorted({int(found[1]) for wheel in wheels if (found := BOUND.search(wheel.name))})
    if len(minors) > 1:
        sys.exit(f"the wheels are for several versions of Python: {', '.join(f'3.{minor}' for minor in minors)}")
    return f"python3 (>= 3.{minors[0]}), python3 (<< 3.{minors[0] + 1})" if minors else "python3 (>= 3.11)"


def lay_out(tree: Path, wheels: list[Path], version: str, architecture: str) -> None:
    """Write the files of the package below a directory."""
    share = tree / "usr" / "share" / "kpybroker" / "wheels"
    share.mkdir(parents=True)
    for wheel in wheels:
        shutil.copyfile(wheel, share / wheel.name)
    for source, target in (
        (HERE / "systemd" / "kpybroker.service", "lib/systemd/system/kpybroker.service"),
        (HERE / "server.properties", "etc/kpybroker/server.properties"),
        (HERE.parent / "LICENSE", "usr/share/doc/kpybroker/copyright"),
    ):
        (tree / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, tree / target)
    kilobytes = sum(path.stat().st_size for path in tree.rglob("*") if path.is_file()) // 1024 + 1
    control = tree / "DEBIAN"
    control.mkdir()
    fields = {"version": version, "architecture": architecture, "maintainer": MAINTAINER, "kilobytes": kilobytes}
    (control / "control").write_text(CONTROL.format(python=python_for(wheels), **fields))
    (control / "conffiles").write_text("/etc/kpybroker/server.properties\n")
    for name, text in SCRIPTS.items():
        (control / name).write_text(text.replace("{version}", version))
    for path in (tree, *tree.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.name in SCRIPTS else 0o644)


def this_architecture() -> str:
    """Debian's name of this machine's architecture."""
    asked = ["dpkg", "--print-architecture"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def build(wheels: Path, output: Path) -> Path:
    """The package made of the wheels in a directory. Exits with one line where kpybroker's own is missing."""
    found = sorted(wheels.glob("*.whl"))
    own = [path for path in found if path.name.startswith("kpybroker-")]
    if len(own) != 1:
        sys.exit(
            f"{wheels} holds {len(own)} wheels of kpybroker and not one: pip wheel --no-deps --wheel-dir {wheels} ."
        )
    version = debian_version(own[0].name.split("-")[1])
    is_pure = all(path.name.endswith("-none-any.whl") for path in found)
    architecture = "all" if is_pure else this_architecture()
    output.mkdir(parents=True, exist_ok=True)
    package = output / f"kpybroker_{version}_{architecture}.deb"
    environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", EPOCH)}
    with tempfile.TemporaryDirectory(prefix="kpybroker-deb-") as name:
        tree = Path(name, "tree")
        tree.mkdir()
        lay_out(tree, found, version, architecture)
        command = ["dpkg-deb", "--root-owner-group", "-Zxz", "--build", str(tree), str(package)]
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return package


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the Debian package of kpybroker.")
    parser.add_argument("--wheels", type=Path, required=True, help="what `make deb` has filled")
    parser.add_argument("--output", type=Path, default=Path("dist"))
    given = parser.parse_args()
    print(build(given.wheels, given.output))


if __name__ == "__main__":
    main()
