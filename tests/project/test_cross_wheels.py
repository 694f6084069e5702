"""Wheels for platforms that this machine is not: compiled here, and tried by a Python of the platform that runs here.

``--cross TARGET`` names one (`make wheels-elsewhere` takes all); without it nothing is built, since each takes minutes.
"""

import base64
import hashlib
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from pathlib import Path

import pip
import pytest
from installed import broker, run
from kafka import KafkaConsumer, KafkaProducer

import hatch_build
from release.cross.fetching import CannotBeHad, zig
from release.cross.targets import TARGETS, VERSION, Target, TargetPython
from release.cross.wheel import SHARED, assemble, build

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6000)]

PATIENCE_S = 1800
NEWEST_GLIBC = (2, 28)
MACHINES = {"aarch64": 183, "x86_64": 62}
"""The number of a machine in the header of an ELF file."""
IMPORTED = """
import importlib, importlib.machinery, sys
suffix, *names = sys.argv[1:]
assert suffix == importlib.machinery.EXTENSION_SUFFIXES[0], importlib.machinery.EXTENSION_SUFFIXES
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.endswith(suffix), module.__file__
print(len(names))
"""


def test_compiled_modules_are_added_to_all_that_the_pure_wheel_holds(tmp_path: Path) -> None:
    pure, finished = tmp_path / "a-1-py3-none-any.whl", tmp_path / "a-1-cp311-cp311-manylinux_2_28_aarch64.whl"
    kept = {"a/b.py": b"x = 1\n", "a-1.dist-info/METADATA": b"Name: a\n"}
    with zipfile.ZipFile(pure, "w") as written:
        for name, content in kept.items():
            written.writestr(name, content)
        written.writestr("a-1.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        written.writestr("a-1.dist-info/RECORD", "of the pure wheel")
    module = tmp_path / "b.so"
    module.write_bytes(b"code")
    assemble(pure, {"a/b.so": module}, finished)
    with zipfile.ZipFile(finished) as opened:
        found = {name: opened.read(name) for name in opened.namelist()}
    record = found.pop("a-1.dist-info/RECORD").decode()
    form = found.pop("a-1.dist-info/WHEEL")
    assert found == {**kept, "a/b.so": b"code"}
    assert form == b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_28_aarch64\n"
    hashed = base64.urlsafe_b64encode(hashlib.sha256(b"code").digest()).decode().rstrip("=")
    rows = record.splitlines()
    assert f"a/b.so,sha256={hashed},4" in rows
    assert {row.partition(",")[0] for row in rows} == {*found, "a-1.dist-info/WHEEL", "a-1.dist-info/RECORD"}


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    if request.param not in request.config.getoption("--cross"):
        pytest.skip(f"takes minutes: --cross {request.param} asks for it, or make wheels-elsewhere")
    return TARGETS[request.param]


@pytest.fixture(scope="module")
def python(target: Target) -> TargetPython:
    try:
        zig()
        return target.python()
    except CannotBeHad as reason:
        pytest.skip(f"what builds and runs it cannot be fetched: {reason}")


@pytest.fixture(scope="module")
def wheel(target: Target, python: TargetPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(target, python, tmp_path_factory.mktemp("dist"), level="0")


@pytest.fixture(scope="module")
def programs(wheel: Path, target: Target, python: TargetPython, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the commands ``python`` and ``kpybroker`` of the platform, where the wheel is installed."""
    home = tmp_path_factory.mktemp("elsewhere")
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        needs = message_from_bytes(opened.read(metadata)).get_all("Requires-Dist", [])
    wanted = [need for need in needs if "extra ==" not in need and not need.startswith(target.compiled_by_pip)]
    platforms = [word for platform in target.platforms for word in ("--platform", platform)]
    chosen = ("--only-binary=:all:", "--python-version", VERSION, *platforms)
    command = (sys.executable, "-m", "pip", "install", "--quiet", "--target", home / "packages", *chosen)
    run(*command, *wanted, cwd=home, timeout_s=PATIENCE_S)
    # The platform's own pip is asked whether the wheel fits.
    (home / "pip").mkdir()
    (home / "pip" / "pip").symlink_to(Path(pip.__file__).parent)
    found = {"PYTHONPATH": str(home / "pip"), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = (*python.command, "-m", "pip", "install", "--no-index", "--no-deps", "--target", home / "wheel", wheel)
    run(*command, cwd=home, variables=found, timeout_s=PATIENCE_S)
    line = shlex.join(map(str, python.command))
    path = f"{home / 'wheel'}:{home / 'packages'}"
    for name, started in (("python", line), ("kpybroker", f"{line} -m kpybroker")):
        script = home / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {started} "$@"\n')
        script.chmod(0o755)
    return home / "bin"


def modules_of(wheel: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            if name.endswith(suffix):
                yield name.removesuffix(suffix).replace("/", "."), opened.read(name)


def test_its_modules_are_compiled_for_the_platform_that_its_name_says(wheel: Path, target: Target) -> None:
    assert wheel.stem.endswith(target.platforms[0])
    modules = dict(modules_of(wheel, target.suffix))
    assert set(modules) == {*hatch_build.MODULES, SHARED}
    machine = next(number for name, number in MACHINES.items() if target.triple.startswith(name))
    for name, content in modules.items():
        assert content[:4] == b"\x7fELF", name
        assert int.from_bytes(content[18:20], "little") == machine, name
        asked = {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
        assert not asked or ("gnu" in target.triple and max(asked) <= NEWEST_GLIBC), name
        assert {*re.findall(rb"\.cpython-\d+-[\w-]+\.so", content)} <= {target.suffix.encode()}, name


def test_it_says_that_it_is_compiled(programs: Path, tmp_path: Path) -> None:
    assert run(programs / "kpybroker", "--version", cwd=tmp_path, timeout_s=PATIENCE_S).endswith(", compiled\n")


def test_every_compiled_module_is_imported_there(programs: Path, target: Target, tmp_path: Path) -> None:
    script = tmp_path / "imported.py"
    script.write_text(IMPORTED)
    words = (target.suffix, SHARED, *hatch_build.MODULES)
    said = run(programs / "python", script, *words, cwd=tmp_path, timeout_s=PATIENCE_S)
    assert int(said) == len(hatch_build.MODULES) + 1


def test_a_client_writes_to_a_broker_there_and_reads_from_it(programs: Path, tmp_path: Path) -> None:
    sent = [os.urandom(200) for _ in range(500)]
    with broker(programs, tmp_path) as address:
        producer = KafkaProducer(
            bootstrap_servers=address, acks="all", compression_type="gzip", enable_idempotence=True
        )
        futures = [producer.send("hello", value) for value in sent]
        assert [future.get(PATIENCE_S).offset for future in futures] == list(range(len(sent)))
        producer.close()
        consumer = KafkaConsumer(
            "hello",
            bootstrap_servers=address,
            group_id="readers",
            auto_offset_reset="earliest",
        )
        read = [record.value for _, record in zip(sent, consumer, strict=False)]
        consumer.close()
    assert read == sent
