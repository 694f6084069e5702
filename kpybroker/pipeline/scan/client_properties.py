"""The options of sources and sinks that are properties of the client: their errors, and those that have no effect."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

from kpybroker.client import client_configs
from kpybroker.client.bad_property import BadProperty
from kpybroker.machines.scan.errors import BadOption
from kpybroker.machines.scan.given_options import KAFKA


@contextmanager
def bad_options() -> Iterator[None]:
    """Inside the block, errors of properties become BadOption, with the names of the options."""
    try:
        yield
    except BadProperty as error:
        raise BadOption(f"{KAFKA}{error}") from None
    except ValueError as error:
        raise BadOption(f"{KAFKA}bootstrap.servers: {error}") from None


def without_effect(properties: Mapping[str, str], commands: Iterable[str], harmless: frozenset[str]) -> list[str]:
    """A line for each property that neither a command of the client knows nor Java's clients."""
    known = {
        name
        for command in commands
        for each in client_configs.of_command(command).values()
        for name in (each.name, *each.also)
    }
    lines = []
    for key in sorted(properties.keys() - known - harmless - {"bootstrap.servers"}):
        close = get_close_matches(key, sorted(known), 1)
        hint = f"; did you mean {KAFKA}{close[0]}?" if close else ""
        lines.append(f"the option {KAFKA}{key} has no effect here{hint}")
    return lines
