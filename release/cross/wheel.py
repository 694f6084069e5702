"""Compiled wheels of other platforms: the pure one with its modules compiled.

mypyc's C is the same on every platform, but for the suffix of modules' names. zig compiles and links it for each.
"""

import base64
import hashlib
import importlib.util
import os
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import hatch_build
from release.cross.fetching import ROOT, kept, ran, zig, zig_environment
from release.cross.interpreter import carried_python, interpreter
from release.cross.library import library
from release.cross.targets import ONLY_LINKED, TARGETS, VERSION, Target

SHARED = "kpywire.compiled__mypyc"
"""The module with the code of all others, each of which only finds itself in it."""
OPTIONS = ("-fPIC", "-shared", "-g0", "-s", "-w", "-fno-sanitize=undefined")
"""Without the last, zig makes programs that are not optimised stop where C leaves the outcome open."""
SUFFIX = "SUFFIX_OF_THE_PLATFORM"
"""The text that mypyc writes where modules' names end."""
WRITING = f"""
import runpy
from importlib.machinery import EXTENSION_SUFFIXES

EXTENSION_SUFFIXES.insert(0, {SUFFIX!r})
runpy.run_path("setup.py", run_name="__main__")
"""
"""mypyc takes the first of these suffixes, which is this machine's own otherwise."""


def build(targets: Sequence[Target], version: str, directory: Path, level: str = "3") -> list[Path]:
    """The wheels of platforms, optimised as the C compiler's ``-O`` says; they lie in the directory then."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="kpybroker-") as work:
        ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", work)
        (pure,) = Path(work).glob("*.whl")
        compiled = compile_modules(targets, version, Path(work), level)
        tag = "cp{0}-cp{0}".format(version.replace(".", ""))
        finished = []
        for target in targets:
            finished.append(directory / pure.name.replace("py3-none-any", f"{tag}-{target.platforms[0]}"))
            assemble(pure, compiled[target.name], finished[-1])
    return finished


def written_c(version: str) -> Path:
    """The directory in which mypyc has written the C of these sources for a version of CPython.

    The suffix of modules' names is a macro in it, and so is its length as mypyc writes that, in one character.
    """
    files = [path for package in hatch_build.PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    digest = hashlib.sha256(repr((sys.version, version, metadata.version("mypy"), WRITING)).encode())
    for path in (ROOT / "hatch_build.py", *files):
        digest.update(path.read_bytes())

    def write(directory: Path) -> None:
        hatch_build.lay_out(ROOT, directory)
        command, variables = python_with_mypyc(version)
        ran(*command, "-c", WRITING, "--name", cwd=directory, env={**os.environ, **variables})
        for path in (directory / "build").rglob("*.[ch]"):
            text = path.read_text()
            if SUFFIX in text:
                text = text.replace(rf"\{len(SUFFIX):03o}{SUFFIX}", '" SUFFIX_LENGTH MODULE_SUFFIX "')
                path.write_text(text.replace(SUFFIX, '" MODULE_SUFFIX "'))

    return kept(f"c-{digest.hexdigest()[:16]}", write)


def python_with_mypyc(version: str) -> tuple[tuple[Path | str, ...], dict[str, str]]:
    """The words that start a Python of a version with mypyc, which writes C for the version that runs it; variables."""
    if version == VERSION:
        return (sys.executable,), {}
    same = f"mypy=={metadata.version('mypy')}"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--python-version", version)
    mypy = kept(f"mypy-{version}", lambda directory: ran(*pip, "--target", directory, same, "setuptools>=75,<81"))
    return interpreter(TARGETS["manylinux-x86_64"], version), {"PYTHONPATH": str(mypy)}


def runtime() -> Path:
    """The directory with the C that all of mypyc's modules need."""
    found = importlib.util.find_spec("mypyc")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "lib-rt"


def compile_modules(targets: Sequence[Target], version: str, directory: Path, level: str) -> dict[str, dict[str, Path]]:
    """Compile all modules for platforms; by platform, their files by the names that they have in a wheel."""
    laid_out = written_c(version)
    sources = {name: laid_out / "build" / f"{name.replace('.', '/')}.c" for name in hatch_build.MODULES}
    sources[SHARED] = laid_out / "build" / "kpywire" / "__native_compiled.c"
    options = {target.name: compiling(target, version, laid_out, level) for target in targets}
    compiled: dict[str, dict[str, Path]] = {target.name: {} for target in targets}
    commands = []
    for name in sorted(sources, key=lambda name: name != SHARED):
        for target in targets:
            output = directory / f"{name}-{target.name}.so"
            compiled[target.name][f"{name.replace('.', '/')}{target.suffix(version)}"] = output
            commands.append((*options[target.name], sources[name], "-o", output))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda words: ran(*words, env=zig_environment()), commands))
    return compiled


def compiling(target: Target, version: str, laid_out: Path, level: str) -> tuple[Path | str, ...]:
    """The words of the compiler for a module of a platform."""
    suffix = target.suffix(version)
    macros = (f'-DMODULE_SUFFIX="{suffix}"', rf'-DSUFFIX_LENGTH="\{len(suffix):03o}"')
    includes = (f"-I{path}" for path in (library(version) / "include", runtime(), laid_out / "build"))
    exported = () if target.name in ONLY_LINKED else (f"-Wl,--version-script={laid_out / 'exported'}",)
    words = ("cc", "-target", target.triple, f"-O{level}", *OPTIONS, *macros, *includes)
    return (zig(), *words, *exported, *linking(target, version))


def linking(target: Target, version: str) -> tuple[Path, ...]:
    """The libraries that modules are linked with. On macOS it is CPython, which must have all that they ask for."""
    if target.name not in ONLY_LINKED:
        return ()
    carried = carried_python(target, version) / "freeze_core" / "bases" / "lib"
    library_of_python = carried / "libPython.dylib"
    if not library_of_python.exists():
        library_of_python.symlink_to("Python")
    return (library_of_python,)


def assemble(pure: Path, compiled: dict[str, Path], finished: Path) -> None:
    """Write a wheel with all that the pure one holds, and with compiled modules; its name has its tags."""
    tag = "-".join(finished.stem.split("-")[-3:])
    rows = []
    with zipfile.ZipFile(pure) as source, zipfile.ZipFile(finished, "w", zipfile.ZIP_DEFLATED) as wheel:
        (record,) = (name for name in source.namelist() if name.endswith(".dist-info/RECORD"))
        for name, content in contents(source, compiled):
            if name == record:
                continue
            if name == record.replace("RECORD", "WHEEL"):
                content = tagged(content, tag)
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            wheel.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
            rows.append(f"{name},sha256={digest},{len(content)}\n")
        wheel.writestr(record, "".join((*rows, f"{record},,\n")))


def contents(pure: zipfile.ZipFile, compiled: dict[str, Path]) -> Iterator[tuple[str, bytes]]:
    """The files of a wheel, one after the other: those of ``.dist-info`` last, as is usual."""
    names = pure.namelist()
    yield from ((name, pure.read(name)) for name in names if ".dist-info/" not in name)
    yield from ((name, compiled[name].read_bytes()) for name in sorted(compiled))
    yield from ((name, pure.read(name)) for name in names if ".dist-info/" in name)


def tagged(content: bytes, tag: str) -> bytes:
    """The file WHEEL of a pure wheel, as one of a platform has it."""
    text = content.decode().replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    return re.sub(r"(?m)^Tag: .*$", f"Tag: {tag}", text).encode()
