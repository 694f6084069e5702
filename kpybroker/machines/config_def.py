"""One config key as Kafka's ConfigDef describes it, with the conversion of its value from and to text.

Not here: the values that were set. Texts are parsed, printed and refused word for word as in Kafka's ``ConfigDef``,
since clients and scripts show these words. Lists are tuples, so that a default can be shared.
"""

from collections import Counter
from collections.abc import Generator, Iterable, Mapping
from typing import Final, Protocol

from kpybroker.machines.errors import KafkaError
from kpywire.error_codes import INVALID_CONFIG

# Types, by the names Kafka's documentation gives them.
BOOLEAN: Final = "boolean"
STRING: Final = "string"
INT: Final = "int"
SHORT: Final = "short"
LONG: Final = "long"
DOUBLE: Final = "double"
LIST: Final = "list"
CLASS: Final = "class"
PASSWORD: Final = "password"

HIGH: Final = "high"
MEDIUM: Final = "medium"
LOW: Final = "low"

# How a broker config can be changed while the broker runs (KIP-226).
READ_ONLY: Final = "read-only"
PER_BROKER: Final = "per-broker"
CLUSTER_WIDE: Final = "cluster-wide"

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

HIDDEN: Final = "[hidden]"
_JAVA_TRIMMED = "".join(map(chr, range(33)))
_JAVA_SPACE = " \t\n\x0b\f\r"
_INTEGER_BITS = {SHORT: 16, INT: 32, LONG: 64}


class Password:
    """A secret config value that does not print itself."""

    __slots__ = ("value",)

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


ConfigValue = bool | int | float | str | tuple[str, ...] | Password | None


class ConfigError(KafkaError):
    """A configuration that is refused: Kafka's sentence, and the Kafka error code for the response."""

    message: str

    def __init__(self, message: str, code: int = INVALID_CONFIG) -> None:
        super().__init__(code, message)

    def __str__(self) -> str:
        return self.message


class Validator(Protocol):
    """Defines which values of a config are valid; ``str()`` of it is Kafka's "valid values" text."""

    def check(self, name: str, value: ConfigValue) -> None:
        """Raise ConfigError if ``value`` is not valid for the config ``name``."""


class ConfigKey:
    """Everything Kafka defines about one key except its documentation (see ``documentation.py``).

    ``required`` keys have no default (their ``default`` is None); ``internal`` ones are not described to clients.
    """

    __slots__ = ("default", "importance", "internal", "name", "required", "type", "update", "valid")

    def __init__(  # noqa: PLR0913
        self,
        name: str,
        type: str,  # noqa: A002
        default: ConfigValue,
        importance: str,
        valid: Validator | None = None,
        *,
        update: str = READ_ONLY,
        internal: bool = False,
        required: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.default = default
        self.importance = importance
        self.valid = valid
        self.update = update
        self.internal = internal
        self.required = required

    @property
    def sensitive(self) -> bool:
        """Values of this key are never shown."""
        return self.type == PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The typed, valid value of ``text``. Raises ConfigError in Kafka's words if there is none."""
        value = parse_type(self.name, text, self.type)
        if self.valid is not None:
            if isinstance(value, tuple) and getattr(self.valid, "drops_duplicates", False):
                value = tuple(dict.fromkeys(value))
            self.valid.check(self.name, value)
        return value

    def __repr__(self) -> str:
        return f"ConfigKey({self.name!r}, {self.type}, default={self.default!r})"


Definitions = Mapping[str, ConfigKey]


def define(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    """Keys by their names."""
    return {key.name: key for key in keys}


def missing(name: str) -> ConfigError:
    """The error for a required config that was not set."""
    return ConfigError(f'Missing required configuration "{name}" which has no default value.')


def invalid_value(name: str, value: object, reason: str = "") -> ConfigError:
    """The error for a value that a config cannot take."""
    return ConfigError(f"Invalid value {java_string(value)} for configuration {name}{reason and ': ' + reason}")


def parse_type(name: str, text: str, type: str) -> ConfigValue:  # noqa: A002
    """``text`` as a value of a config type, without the restrictions of the key (``ConfigDef.parseType``)."""
    trimmed = text.strip(_JAVA_TRIMMED)
    if type in _INTEGER_BITS:
        return _parse_integer(name, trimmed, type)
    if type == BOOLEAN:
        lowered = trimmed.lower()
        if lowered not in ("true", "false"):
            raise invalid_value(name, text, "Expected value to be either true or false")
        return lowered == "true"
    if type == LIST:
        return split_list(trimmed)
    if type == DOUBLE:
        return _parse_double(name, trimmed)
    if type == PASSWORD:
        return Password(trimmed)
    return trimmed


def split_list(text: str) -> tuple[str, ...]:
    """A comma separated list; white space around commas does not count, an empty text is an empty list."""
    return tuple([part.strip(_JAVA_SPACE) for part in text.split(",")]) if text else ()


def _parse_integer(name: str, text: str, type: str) -> int:  # noqa: A002
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and len(digits) <= 400:
        number = int(text)
        if -(1 << _INTEGER_BITS[type] - 1) <= number < 1 << _INTEGER_BITS[type] - 1:
            return number
    raise invalid_value(name, text, f"Not a number of type {type.upper()}")


def java_int(text: str) -> int:
    """The number that ``Integer.parseInt`` reads. Raises ValueError for texts that it refuses, for example with white
    space."""
    digits = text[1:] if text[:1] in ("+", "-") else text
    if digits.isdecimal() and len(digits) <= 400 and -(2**31) <= int(text) <= INT_MAX:
        return int(text)
    raise ValueError(text)


def _parse_double(name: str, text: str) -> float:
    signless = text[1:] if text[:1] in ("+", "-") else text
    if signless in ("NaN", "Infinity"):
        return float(text)
    number = text[:-1] if text[-1:] in tuple("dDfF") else text
    if number.strip("+-.eE0123456789") == "":
        try:
            return float(number)
        except ValueError:
            pass
    raise invalid_value(name, text, "Not a number of type DOUBLE")


def to_text(value: ConfigValue) -> str | None:
    """The text of a value as DescribeConfigs shows it (``ConfigDef.convertToString``); None for an absent value."""
    if value is None or type(value) is str:
        return value
    return ",".join(value) if isinstance(value, tuple) else java_string(value)


def java_string(value: object) -> str:
    """A value as Java prints it inside a sentence."""
    if value is None:
        return "null"
    if value is True or value is False:
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(value)}]"
    return java_double(value) if isinstance(value, float) else str(value)


def java_double(number: float) -> str:
    """A double as ``Double.toString`` prints it: plain from 0.001 to below ten million, scientific beyond."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        plain = repr(number)
        if "e" not in plain:
            return plain
    mantissa, exponent = f"{number:.17e}".split("e")
    for digits in range(1, 18):
        shortest = f"{number:.{digits}e}"
        if float(shortest) == number:
            mantissa, exponent = shortest.split("e")
            break
    whole, fraction = mantissa.split(".")
    return f"{whole}.{fraction}E{int(exponent)}"


def edited_list(before: str, operand: str, *, subtracts: bool) -> str:
    """A list with the words of another one appended, each once, or removed (KIP-339)."""
    steps = edited_list_in_steps(before, operand, subtracts=subtracts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return str(end.value)


def edited_list_in_steps(before: str, operand: str, *, subtracts: bool) -> Generator[None, None, str]:
    """Like `edited_list`, for lists that may be long: yields now and then."""
    words = [word for word in before.split(",") if word]
    yield
    if subtracts:
        known = set(words)
        doomed = Counter([word for word in operand.split(",") if word in known])
        yield
        left = []
        for word in words:
            if doomed[word]:
                doomed[word] -= 1
            else:
                left.append(word)
        return ",".join(left)
    known = set(words)
    yield
    added = dict.fromkeys(operand.split(","))
    yield
    words += [word for word in added if word not in known]
    yield
    return ",".join(words)
