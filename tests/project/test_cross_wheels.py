"""Wheels for other platforms and versions: compiled here, and tried by a Python of the platform that runs here.

``--cross TARGET`` names a platform, ``--cross-python VERSION`` a version (`make wheels-elsewhere` takes all platforms).
Without them nothing is built, since each takes minutes.
"""

import base64
import hashlib
import os
import re
import shlex
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email import message_from_bytes
from functools import cache
from pathlib import Path

import pip
import pytest
from installed import broker, run
from kafka import KafkaConsumer, KafkaProducer

import hatch_build
from release.cross.fetching import CannotBeHad, zig
from release.cross.interpreter import carried_python, interpreter
from release.cross.targets import ONLY_LINKED, TARGETS, VERSION, VERSIONS, Target
from release.cross.wheel import SHARED, assemble, build, compile_modules, written_c

pytestmark = [pytest.mark.slow, pytest.mark.timeout(6000)]

PATIENCE_S = 1800
NEWEST_GLIBC = (2, 28)
MACHINES = {"aarch64": 183, "x86_64": 62}
"""The number of a machine in the header of an ELF file."""
APPLE_MACHINES = {"aarch64": 0x0100000C, "x86_64": 0x01000007}
"""The number of a machine in the header of a Mach-O file."""
IMPORTED = """
import importlib, importlib.machinery, sys
suffix, *names = sys.argv[1:]
assert suffix == importlib.machinery.EXTENSION_SUFFIXES[0], importlib.machinery.EXTENSION_SUFFIXES
for name in names:
    module = importlib.import_module(name)
    assert module.__file__.endswith(suffix), module.__file__
print(len(names))
"""


@dataclass(frozen=True)
class Wanted:
    """A platform and a version of CPython, and the words that start that Python."""

    target: Target
    version: str

    @property
    def suffix(self) -> str:
        return self.target.suffix(self.version)

    @property
    def python(self) -> tuple[Path | str, ...]:
        return interpreter(self.target, self.version)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    names, versions = (metafunc.config.getoption(option) for option in ("--cross", "--cross-python"))
    for given, choice in ((names, (*TARGETS, *ONLY_LINKED)), (versions, VERSIONS)):
        if not set(given) <= set(choice):
            raise pytest.UsageError(f"{', '.join(set(given) - set(choice))} is unknown; known are {', '.join(choice)}")
    for fixture, known in (("wanted", TARGETS), ("linked", ONLY_LINKED)):
        if fixture in metafunc.fixturenames:
            asked_for = [name for name in names if name in known]
            cells = [Wanted(known[name], version) for version in versions or [VERSION] for name in asked_for]
            named = [f"{cell.target.name}-{cell.version}" for cell in cells] or ["none"]
            metafunc.parametrize(fixture, cells or [None], ids=named, indirect=True, scope="module")


def asked(request: pytest.FixtureRequest) -> Wanted:
    if request.param is None:
        pytest.skip("takes minutes: --cross TARGET asks for it, or make wheels-elsewhere")
    assert isinstance(request.param, Wanted)
    return request.param


@pytest.fixture(scope="module")
def wanted(request: pytest.FixtureRequest) -> Wanted:
    return asked(request)


@pytest.fixture(scope="module")
def linked(request: pytest.FixtureRequest) -> Wanted:
    return asked(request)


@pytest.fixture(scope="module")
def wheels(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[Target, Path]]:
    """A function that compiles the wheels of a version for all platforms that are asked for, side by side."""
    targets = [TARGETS[name] for name in request.config.getoption("--cross") if name in TARGETS]

    @cache
    def built(version: str) -> dict[Target, Path]:
        with ThreadPoolExecutor(1) as pool:
            written = pool.submit(written_c, version)
            try:
                zig()
                for target in targets:
                    interpreter(target, version)
            except CannotBeHad as reason:
                pytest.skip(f"what builds and runs it cannot be fetched: {reason}")
            written.result()
        return dict(zip(targets, build(targets, version, tmp_path_factory.mktemp("dist"), level="0"), strict=True))

    return built


@pytest.fixture(scope="module")
def wheel(wanted: Wanted, wheels: Callable[[str], dict[Target, Path]]) -> Path:
    return wheels(wanted.version)[wanted.target]


@pytest.fixture(scope="module")
def programs(wheel: Path, wanted: Wanted, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the commands ``python`` and ``kpybroker`` of the platform, where the wheel is installed."""
    home = tmp_path_factory.mktemp("elsewhere")
    with zipfile.ZipFile(wheel) as opened:
        (metadata,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        needs = message_from_bytes(opened.read(metadata)).get_all("Requires-Dist", [])
    there = [need for need in needs if "extra ==" not in need and not need.startswith(wanted.target.compiled_by_pip)]
    pip_for = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:")
    chosen = wanted.target.choosing(wanted.version)
    run(*pip_for, *chosen, "--target", home / "packages", *there, cwd=home, timeout_s=PATIENCE_S)
    alone = ("--no-index", "--no-deps", "--target", home / "wheel")
    run(*pip_for, *chosen, *alone, wheel, cwd=home, timeout_s=PATIENCE_S)
    line = shlex.join(map(str, wanted.python))
    path = f"{home / 'wheel'}:{home / 'packages'}"
    for name, started in (("python", line), ("kpybroker", f"{line} -m kpybroker")):
        script = home / "bin" / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {started} "$@"\n')
        script.chmod(0o755)
    return home / "bin"


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


def modules_of(wheel: Path, suffix: str) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            if name.endswith(suffix):
                yield name.removesuffix(suffix).replace("/", "."), opened.read(name)


def named_suffixes(content: bytes) -> set[bytes]:
    """The suffixes of compiled modules that a file names."""
    return {*re.findall(rb"\.cpython-\d+-[\w-]+\.so", content)}


def test_its_modules_are_compiled_for_the_platform_that_its_name_says(wheel: Path, wanted: Wanted) -> None:
    target, version = wanted.target, wanted.version.replace(".", "")
    assert wheel.stem.endswith(f"-cp{version}-cp{version}-{target.platforms[0]}")
    modules = dict(modules_of(wheel, wanted.suffix))
    assert set(modules) == {*hatch_build.MODULES, SHARED}
    for name, content in modules.items():
        assert content[:4] == b"\x7fELF", name
        assert int.from_bytes(content[18:20], "little") == MACHINES[target.machine], name
        versions = {(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)", content)}
        assert not versions or (not target.has_musl and max(versions) <= NEWEST_GLIBC), name
        assert named_suffixes(content) <= {wanted.suffix.encode()}, name
    assert named_suffixes(modules[SHARED])


def test_it_says_that_it_is_compiled(programs: Path, tmp_path: Path) -> None:
    assert run(programs / "kpybroker", "--version", cwd=tmp_path, timeout_s=PATIENCE_S).endswith(", compiled\n")


def test_every_compiled_module_is_imported_there(programs: Path, wanted: Wanted, tmp_path: Path) -> None:
    script = tmp_path / "imported.py"
    script.write_text(IMPORTED)
    words = (wanted.suffix, SHARED, *hatch_build.MODULES)
    reported = run(programs / "python", script, *words, cwd=tmp_path, timeout_s=PATIENCE_S)
    assert int(reported) == len(hatch_build.MODULES) + 1


def test_its_own_pip_takes_it(wheel: Path, wanted: Wanted, tmp_path: Path) -> None:
    if wanted.target.has_musl and wanted.target.machine != "x86_64":
        pytest.skip("pip starts the loader of musl to ask for its version, and only QEMU can start it here")
    (tmp_path / "pip").symlink_to(Path(pip.__file__).parent)
    alone = ("--no-index", "--no-deps", "--only-binary=:all:", "--target", tmp_path / "wheel")
    variables = {"PYTHONPATH": str(tmp_path), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    command = (*wanted.python, "-m", "pip", "install", *alone, wheel)
    run(*command, cwd=tmp_path, variables=variables, timeout_s=PATIENCE_S)
    assert (tmp_path / "wheel" / "kpybroker" / "__init__.py").exists()


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


def test_its_modules_are_linked_with_its_cpython(linked: Wanted, tmp_path: Path) -> None:
    try:
        zig()
        carried_python(linked.target, linked.version)
    except CannotBeHad as reason:
        pytest.skip(f"what it is compiled and linked with cannot be fetched: {reason}")
    compiled = compile_modules([linked.target], linked.version, tmp_path, "0")[linked.target.name]
    names = {name.removesuffix(linked.suffix).replace("/", ".") for name in compiled}
    assert names == {*hatch_build.MODULES, SHARED}
    for name, path in compiled.items():
        content = path.read_bytes()
        assert content[:4] == b"\xcf\xfa\xed\xfe", name
        assert int.from_bytes(content[4:8], "little") == APPLE_MACHINES[linked.target.machine], name
        assert named_suffixes(content) <= {linked.suffix.encode()}, name
