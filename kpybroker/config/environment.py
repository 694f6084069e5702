"""Environment variables of Kafka's container images as broker configs. Pure.

``KAFKA_LOG_DIRS`` is ``log.dirs``: the prefix is removed, letters become lower case, ``_`` becomes ``.``, ``__``
becomes ``_`` and ``___`` becomes ``-`` (the rule of the apache/kafka image). ``KAFKA_CFG_`` is understood as well, for
compose files written for another image. Variables that set up a JVM, and those Kubernetes makes for a service called
kafka, are not configs.
"""

from collections.abc import Mapping

_NOT_CONFIGS = frozenset(
    {
        "KAFKA_VERSION",
        "KAFKA_HEAP_OPTS",
        "KAFKA_OPTS",
        "KAFKA_HOME",
        "KAFKA_TOOLS_LOG4J_LOGLEVEL",
        "KAFKA_GC_LOG_OPTS",
        "KAFKA_JVM_PERFORMANCE_OPTS",
        "KAFKA_PORT",
    }
)
_NOT_CONFIG_PREFIXES = ("KAFKA_LOG4J_", "KAFKA_JMX_", "KAFKA_PORT_", "KAFKA_SERVICE_")
_PREFIXES = ("KAFKA_", "KAFKA_CFG_")


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The broker configs that ``environment`` sets, by Kafka name.

    Without ``listeners``, a broker listens on every interface at the ports of ``advertised.listeners``, as in Kafka's
    image.
    """
    configs: dict[str, str] = {}
    for prefix in _PREFIXES:
        for variable, value in environment.items():
            if variable.startswith(prefix) and not _is_no_config(variable):
                configs[_config_name(variable.removeprefix(prefix))] = value
    for variable in environment:
        if variable.startswith("KAFKA_CFG_"):
            configs.pop(_config_name(variable.removeprefix("KAFKA_")), None)
    advertised = configs.get("advertised.listeners")
    if advertised and "listeners" not in configs and configs.get("process.roles") != "controller":
        configs["listeners"] = ",".join(_on_every_interface(uri) for uri in advertised.split(","))
    return configs


def _is_no_config(variable: str) -> bool:
    return variable in _NOT_CONFIGS or variable.startswith(_NOT_CONFIG_PREFIXES)


def _config_name(variable: str) -> str:
    return variable.lower().replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _on_every_interface(uri: str) -> str:
    name, separator, address = uri.partition("://")
    return f"{name}{separator}0.0.0.0:{address.rpartition(':')[2]}"
