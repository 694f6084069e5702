"""Options of sources and sinks as Spark gives them: texts by names without regard to case. Pure."""

import re
from collections.abc import Collection, Mapping
from typing import Final

from kpybroker.machines.names_nearby import nearby
from kpybroker.machines.scan.errors import BadOption

KAFKA: Final = "kafka."
"""The beginning of the options that are properties of the client."""
STORE_CONFIGS: Final = "rsm.config."
"""The beginning of the options that are configs of a tiered cluster's store."""
STORE_NAMES: Final = ("kpybroker.remote.store", "remote.log.storage.manager.class.name")
"""The other options that say where the store is."""
KEY_PAIRS: Final = f"{STORE_CONFIGS}encryption.key.pairs"
MOST: Final = 0x7FFF_FFFF_FFFF_FFFF
MOST_DIGITS: Final = 1000
MOST_INT: Final = 0x7FFF_FFFF
_WHOLE: Final = re.compile(r"[+-]?\d+")
"""Numbers as Java reads them: without blanks, and without the underscores of Python."""

Given = Mapping[str, str]
"""Options by their names in lower case."""


def lowered(options: Mapping[str, str]) -> Given:
    """The options that were given."""
    return {key.lower(): str(value) for key, value in options.items()}


def properties_of(given: Given, refused: Mapping[str, str], client: str) -> dict[str, str]:
    """The properties of the client. Raises BadOption for one that is refused, or without servers."""
    properties = {key.removeprefix(KAFKA): value for key, value in given.items() if key.startswith(KAFKA)}
    for key, why in refused.items():
        if key in properties:
            raise BadOption(f"Kafka option '{key}' is not supported. {why}")
    if not properties.get("bootstrap.servers"):
        raise BadOption(f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {client}")
    return properties


def store_of(given: Given) -> dict[str, str]:
    """The configs of the store, by the names that a broker's file has: the ids of keys are not in lower case there."""
    configs = {key: value for key, value in given.items() if key in STORE_NAMES or key.startswith(STORE_CONFIGS)}
    for key_id in (each.strip() for each in configs.get(KEY_PAIRS, "").split(",")):
        beginning = f"{KEY_PAIRS}.{key_id}.".lower()
        for key in [each for each in configs if each.startswith(beginning)]:
            configs[f"{KEY_PAIRS}.{key_id}.{key.removeprefix(beginning)}"] = configs.pop(key)
    return configs


def unknown_options(given: Given, known: Collection[str]) -> tuple[str, ...]:
    """A line for each option that nobody knows, with similar ones of those that are ``known``."""
    in_lower_case = {name.lower() for name in known}
    unknown = sorted(key for key in given if key not in in_lower_case and not key.startswith((KAFKA, STORE_CONFIGS)))
    return tuple(f"the option {key} is not known and has no effect{nearby(known, key, 1)}" for key in unknown)


def flag(given: Given, option: str, *, default: bool) -> bool:
    """An option that is true or false. Raises BadOption."""
    text = given.get(option.lower())
    if text is None:
        return default
    return chosen(option, text, ("true", "false")) == "true"


def word(given: Given, option: str, words: tuple[str, ...]) -> str:
    """One of these words; the first is the default. Raises BadOption."""
    return chosen(option, given.get(option.lower(), words[0]), words)


def chosen(option: str, text: str, words: tuple[str, ...]) -> str:
    """The word that a text is, in any case and without blanks, as Spark reads it. Raises BadOption."""
    found = text.lower()
    if found not in words:
        raise BadOption(f"{option} is {', '.join(words[:-1])} or {words[-1]}, not {text[:80]!r}")
    return found


def number(given: Given, option: str, *, least: int = 1, most: int = MOST) -> int | None:
    """A whole number; None if it is not given. Raises BadOption."""
    text = given.get(option.lower())
    return None if text is None else whole(option, text, least=least, most=most)


def whole(option: str, text: str, *, least: int, most: int = MOST) -> int:
    """The whole number that a text is. Raises BadOption."""
    if _WHOLE.fullmatch(text) is None or len(text) > MOST_DIGITS:
        raise BadOption(f"{option} is a whole number, not {text[:80]!r}")
    found = int(text)
    if found < least:
        raise BadOption(f"{option} must be {'positive' if least else '0 or more'}")
    if found > most:
        raise BadOption(f"{option} must be {most} or less")
    return found
