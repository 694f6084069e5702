"""The built packages work: wheel and sdist, each in a clean environment that does not see the checkout.

``--interpreter PATH`` tries them with another Python.
"""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from installed import broker, environment_with, run
from sources import ROOT, SHIPPED

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The sdist of the checkout, and the wheel made from it."""
    directory = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", directory, ROOT, cwd=directory)
    (sdist,) = directory.glob("*.tar.gz")
    (wheel,) = directory.glob("*.whl")
    return {"sdist": sdist, "wheel": wheel}


@pytest.fixture(scope="module", params=["wheel", "sdist"])
def installed(
    request: pytest.FixtureRequest,
    built: dict[str, Path],
    interpreter: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """The ``bin`` of an environment that holds nothing but what was built and what that asks for."""
    return environment_with(built[request.param], interpreter, tmp_path_factory.mktemp(f"from-{request.param}"))


def test_the_wheel_holds_the_packages_and_nothing_else(built: dict[str, Path]) -> None:
    with zipfile.ZipFile(built["wheel"]) as wheel:
        names = set(wheel.namelist())
    packages = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert packages == {Path(package).name for package in SHIPPED}
    assert {f"{package}/py.typed" for package in packages} <= names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    roots = [ROOT / package for package in SHIPPED]
    ours = {path.relative_to(root.parent).as_posix() for root in roots for path in root.rglob("*.py")}
    shipped = {name for name in names if name.endswith(".py")}
    assert shipped == ours
    assert built["wheel"].name.endswith("-py3-none-any.whl")


def test_the_sdist_holds_what_a_reader_and_a_packager_need(built: dict[str, Path]) -> None:
    with tarfile.open(built["sdist"]) as sdist:
        names = {name.partition("/")[2] for name in sdist.getnames()}
    assert {"pyproject.toml", "README.md", "LICENSE", "Makefile", "tests/project/test_packaging.py"} <= names
    assert not {name for name in names if name.split("/")[0] in (".venv", "build", "data", ".git")}


def test_the_package_and_its_command_work_without_the_checkout(installed: Path, tmp_path: Path) -> None:
    show = "import kpybroker, kpywire.codec, kpystorage.log; print(kpybroker.__file__)"
    where = Path(run(installed / "python", "-c", show, cwd=tmp_path).strip())
    assert where.is_relative_to(installed.parent)
    assert "pure Python" in run(installed / "kpybroker", "--version", cwd=tmp_path)
    assert "Start a broker" in run(installed / "kpybroker", "--help", cwd=tmp_path)


def test_a_record_goes_in_and_comes_out(installed: Path, tmp_path: Path) -> None:
    with broker(installed, tmp_path) as address:
        run(installed / "kpybroker", "produce", "hello", "-b", address, cwd=tmp_path, stdin="world\n")
        read = run(installed / "kpybroker", "consume", "hello", "--count", "1", "-b", address, cwd=tmp_path)
    assert read == "world\n"


def test_the_demo_comes_with_the_package_and_names_the_extra_that_it_needs(installed: Path, tmp_path: Path) -> None:
    finished = subprocess.run(
        [installed / "kpybroker", "demo"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert "pip install 'kpybroker[demo]'" in finished.stderr
    assert finished.stderr.count("\n") == 1
