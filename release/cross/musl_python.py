"""CPython for Linux with musl, built from Debian's sources by zig. It runs here: musl itself is a package of Debian's.

It has what a broker needs: zlib, ctypes, OpenSSL. It is not installed but runs where it was built.
"""

import os
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from release.cross.fetching import KEPT, debian, kept, ran, sources, zig

TRIPLE = "x86_64-linux-musl"
FOREIGN_CIPHERS = "aria bf camellia cast gost idea md4 mdc2 rc2 rc4 seed sm2 sm3 sm4 whirlpool"
LEFT_OUT = "shared tests module engine dso legacy cmp cms ct dsa dtls ec2m rfc3779 srp srtp ts"
"""Parts of OpenSSL that Python has no use for."""
NEWER_THAN_MUSL = ("preadv2", "pwritev2")
"""Functions of the musl that zig knows, which Debian's has not."""
DISABLED = """*disabled*
_bz2 _crypt _ctypes_test _curses _curses_panel _dbm _elementtree _gdbm _lzma _sqlite3 _tkinter _uuid audioop nis
_codecs_cn _codecs_hk _codecs_iso2022 _codecs_jp _codecs_kr _codecs_tw _multibytecodec ossaudiodev readline spwd
_testbuffer _testcapi _testclinic _testimportmultiple _testinternalcapi _testmultiphase
_xxtestfuzz xxlimited xxlimited_35
"""
CC = """for word; do
    case $word in
        -c) exec {compiler} "$@" ;;
        *-print-multiarch) echo {triple}; exit ;;
    esac
done
exec {compiler} {linking} "$@"
"""


def built_python(version: str) -> Path:
    """The directory in which CPython was built; ``python`` in it is the program."""
    loader = debian("musl", "amd64", alone=("musl",)) / "lib" / f"ld-musl-{TRIPLE.partition('-')[0]}.so.1"
    tools = kept("musl-tools", lambda directory: write_tools(directory, loader))
    libraries = kept("musl-libraries", lambda directory: build_libraries(directory, tools))

    def build(directory: Path) -> None:
        sources(f"python{version}", directory)
        (directory / "Modules" / "Setup.local").write_text(DISABLED)
        found = {
            "CPPFLAGS": f"-I{libraries / 'include'}",
            "LDFLAGS": f"-L{libraries / 'lib'}",
            "OPT": "-O1 -DNDEBUG -Wno-date-time",
            "PKG_CONFIG_PATH": str(libraries / "lib" / "pkgconfig"),
            **{f"ac_cv_func_{name}": "no" for name in NEWER_THAN_MUSL},
        }
        options = (f"--build={TRIPLE}", f"--with-openssl={libraries}", "--without-ensurepip", "--disable-test-modules")
        environment = {**compilers(tools), **found}
        ran("sh", "configure", *options, cwd=directory, env=environment)
        ran("make", "-s", f"-j{os.cpu_count()}", cwd=directory, env=environment)
        # make is content without them.
        ran(directory / "python", "-S", "-c", "import ctypes, ssl, zlib")

    return kept(f"python{version}-musl", build)


def write_tools(directory: Path, loader: Path) -> None:
    """Write commands that build for musl. Programs name the loader under build/, so that they start here.

    With -fPIC a program finds the variables of libc where they are. Otherwise the linker moves them into the program,
    and since all have one place in the libc that zig links with, they would all be one.
    """
    compiler = f"{shlex.quote(str(zig()))} cc -target {TRIPLE} -fno-sanitize=undefined -fPIC"
    linking = f"-dynamic -Wl,--dynamic-linker={shlex.quote(str(loader))}"
    commands = {
        "cc": CC.format(compiler=compiler, linking=linking, triple=TRIPLE),
        **{name: f'exec {shlex.quote(str(zig()))} {name} "$@"' for name in ("ar", "ranlib")},
    }
    for name, lines in commands.items():
        (directory / name).write_text(f"#!/bin/sh\n{lines}\n")
        (directory / name).chmod(0o755)


def compilers(tools: Path) -> dict[str, str]:
    """The environment in which the commands are found, and flags that all sources take."""
    named = {"CC": "cc", "AR": "ar", "RANLIB": "ranlib"}
    caches = dict.fromkeys(("ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"), str(KEPT / "zig-cache"))
    return {**os.environ, **{name: str(tools / command) for name, command in named.items()}, **caches}


def build_libraries(directory: Path, tools: Path) -> None:
    """Build zlib, libffi and OpenSSL as archives, with their headers, below a directory."""
    environment = {**compilers(tools), "CFLAGS": "-O1"}
    without = [f"no-{name}" for name in f"{FOREIGN_CIPHERS} {LEFT_OUT}".split()]
    configured = {
        "zlib": ("sh", "configure", "--static"),
        "libffi": ("sh", "configure", f"--host={TRIPLE}", "--disable-shared", "--disable-exec-static-tramp"),
        "openssl": ("perl", "Configure", "linux-x86_64", "--libdir=lib", *without),
    }
    for package, command in configured.items():
        parts = ("build_generated", "libcrypto.a", "libssl.a") if package == "openssl" else ()
        with TemporaryDirectory(prefix="kpybroker-") as work:
            source = sources(package, Path(work))
            ran(*command, f"--prefix={directory}", cwd=source, env=environment)
            ran("make", "-s", f"-j{os.cpu_count()}", *parts, cwd=source, env=environment)
            ran("make", "-s", "install_dev" if parts else "install", cwd=source, env=environment)
