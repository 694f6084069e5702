"""A compiled wheel of another platform: the pure one with its modules compiled.

mypyc's C is the same on every platform, but for the suffix of modules' names. zig compiles and links it.
"""

import base64
import hashlib
import importlib.util
import os
import re
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory

import hatch_build
from release.cross.fetching import KEPT, ROOT, kept, ran, zig
from release.cross.targets import Target, TargetPython

SHARED = "kpywire.compiled__mypyc"
"""The module with the code of all others, each of which only finds itself in it."""
OPTIONS = ("-fPIC", "-shared", "-g0", "-s", "-w", "-fno-sanitize=undefined")
"""Without the last, zig makes programs that are not optimised stop where C leaves the outcome open."""
WRITING = """
import runpy, sys
from importlib.machinery import EXTENSION_SUFFIXES

EXTENSION_SUFFIXES.insert(0, sys.argv.pop())
runpy.run_path("setup.py", run_name="__main__")
"""
"""mypyc gives modules the first of these suffixes, which is this machine's own otherwise."""
TAG = "cp{0}{1}-cp{0}{1}".format(*sys.version_info)


def build(target: Target, python: TargetPython, directory: Path, level: str = "3") -> Path:
    """The wheel of a platform, optimised as the C compiler's ``-O`` says; it lies in the directory then."""
    directory.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="kpybroker-") as work:
        ran(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", work)
        (pure,) = Path(work).glob("*.whl")
        compiled = compile_modules(target, python, Path(work), level)
        finished = directory / pure.name.replace("py3-none-any", f"{TAG}-{target.platforms[0]}")
        assemble(pure, compiled, finished)
    return finished


def written_c(suffix: str) -> Path:
    """The directory in which mypyc has written the C of these sources, for modules with a suffix."""
    files = [path for package in hatch_build.PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    digest = hashlib.sha256(repr((sys.version, metadata.version("mypy"), suffix, WRITING)).encode())
    for path in (ROOT / "hatch_build.py", *files):
        digest.update(path.read_bytes())

    def write(directory: Path) -> None:
        hatch_build.lay_out(ROOT, directory)
        ran(sys.executable, "-c", WRITING, "--name", suffix, cwd=directory)

    return kept(f"c-{digest.hexdigest()[:16]}", write)


def runtime() -> Path:
    """The directory with the C that all of mypyc's modules need."""
    found = importlib.util.find_spec("mypyc")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "lib-rt"


def compile_modules(target: Target, python: TargetPython, directory: Path, level: str) -> dict[str, Path]:
    """Compile all modules into a directory; their files by the names that they have in a wheel."""
    laid_out = written_c(target.suffix)
    written = laid_out / "build"
    sources = {name: written / f"{name.replace('.', '/')}.c" for name in hatch_build.MODULES}
    sources[SHARED] = written / "kpywire" / "__native_compiled.c"
    includes = (*python.headers, runtime(), written)
    exported = f"-Wl,--version-script={laid_out / 'exported'}"
    options = (f"-O{level}", *OPTIONS, exported, *(f"-I{path}" for path in includes))
    command = [zig(), "cc", "-target", target.triple, *options]
    cache = str(KEPT / "zig-cache")
    environment = {**os.environ, "ZIG_GLOBAL_CACHE_DIR": cache, "ZIG_LOCAL_CACHE_DIR": cache}
    outputs = {name: directory / f"{name}{target.suffix}" for name in sources}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        largest_first = sorted(sources, key=lambda name: name != SHARED)
        commands = [(*command, sources[name], "-o", outputs[name]) for name in largest_first]
        list(pool.map(lambda words: ran(*words, env=environment), commands))
    return {f"{name.replace('.', '/')}{target.suffix}": path for name, path in outputs.items()}


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
