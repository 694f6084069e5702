"""Validators of config values, in the words of Kafka's ConfigDef validators. Pure; no key is known here.

``str()`` of a validator is the "valid values" text of Kafka's documentation.
"""

from kpybroker.machines.config_def import ConfigError, ConfigValue, invalid_value, java_string
from kpybroker.machines.endpoints import parse_address, parse_bootstrap_servers, parse_voters


class Range:
    """Numbers from ``low`` to ``high``, both included; a missing bound is open."""

    __slots__ = ("high", "low")

    def __init__(self, low: float, high: float | None = None) -> None:
        self.low = low
        self.high = high

    def check(self, name: str, value: ConfigValue) -> None:
        if not isinstance(value, (int, float)):
            raise invalid_value(name, None, "Value must be non-null")
        if value < self.low:
            raise invalid_value(name, value, f"Value must be at least {java_string(self.low)}")
        if self.high is not None and value > self.high:
            raise invalid_value(name, value, f"Value must be no more than {java_string(self.high)}")

    def __str__(self) -> str:
        high = "" if self.high is None else f",{java_string(self.high)}"
        return f"[{java_string(self.low)},...{high}]"


def at_least(low: float) -> Range:
    """Numbers from ``low`` on."""
    return Range(low)


def between(low: float, high: float) -> Range:
    """Numbers from ``low`` to ``high``, both included."""
    return Range(low, high)


class OneOf:
    """One of a few words."""

    __slots__ = ("any_case", "words")

    def __init__(self, words: tuple[str, ...], *, any_case: bool = False) -> None:
        self.words = words
        self.any_case = any_case

    def check(self, name: str, value: ConfigValue) -> None:
        if self.any_case:
            if not isinstance(value, str) or value.upper() not in self.words:
                raise invalid_value(name, value, f"String must be one of (case insensitive): {', '.join(self.words)}")
        elif value not in self.words:
            raise invalid_value(name, value, f"String must be one of: {', '.join(self.words)}")

    def __str__(self) -> str:
        return f"{'(case insensitive) ' if self.any_case else ''}[{', '.join(self.words)}]"


def one_of(*words: str) -> OneOf:
    """One of these words, exactly."""
    return OneOf(words)


def one_of_any_case(*words: str) -> OneOf:
    """One of these (upper case) words, in any case."""
    return OneOf(words, any_case=True)


class ListOf:
    """Lists of distinct non-empty words, out of a few if ``words`` are given. Duplicates are dropped when parsing."""

    __slots__ = ("empty", "null", "words")
    drops_duplicates = True

    def __init__(self, words: tuple[str, ...], *, empty: bool, null: bool) -> None:
        self.words = words
        self.empty = empty
        self.null = null

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            if not self.null:
                raise ConfigError(f"Configuration '{name}' values must not be null.")
            return
        assert isinstance(value, tuple)
        if not value and not self.empty:
            valid = str(self) if self.words else "any non-empty value"
            raise ConfigError(f"Configuration '{name}' must not be empty. Valid values include: {valid}")
        for word in value:
            if not word:
                raise ConfigError(f"Configuration '{name}' values must not be empty.")
            if self.words:
                OneOf(self.words).check(name, word)

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]" if self.words else ""


def list_of(*words: str, empty: bool = True, null: bool = False) -> ListOf:
    """A list out of these words; ``empty`` and ``null`` say whether the list may be empty or absent."""
    return ListOf(words, empty=empty, null=null)


class NonEmpty:
    """A text that is not empty; it may be absent."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        if value == "":
            raise invalid_value(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class Present:
    """Anything that is there."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        if value is None:
            raise invalid_value(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class GzipLevel:
    """Levels 1 to 9, or -1 for zlib's own choice."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        if not isinstance(value, int) or not (value == -1 or 1 <= value <= 9):
            raise invalid_value(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "[1,...,9] or -1"


class QuorumVoters:
    """``{id}@{host}:{port}`` entries of controller.quorum.voters."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple), name
        parse_voters(value)

    def __str__(self) -> str:
        return "non-empty list"


class BootstrapServers:
    """``{host}:{port}`` entries of controller.quorum.bootstrap.servers."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        parse_bootstrap_servers(name, value)

    def __str__(self) -> str:
        return "non-empty list"


class HostAndPort:
    """``host:port``, or nothing."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, str)
        if value and parse_address(value) is None:
            raise invalid_value(name, value, "Value must be empty or host:port")

    def __str__(self) -> str:
        return "host:port or empty"


class HttpUrl:
    """An ``http`` or ``https`` URL without a login in it, or nothing."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, str)
        if not value:
            return
        from urllib.parse import urlsplit  # not of a plain start

        try:
            url = urlsplit(value)
            is_good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0 and not url.username
        except ValueError:
            is_good = False
        if not is_good:
            raise ConfigError(f"{name} must be empty or http[s]://host[:port][/path], without a login in it")

    def __str__(self) -> str:
        return "URL or empty"


class ThrottledReplicas:
    """``*``, nothing, or ``[partition]:[broker]`` pairs."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, tuple)
        if "".join(value) == "*" or all(entry == "" or _is_pair(entry) for entry in value):
            return
        reason = (
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
        )
        raise invalid_value(name, value, reason)

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def _is_pair(entry: str) -> bool:
    partition, separator, broker = entry.partition(":")
    return bool(separator) and _is_ascii_digits(partition) and _is_ascii_digits(broker)


def _is_ascii_digits(text: str) -> bool:
    return text.isascii() and text.isdecimal()


class ShareOffsetReset:
    """``earliest``, ``latest``, or ``by_duration:`` with an ISO 8601 duration that is not negative (KIP-932)."""

    __slots__ = ()

    def check(self, name: str, value: ConfigValue) -> None:
        assert isinstance(value, str)
        if value in ("latest", "earliest"):
            return
        if value.startswith("by_duration:"):
            from kpybroker.config.duration import parse_duration_ms

            duration_ms = parse_duration_ms(value.removeprefix("by_duration:"))
            if duration_ms is not None and duration_ms >= 0:
                return
        reason = (
            f"Invalid value `{value}` for configuration {name}. The value must be either 'earliest', 'latest' or of "
            "the format 'by_duration:<PnDTnHnMn.nS>'."
        )
        raise invalid_value(name, value, reason)

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"
