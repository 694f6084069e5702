"""The mistakes in the blocks of a document that can be found without running them, each as one line."""

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from contextlib import suppress

import click
from test_documented_commands import FENCE, IN_FENCE, IN_TABLE, parse, words_of

from kpybroker.client.client_configs import PROPERTIES
from kpybroker.config.authorizer_configs import OF_OWN_ZOOKEEPER
from kpybroker.config.broker_values import KNOWN
from kpybroker.config.synonyms import base_of_listener_config
from kpybroker.machines.scan import options as of_scans
from kpybroker.pipeline.sink import options as of_sinks

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"""\.option\("([^"]+)"|^ +"(kafka\.[\w.]+)":""", re.MULTILINE)
CONTINUED = re.compile(r"\\\n\s*")
OF_SPARK = frozenset({"checkpointLocation"})
OF_CLIENTS = frozenset({"bootstrap.servers", "security.protocol", "sasl.mechanism"})
"""Keys of Java's clients that documents show."""
OF_AUTHORIZERS = frozenset({"super.users", *OF_OWN_ZOOKEEPER})
SKETCHES = frozenset({"ARCHITECTURE.md"})
"""Documents whose blocks are signatures and no programs."""


def blocks(text: str, language: str) -> list[str]:
    return [
        re.sub(rf"^{indent}", "", block, flags=re.MULTILINE)
        for indent, of, block in BLOCK.findall(text)
        if of == language
    ]


def wrong_commands(text: str) -> Iterator[str]:
    """Command lines of ours that click refuses."""
    lines = [line for block in FENCE.findall(text) for line in IN_FENCE.findall(block)] + IN_TABLE.findall(text)
    for line in lines:
        try:
            parse(words_of(line))
        except (click.exceptions.Exit, click.exceptions.NoArgsIsHelpError):
            continue
        except click.ClickException as error:
            reported = error.format_message()
            if "does not exist" not in reported and "No such file" not in reported:
                yield f"kpybroker {line}: {reported}"


def wrong_programs(text: str) -> Iterator[str]:
    """Blocks that are no Python, and names that cannot be imported. A chain of calls stands for the end of one."""
    for block in blocks(text, "python"):
        try:
            tree = ast.parse(f"_{block}" if block.startswith(".") else block)
        except SyntaxError as error:
            yield f"{block.splitlines()[0]}: {error}"
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                yield from (wrong for each in node.names if (wrong := _missing(each.name, "")))
            elif isinstance(node, ast.ImportFrom):
                yield from (wrong for each in node.names if (wrong := _missing(node.module or "", each.name)))


def _missing(module: str, name: str) -> str | None:
    try:
        found = importlib.import_module(module)
    except ImportError:
        return f"there is no module {module}"
    if not name or hasattr(found, name):
        return None
    with suppress(ModuleNotFoundError):
        if importlib.util.find_spec(f"{module}.{name}"):
            return None
    return f"{module} has no {name}"


def wrong_options(text: str) -> Iterator[str]:
    """Options of Spark's sources and sinks that neither ours nor our client has."""
    options = {*of_scans.KNOWN, *of_sinks.KNOWN, *OF_SPARK}
    properties = {each.name for each in PROPERTIES} | OF_CLIENTS
    for block in blocks(text, "python"):
        for called, keyed in OPTION.findall(block):
            name = called or keyed
            if name not in options and name.removeprefix("kafka.") not in properties:
                yield f"there is no option {name}"


def wrong_properties(text: str) -> Iterator[str]:
    """Keys that nodes and clients do not have."""
    for block in blocks(text, "properties"):
        for line in CONTINUED.sub("", block).splitlines():
            name, is_entry, _ = line.strip().partition("=")
            if is_entry and not name.startswith("#") and not _is_known(name.strip()):
                yield f"there is no config {name.strip()}"


def _is_known(name: str) -> bool:
    return name in KNOWN or base_of_listener_config(name) in KNOWN or name in OF_CLIENTS | OF_AUTHORIZERS


FINDERS = (wrong_commands, wrong_programs, wrong_options, wrong_properties)


def mistakes(text: str) -> list[str]:
    return [each for find in FINDERS for each in find(text)]
