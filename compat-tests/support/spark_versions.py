"""The versions of Spark that the suite runs with: PySpark and the connector's jars of each, fetched on demand.

The version that is installed is used as it is. Another one is put by pip into a directory of its own below ``build/``
and goes before everything else on the import path, so it has to be chosen before anybody imports ``pyspark``.
"""

import fcntl
import re
import subprocess
import sys
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, NamedTuple

from oracle.jars import BUILD
from oracle.maven import copied

POM: Final = Path(__file__).with_name("spark_pom.xml")
JAVA_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


class Spark(NamedTuple):
    """One version: its Scala, what it runs on, and the version of the connector's token provider."""

    version: str
    scala: str
    javas: frozenset[int]
    newest_python: tuple[int, int]
    token_provider: str | None
    """None where this connector cannot be had: then only kpybroker's data source reads Kafka."""


VERSIONS: Final[Mapping[str, Spark]] = {
    spark.version: spark
    for spark in (
        Spark("3.5.1", "2.12", frozenset({8, 11, 17}), (3, 11), "3.5.1"),
        Spark("4.0.0", "2.13", frozenset({17, 21}), (3, 13), "4.0.0"),
        Spark("4.2.0", "2.13", frozenset({17, 21, 25}), (3, 14), "4.0.0"),
        Spark("4.3.0", "2.13", frozenset({17, 21, 25}), (3, 14), None),
    )
}


class UnavailableError(RuntimeError):
    """A version of Spark cannot be had or run here; the text says why in one line."""


def installed() -> str:
    """The version that this environment has. Raises UnavailableError."""
    try:
        return metadata.version("pyspark")
    except metadata.PackageNotFoundError:
        raise UnavailableError("PySpark is not installed") from None


def known(version: str) -> Spark:
    """Raises UnavailableError."""
    if version not in VERSIONS:
        raise UnavailableError(f"Spark {version} is not one that the suite knows: {', '.join(VERSIONS)}")
    return VERSIONS[version]


def use(version: str) -> None:
    """Makes ``import pyspark`` mean this version, for the rest of the process. Raises UnavailableError."""
    spark = known(version)
    if sys.version_info[:2] > spark.newest_python:
        newest = ".".join(map(str, spark.newest_python))
        raise UnavailableError(f"Spark {version} is for Python {newest} at most")
    if (java := java_version()) not in spark.javas:
        raise UnavailableError(f"Spark {version} is for Java {', '.join(map(str, sorted(spark.javas)))}, not {java}")
    if version != installed():
        sys.path.insert(0, str(_package(version)))


def java_version() -> int:
    """The major version of the Java that Spark would find. Raises UnavailableError."""
    try:
        reported = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        raise UnavailableError("Spark needs Java: java not found") from None
    found = JAVA_VERSION.search(reported)
    if found is None:
        raise UnavailableError(f"java does not say its version: {reported[:200]!r}")
    return int(found[1])


def connector(version: str) -> list[Path]:
    """The jars of the Kafka connector, for ``spark.jars``; none where there is none. Raises UnavailableError."""
    spark = known(version)
    if spark.token_provider is None:
        return []
    chosen = {"spark.version": version, "scala.version": spark.scala, "token.version": spark.token_provider}
    options = [f"-D{name}={value}" for name, value in chosen.items()]
    try:
        return sorted(copied(POM, BUILD / f"spark-{version}", *options).glob("*.jar"))
    except RuntimeError as problem:
        raise UnavailableError(one_line(str(problem))) from None


def _package(version: str) -> Path:
    """The directory with PySpark of a version that is not installed; pip fills it at the first call."""
    home = BUILD / f"spark-{version}"
    target, done = home / "python", home / ".installed"
    home.mkdir(parents=True, exist_ok=True)
    with open(home / ".installing", "w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not done.exists():
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--upgrade", "--target", str(target)]
            finished = subprocess.run([*command, f"pyspark=={version}"], capture_output=True, text=True, check=False)
            if finished.returncode != 0:
                raise UnavailableError(f"pip could not install pyspark=={version}: {one_line(finished.stderr)}")
            done.touch()
    return target


def one_line(text: str) -> str:
    return " ".join(text.split())[:400]
