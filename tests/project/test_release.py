"""The artifacts of a release: they are built here where that is possible, and their form is checked where it is not."""

import hashlib
import importlib.util
import itertools
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from sources import ROOT, SHIPPED

from kpybroker import __version__
from kpybroker.config.broker import BrokerConfig
from release import debian, homebrew, sbom

EPOCH = {"SOURCE_DATE_EPOCH": "1700000000"}


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def needs(program: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")


def built_in(directory: Path, mode: int, age_s: int) -> Path:
    """The pure wheel of a copy of the sources, with its own modes and times of files; the sdist lies beside it."""
    source = directory / "source"
    for name in (*SHIPPED, "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(ROOT / name, target)
    for path in source.rglob("*.py"):
        path.chmod(mode)
        os.utime(path, (age_s, age_s))
    run(sys.executable, "-m", "hatchling", "build", "-d", directory / "dist", cwd=source, **EPOCH)
    (wheel,) = (directory / "dist").glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two builds of the pure wheel."""
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    first, second = tmp_path_factory.mktemp("first"), tmp_path_factory.mktemp("second")
    return [built_in(first, 0o644, 1_600_000_000), built_in(second, 0o600, 1_650_000_000)]


def test_two_builds_of_the_pure_wheel_and_of_the_sdist_are_equal(wheels: list[Path]) -> None:
    first, second = ({path.name: path.read_bytes() for path in wheel.parent.iterdir()} for wheel in wheels)
    assert set(first) == {f"kpybroker-{__version__}-py3-none-any.whl", f"kpybroker-{__version__}.tar.gz"}
    assert first == second


# Debian


@pytest.fixture(scope="module")
def package(wheels: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("dpkg-deb")
    return debian.build(wheels[0].parent, tmp_path_factory.mktemp("deb"))


def test_the_debian_package_holds_the_wheel_a_unit_and_a_configuration(package: Path, wheels: list[Path]) -> None:
    fields = dict(line.split(": ", 1) for line in run("dpkg-deb", "--field", package).splitlines() if ": " in line)
    assert fields["Package"] == "kpybroker"
    assert fields["Architecture"] == "all"
    assert fields["Depends"] == "python3 (>= 3.11), python3-venv, adduser"
    listed = run("dpkg-deb", "--contents", package).splitlines()
    assert all(" root/root " in line for line in listed)
    for name in (
        f"./usr/share/kpybroker/wheels/{wheels[0].name}",
        "./lib/systemd/system/kpybroker.service",
        "./etc/kpybroker/server.properties",
        "./usr/share/doc/kpybroker/copyright",
    ):
        (line,) = [line for line in listed if line.endswith(f" {name}")]
        assert line.startswith("-rw-r--r--")


def test_the_scripts_of_the_debian_package_are_sound(package: Path, tmp_path: Path) -> None:
    run("dpkg-deb", "--control", package, tmp_path)
    assert (tmp_path / "conffiles").read_text() == "/etc/kpybroker/server.properties\n"
    for name in ("postinst", "prerm", "postrm"):
        assert os.access(tmp_path / name, os.X_OK)
        run("sh", "-n", tmp_path / name)


def test_two_builds_of_the_debian_package_are_equal(package: Path, wheels: list[Path], tmp_path: Path) -> None:
    again = debian.build(wheels[0].parent, tmp_path)
    assert again.name == package.name
    assert again.read_bytes() == package.read_bytes()


def test_debian_takes_a_development_version_for_older_than_its_release() -> None:
    needs("dpkg")
    ordered = [debian.debian_version(each) for each in ("0.9.0", "1.0.0.dev0", "1.0.0a1", "1.0.0rc1", "1.0.0", "1.0.1")]
    assert ordered[1:3] == ["1.0.0~dev0", "1.0.0~a1"]
    del ordered[1]  # dev0 and a1 of one version are never both released
    for older, newer in itertools.pairwise(ordered):
        run("dpkg", "--compare-versions", older, "lt", newer)


@pytest.mark.parametrize(
    ("tags", "dependency"),
    [
        (("py3-none-any", "cp39-abi3-linux_x86_64"), "python3 (>= 3.11)"),
        (("py3-none-any", "cp313-cp313-manylinux_2_28_x86_64"), "python3 (>= 3.13), python3 (<< 3.14)"),
    ],
)
def test_the_debian_package_asks_for_the_python_that_its_wheels_are_for(tags: tuple[str, ...], dependency: str) -> None:
    assert debian.python_for([Path(f"one-1.0-{tag}.whl") for tag in tags]) == dependency


def test_wheels_for_several_versions_of_python_are_one_line() -> None:
    with pytest.raises(SystemExit, match=r"for several versions of Python: 3\.11, 3\.12"):
        debian.python_for([Path(f"one-1.0-cp3{minor}-cp3{minor}-linux_x86_64.whl") for minor in (12, 11)])


def test_a_directory_without_the_wheel_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="holds 0 wheels of kpybroker"):
        debian.build(tmp_path, tmp_path)


def test_the_unit_is_what_systemd_takes(tmp_path: Path) -> None:
    needs("systemd-analyze")
    unit = (ROOT / "release" / "systemd" / "kpybroker.service").read_text()
    path = tmp_path / "kpybroker.service"
    # The program and its user are there only after an installation.
    path.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit, flags=re.MULTILINE))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert not [line for line in done.stderr.splitlines() if "kpybroker.service" in line], done.stderr


def test_the_configuration_of_packages_is_taken_without_a_warning() -> None:
    config = BrokerConfig.load(ROOT / "release" / "server.properties")
    assert not config.warnings
    assert config.log_dirs == ("/var/lib/kpybroker",)
    assert all(listener.host == "127.0.0.1" for listener in config.listeners)


# Homebrew


def test_the_formula_has_the_checksum_of_what_it_downloads(tmp_path: Path) -> None:
    sdist = tmp_path / "kpybroker-1.0.0.tar.gz"
    sdist.write_bytes(b"an sdist")
    text = homebrew.formula(sdist, "https://example.org/releases/kpybroker-1.0.0.tar.gz")
    assert f'sha256 "{hashlib.sha256(b"an sdist").hexdigest()}"' in text
    assert "{" not in re.sub(r"#\{[^}]*\}", "", text)
    opened = len(re.findall(r"^ *(?:class|def|service do|test do)\b", text, re.MULTILINE))
    assert len(re.findall(r"^ *end$", text, re.MULTILINE)) == opened
    if shutil.which("ruby"):
        path = tmp_path / "kpybroker.rb"
        path.write_text(text)
        run("ruby", "-c", path)
    with pytest.raises(SystemExit, match="is not an https URL"):
        homebrew.formula(sdist, "http://example.org/x")


# Bill of materials, and the wheels of other machines


def test_the_bill_of_materials_has_every_dependency_with_its_version(wheels: list[Path]) -> None:
    made = sbom.document(wheels[:1])
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert made == sbom.document(wheels[:1])
    names = {each["name"] for each in made["components"]}
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[<>=; ]", each)[0] for each in asked} <= names
    (file,) = made["metadata"]["component"]["components"]
    assert file["hashes"][0]["content"] == hashlib.sha256(wheels[0].read_bytes()).hexdigest()
    references = {each["bom-ref"] for each in (made["metadata"]["component"], *made["components"])}
    assert {each["ref"] for each in made["dependencies"]} == references
    assert {need for each in made["dependencies"] for need in each["dependsOn"]} <= references
    assert re.fullmatch(r"urn:uuid:[0-9a-f-]{36}", made["serialNumber"])


def test_wheels_are_compiled_for_every_python_and_machine_that_is_promised() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"cp3{minor}-*" for minor in (11, 12, 13, 14)]
    assert settings["environment"]["KPYBROKER_COMPILE"] == settings["macos"]["environment"]["KPYBROKER_COMPILE"] == "1"
    assert set(settings["linux"]["archs"]) == {"x86_64", "aarch64"}
    assert {name for name in settings["linux"] if name.startswith("musllinux")}


@pytest.mark.parametrize(
    ("platform", "machines"),
    [
        ("linux", {f"{kind}linux_{machine}" for kind in ("many", "musl") for machine in ("x86_64", "aarch64")}),
        ("macos", {"macosx_x86_64", "macosx_arm64"}),
    ],
)
def test_cibuildwheel_itself_understands_what_it_shall_build(platform: str, machines: set[str]) -> None:
    if importlib.util.find_spec("cibuildwheel") is None:
        pytest.skip("cibuildwheel is not installed")
    reported = run(sys.executable, "-m", "cibuildwheel", "--platform", platform, "--print-build-identifiers", ROOT)
    assert set(reported.split()) == {f"cp3{minor}-{machine}" for minor in (11, 12, 13, 14) for machine in machines}
