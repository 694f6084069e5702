"""Apache Kafka's jars: where they are, and how to run a class of theirs or of ours with them.

They are fetched once by Maven into ``build/kafka-<version>/libs`` of the checkout (56 MB). Comparisons use
``KAFKA_VERSION``. The older releases are there for the data directories, the clusters and the clients of theirs.
"""

import fcntl
import subprocess
from collections.abc import Sequence
from pathlib import Path

from oracle.maven import copied
from oracle.quick import LOGGING, QUICK
from oracle.shared_classes import shared_classes

KAFKA_VERSION = "4.4.0"
KAFKA_BEFORE = "4.3.1"
KAFKA_BEFORE_4 = "3.9.2"
KAFKA_WITH_NAMES = "2.8.2"
"""A release whose brokers serve no Fetch by topic ids."""
KAFKA_OLDEST = "2.1.1"
"""The oldest one that a mirror may have as its source."""
HERE = Path(__file__).resolve().parent
POMS = {
    KAFKA_VERSION: HERE / "pom.xml",
    KAFKA_BEFORE: HERE / "pom-4.3.xml",
    KAFKA_BEFORE_4: HERE / "pom-3.9.xml",
    KAFKA_WITH_NAMES: HERE / "pom-2.8.xml",
    KAFKA_OLDEST: HERE / "pom-2.1.xml",
}
BUILD = HERE.parent.parent / "build"
COMPILED = ".compiled"
KAFKA_LOG = HERE / "KafkaLog.java"
"""A log without a broker around it, for programs that drive one."""


def jars_directory(release: str = KAFKA_VERSION) -> Path:
    """The directory that holds Apache Kafka's jars; fetches them at the first call (Maven, about 12 s)."""
    return copied(POMS[release], BUILD / f"kafka-{release}", f"-Dkafka.version={release}")


def classpath(*extra: Path, release: str = KAFKA_VERSION) -> str:
    """A Java class path of the jars and of ``extra`` directories behind them."""
    return ":".join((f"{jars_directory(release)}/*", *map(str, extra)))


def jvm(*extra: Path, heap: str = "256m", release: str = KAFKA_VERSION) -> list[str]:
    """The words that start a small JVM with this class path; a main class follows."""
    return ["java", f"-Xmx{heap}", *QUICK, *sharing(release), LOGGING, "-cp", classpath(*extra, release=release)]


def sharing(release: str) -> list[str]:
    """The options with which a JVM maps Kafka's classes. Few JVMs run older releases: to make their archive would take
    longer than it saves."""
    return shared_classes(jars_directory(release)) if release == KAFKA_VERSION else []


def compile_java(source: Path, *extra: Path, beside: Sequence[Path] = (), release: str = KAFKA_VERSION) -> Path:
    """Compile one Java source file, and those ``beside`` it that it needs, against the jars and ``extra`` ones; the
    directory of its classes, made once.

    Who wants the same classes meanwhile, in another process, waits for them.
    """
    target = BUILD / "java" / release / source.stem
    if not _is_compiled(target, source, *beside):
        target.mkdir(parents=True, exist_ok=True)
        with open(target / ".compiling", "w") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            if not _is_compiled(target, source, *beside):
                _javac("-d", str(target), "-cp", classpath(*extra, release=release), str(source), *map(str, beside))
                (target / COMPILED).touch()
    return target


def _is_compiled(target: Path, *sources: Path) -> bool:
    stamp = target / COMPILED
    return stamp.exists() and all(stamp.stat().st_mtime >= source.stat().st_mtime for source in sources)


def _javac(*arguments: str) -> None:
    # A compiler that is compiled once and quickly, and looks for no processors of annotations, takes half the CPU time.
    command = ["javac", "-nowarn", *(f"-J{option}" for option in QUICK), "-proc:none", *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise RuntimeError(f"javac {arguments[-1]}:\n{finished.stdout}{finished.stderr}")


def java(
    main_class: str,
    *arguments: str,
    classes: Sequence[Path] = (),
    stdin: str | None = None,
    timeout_s: float = 120,
    heap: str = "256m",
    release: str = KAFKA_VERSION,
) -> subprocess.CompletedProcess[str]:
    """Run a Java class to its end and return what it printed. Never raises on a bad exit code."""
    command = [*jvm(*classes, heap=heap, release=release), main_class, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False)
