"""Every declared message and record, with Kafka's names for them."""

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Any

import kpywire
from kpywire.generator.specifications import PLACES, Specification, read_package, with_removed
from oracle.jars import KAFKA_BEFORE_4, jars_directory

JAVA_PACKAGES = {
    "messages": "org.apache.kafka.common.message",
    "metadata_records": "org.apache.kafka.common.metadata",
    "group_records": "org.apache.kafka.coordinator.group.generated",
    "transaction_records": "org.apache.kafka.coordinator.transaction.generated",
    "share_records": "org.apache.kafka.coordinator.share.generated",
    "remote_log_records": "org.apache.kafka.server.log.remote.metadata.storage.generated",
}


@cache
def message_classes() -> dict[tuple[str, str], Any]:
    """Every class declared with ``@message``, by package and name."""
    found = {}
    for package in PLACES:
        home = importlib.import_module(f"{kpywire.__name__}.{package}")
        for module in pkgutil.iter_modules(home.__path__):
            declared = vars(importlib.import_module(f"{home.__name__}.{module.name}")).values()
            found.update({(package, each.__name__): each for each in declared if hasattr(each, "VERSIONS")})
    return found


def versions_of_messages() -> list[tuple[Any, int]]:
    """Every message at every version it has."""
    return [(cls, version) for cls in message_classes().values() for version in cls.VERSIONS]


def java_name(cls: Any) -> str:
    """The name of Kafka's class."""
    package = cls.__module__.split(".")[1]
    if cls.__name__ == "QuorumStateData":
        return "org.apache.kafka.raft.generated.QuorumStateData"
    ending = "Data" if cls.__name__.endswith(("Request", "Response", "Header")) else ""
    return f"{JAVA_PACKAGES[package]}.{cls.__name__}{ending}"


@cache
def specifications(jars: Path) -> dict[tuple[str, str], Specification]:
    """Kafka's specifications, by our package and their name."""
    of_3_9 = read_package(jars_directory(KAFKA_BEFORE_4), "messages")
    return {
        (package, each.name): each
        for package in PLACES
        for each in with_removed(read_package(jars, package), of_3_9 if package == "messages" else [])
    }
