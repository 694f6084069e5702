"""C programs of the benchmarks, each compiled once with the C compiler of the machine."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

BUILD: Final = Path(__file__).resolve().parents[2] / "build" / "bench"


class CompileError(RuntimeError):
    """There is no C compiler, or it refuses the source."""


def compiler() -> str | None:
    """The machine's C compiler, if it has one."""
    names = (os.environ.get("CC"), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def program(source: Path) -> Path:
    """Compile a C file if it has changed. Return the program's path. Raises CompileError."""
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    target = BUILD / f"{source.stem}-{digest}"
    if target.exists():
        return target
    found = compiler()
    if found is None:
        raise CompileError(f"no C compiler (cc) on this machine: {source.name} cannot be built")
    BUILD.mkdir(parents=True, exist_ok=True)
    part = target.with_suffix(f".{os.getpid()}")
    built = subprocess.run([found, "-O2", "-o", str(part), str(source)], capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise CompileError(f"{found} {source.name}:\n{built.stderr}")
    part.replace(target)
    return target
