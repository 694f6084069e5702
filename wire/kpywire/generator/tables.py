"""Writes the tables of the declarations and their modules: ``api.py`` and each records package's ``table.py``."""

from kpywire.generator.names import file_stem, snake_case
from kpywire.generator.specifications import Specification
from kpywire.schema import parse_versions

_API_HEAD = '''"""Kafka's APIs: keys, names, versions, and the classes of their messages, imported when asked for.

The versions are those that Apache Kafka serves by default, without unstable ones; a broker may serve fewer.
Written by `kpywire.generator`.
"""

from importlib import import_module
from typing import Any, Final, NamedTuple

'''
_API_MIDDLE = '''
PRODUCE_ADVERTISED_MIN_VERSION: Final = 0
"""ApiVersions says so for the sake of old librdkafka; requests below 3 are refused."""
NEVER_FLEXIBLE: Final = 0x7FFF


class ApiKey(NamedTuple):
    """One API. From ``flexible_version`` on, its messages and their headers have tagged fields."""

    key: int
    name: str
    min_version: int
    max_version: int
    flexible_version: int
    module: str
    listeners: tuple[str, ...]


_BROKER = ("broker",)
_CONTROLLER = ("controller",)
_BROKER_AND_CONTROLLER = ("broker", "controller")
_ZK_BROKER = ("zkBroker",)  # brokers in ZooKeeper mode alone, which Kafka 4.0 removed

API_KEYS: dict[int, ApiKey] = {
    api[0]: ApiKey(*api)
    for api in (
'''
_API_TAIL = '''    )
}


def request_class(key: int) -> Any:
    """The class of an API's requests. KeyError if Kafka has no such API (any more)."""
    return _message_class(key, "Request")


def response_class(key: int) -> Any:
    """The class of an API's responses. KeyError if Kafka has no such API (any more)."""
    return _message_class(key, "Response")


def _message_class(key: int, direction: str) -> Any:
    api = API_KEYS[key]
    return getattr(import_module(f"kpywire.messages.{api.module}"), api.name + direction)
'''


def api_text(specifications: list[Specification]) -> str:
    """``api.py``."""
    requests = {each.key: each for each in specifications if each.kind == "request" and each.key is not None}
    lines = [
        f"{_constant(each.name.removesuffix('Request'))}: Final = {key}\n" for key, each in sorted(requests.items())
    ]
    rows = [_api_row(each) for _, each in sorted(requests.items()) if parse_versions(each.versions)]
    return _API_HEAD + "".join(lines) + _API_MIDDLE + "".join(rows) + _API_TAIL


def _api_row(each: Specification) -> str:
    versions, flexible = parse_versions(each.versions), parse_versions(each.flexible)
    name = each.name.removesuffix("Request")
    newest = versions[-1] - each.unstable
    first = str(flexible[0]) if flexible else "NEVER_FLEXIBLE"
    listeners = "_ZK_BROKER" if "zkBroker" in each.listeners else "_" + "_AND_".join(sorted(each.listeners)).upper()
    return f'        ({each.key}, "{name}", {versions[0]}, {newest}, {first}, "{file_stem(each.name)}", {listeners}),\n'


def records_table_text(specifications: list[Specification]) -> str:
    """A records package's ``table.py``: a constant for each type, and the module that declares it."""
    typed = {each.key: file_stem(each.name) for each in specifications if each.key is not None}
    lines = [f"{stem.upper()}: Final = {key}\n" for key, stem in sorted(typed.items())]
    rows = [f'    {stem.upper()}: "{stem}",\n' for _, stem in sorted(typed.items())]
    return (
        '"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""\n\n'
        "from typing import Final\n\n" + "".join(lines) + "\nMODULES: dict[int, str] = {\n" + "".join(rows) + "}\n"
    )


def _constant(name: str) -> str:
    return snake_case(name).upper()
