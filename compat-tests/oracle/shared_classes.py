"""Kafka's classes as JVMs map them into memory (class data sharing), in place of reading and verifying them.

The archive of a directory of jars is made once, of the classes that brokers, tools and clients use; it stays in
``build/``. A JVM takes it if its class path begins with these jars, and otherwise starts as it does without.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZipFile

USED: Final = ("kafka", "connect", "scala-library", "log4j", "reload4j", "slf4j", "jackson", "metrics", "zookeeper")
"""How the names of the jars begin whose classes are in an archive."""


def shared_classes(jars: Path) -> list[str]:
    """The options with which a JVM takes the archive of the jars in a directory; it is made at the first call."""
    home = Path(shutil.which("java") or "java").resolve().parents[1]
    archive = jars.parents[1] / "shared-classes" / home.name / f"{jars.parent.name}.jsa"
    if not _is_made(archive, jars):
        archive.parent.mkdir(parents=True, exist_ok=True)
        with open(archive.with_suffix(".making"), "w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            if not _is_made(archive, jars):
                _dump(home, jars, archive)
    return [f"-XX:SharedArchiveFile={archive}"] if archive.stat().st_size else []


def _is_made(archive: Path, jars: Path) -> bool:
    return archive.exists() and archive.stat().st_mtime >= jars.stat().st_mtime


def _dump(home: Path, jars: Path, archive: Path) -> None:
    """Make the archive; an empty file where this JVM cannot."""
    with tempfile.TemporaryDirectory(dir=archive.parent) as work:
        names, made = Path(work) / "names", Path(work) / "made"
        usual = home / "lib" / "classlist"
        names.write_text("".join((usual.read_text() if usual.exists() else "", *_names(jars))))
        options = (f"-XX:SharedClassListFile={names}", f"-XX:SharedArchiveFile={made}", "-XX:+UseG1GC")
        command = ["java", "-Xshare:dump", *options, "-Xlog:disable", "-cp", f"{jars}/*"]
        subprocess.run(command, capture_output=True, check=False)
        made.touch()
        os.replace(made, archive)


def _names(jars: Path) -> Iterator[str]:
    for path in sorted(jars.glob("*.jar")):
        if path.name.startswith(USED):
            with ZipFile(path) as jar:
                classes = (name for name in jar.namelist() if name.endswith(".class"))
                yield from (f"{name.removesuffix('.class')}\n" for name in classes if not name.startswith("META-INF/"))
