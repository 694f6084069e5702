"""Applications that live on a broker: a schema registry, stream processors, change data capture.

Programs in applications/ drive each of them. Those in Python run in an environment of their own, beside the
application; those for Java start JVMs from here. The applications come from package registries, pinned by version.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from foreign import packages
from foreign.own_programs import programs
from foreign.suite import HERE, Pytest, PytestSuite

PROGRAMS: Final = HERE / "applications"
POMS: Final = HERE / "poms"
RUNNER: Final = "pytest==9.2.0"
AVRO_CLIENT: Final = ("confluent-kafka[avro]==2.16.0", RUNNER)


def application(
    bootstrap_servers: str, python: Path, program: str, plugins: Sequence[str] = (), **environment: str
) -> Pytest:
    """A program of the folder, with the interpreter that has its packages."""
    return Pytest(
        python=python,
        root=PROGRAMS,
        tests=[program],
        plugins=["broker_fixtures", *plugins],
        environment={"FOREIGN_BOOTSTRAP_SERVERS": bootstrap_servers, **environment},
        options=["-c", str(HERE / "plugins" / "pytest.ini"), "--rootdir", "."],
    )


def _registry() -> Path:
    """Apicurio Registry, of the last release that runs on Java 17."""
    packages.needed("java")
    return packages.maven_archive(
        "io.apicurio:apicurio-registry-app:3.0.9:tar.gz:all",
        "apicurio-registry-app-3.0.9-all.tar.gz",
        "2b28181501a20cbf6efcd77f9b7153908fc01f3d3a7c32024c0bd9e1b04c8a43",
    )


def _avro_client() -> Path:
    return packages.python_environment("avro", AVRO_CLIENT)


def _avro(bootstrap_servers: str) -> Pytest:
    program = "avro_records.py"
    return application(bootstrap_servers, _avro_client(), program, ["registry"], FOREIGN_REGISTRY=str(_registry()))


AVRO: Final = PytestSuite("avro", _avro, lambda: (_registry(), _avro_client()))


def _quix_environment() -> Path:
    return packages.python_environment("quix", ["quixstreams==3.28.1", RUNNER])


def _quix(bootstrap_servers: str) -> Pytest:
    return application(bootstrap_servers, _quix_environment(), "quix.py")


QUIX: Final = PytestSuite("quix", _quix, _quix_environment)


def _flink_jars() -> dict[str, str]:
    return {"FOREIGN_FLINK": str(packages.maven_jars(POMS / "flink.xml"))}


def _debezium_plugins() -> dict[str, str]:
    """The directory that holds the connector's directory, as Connect's ``plugin.path`` wants it; and PostgreSQL's."""
    found = shutil.which("initdb") or max(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), default=None)
    if found is None:
        raise packages.Unavailable("there is no PostgreSQL on this machine (Debian: postgresql)")
    plugins = packages.maven_jars(POMS / "debezium.xml").parent
    return {"FOREIGN_DEBEZIUM": str(plugins), "FOREIGN_POSTGRESQL": str(Path(found).resolve().parent)}


FLINK: Final = programs("flink-sql", ["foreign/applications/flink_sql.py"], _flink_jars)
DEBEZIUM: Final = programs("debezium", ["foreign/applications/debezium.py"], _debezium_plugins)
