"""Stories as text: how a line of input is read, how records and replies are written, and how a file is played.

A machine gives each kind of input a name and a function. The inputs in a file are what is played; every other line is
made from what the machine does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from kpywire import error_codes
from kpywire.schema import Structure, field

UNDECLARED = field().default
"""The default of a field for which Kafka declares none: such a field is shown even if it is 0."""

EMPTY: tuple[Any, ...] = (None, "", b"", [], (), bytes(16))


class StoryError(ValueError):
    """A line of a story that cannot be played, and why."""


class Input:
    """One input line: ``> 10 ms  join client=a session_timeout_ms=10000``."""

    def __init__(self, line: str) -> None:
        words = line.lstrip(">").split()
        if len(words) < 3 or words[1] != "ms" or not words[0].isdigit():
            raise StoryError(f"{line!r} does not begin like '> 10 ms  join'")
        self.line = line
        self.is_shown = not line.startswith(">>")
        self.now_ms = int(words[0])
        self.verb = words[2]
        self.words = [word for word in words[3:] if "=" not in word]
        self.fields = dict(word.split("=", 1) for word in words[3:] if "=" in word)

    def text(self, name: str, default: str = "") -> str:
        """A field, which is read once."""
        return self.fields.pop(name, default)

    def texts(self, name: str, default: str = "") -> list[str]:
        """A field that lists words: ``range,roundrobin``."""
        return [word for word in self.text(name, default).split(",") if word]

    def number(self, name: str, default: int) -> int:
        """A field that is a whole number."""
        return int(self.text(name, str(default)))

    def numbers(self, name: str) -> list[int]:
        """A field that lists whole numbers: ``1,2,3``."""
        return [int(word) for word in self.texts(name)]

    def flag(self, name: str) -> bool:
        """A field that is ``true`` or left out."""
        return self.text(name) == "true"

    def word(self) -> str:
        """The next word without ``=``."""
        if not self.words:
            raise StoryError(f"{self.line!r} lacks a word after {self.verb!r}")
        return self.words.pop(0)

    def all_words(self) -> list[str]:
        """All words without ``=`` that are left."""
        taken, self.words = self.words, []
        return taken


Play = Callable[[Input], list[str]]


class StoryMachine(Protocol):
    """A machine that stories are played on. What it shows of an input is a list of lines."""

    @property
    def inputs(self) -> Mapping[str, Play]: ...


class Names:
    """Short names for values that are long or random: ids of members, topics and directories, bytes of clients."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._values: dict[str, Any] = {}

    def give(self, value: Any, name: str) -> None:
        """Show a value by this name from now on. The first name of a value stays."""
        if value not in self._names:
            self._names[value] = name
            self._values[name] = value

    def knows(self, value: Any) -> bool:
        return value in self._names

    def value_of(self, name: str) -> Any:
        """The value that a story names, or the name itself if it names none."""
        return self._values.get(name, name)

    def render(self, value: Any) -> str:
        """A value as one word, or as words in brackets."""
        if isinstance(value, list | tuple):
            return f"[{', '.join(map(self.render, value))}]"
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | bytes) and value in self._names:
            return self._names[value]
        if isinstance(value, bytes):
            return value.decode() if value.isascii() and value.decode().isprintable() else f"0x{value.hex()}"
        return str(value)


class Fields(NamedTuple):
    """The fields of a record or a reply that are shown, in the order in which Kafka declares them."""

    plain: list[str]
    nested: list[tuple[str, Any]]
    """Structures in lists, each of which gets a line of its own."""


class Rendering:
    """How one machine's records and replies are written."""

    def __init__(self, left_out: Sequence[str]) -> None:
        """``left_out`` are fields that tell a reader nothing: throttle times, or what is the same in every line."""
        self.names = Names()
        self.left_out = frozenset(left_out)
        self.codes: dict[tuple[str, str], Mapping[int, str]] = {}
        """The names of numbers: by the class of a message and the name of its field."""

    def lines(self, head: str, *messages: Any, indent: str = "") -> list[str]:
        """The fields of some messages in one line, and below it the structures that they hold."""
        parts = [self._fields(message) for message in messages]
        plain = [word for part in parts for word in part.plain]
        found = [" ".join([f"{indent}{head}", *plain])]
        for part in parts:
            for name, nested in part.nested:
                found += self.lines(f"{name}:", nested, indent=f"{indent}    ")
        return found

    def word(self, value: Any) -> str | None:  # noqa: ARG002 - machines have words of their own
        """One word for a structure that is in a list whose order means nothing; None if it has none."""
        return None

    def _fields(self, message: Any) -> Fields:
        fields = Fields([], [])
        for name, value, default in _declared(message):
            is_cleared = value == [] and default is None
            is_plain = value in EMPTY or (value == default and name != "error_code")
            if name in self.left_out or (is_plain and not is_cleared):
                continue
            codes = self.codes.get((type(message).__name__, name))
            if codes is not None:
                fields.plain.append(f"{name}={codes[value]}")
            elif _is_structure(value):
                whole = self._fields(value)
                if whole.nested:
                    fields.nested.append((name, value))
                else:
                    fields.plain.append(f"{name}=({' '.join(whole.plain)})")
            elif isinstance(value, list | tuple) and value and _is_structure(value[0]):
                words = [self.word(each) for each in value]
                parts = [self._fields(each) for each in value]
                if None not in words:
                    fields.plain.append(f"{name}=[{', '.join(sorted(map(str, words)))}]")
                elif all(len(part.plain) == 1 and not part.nested for part in parts):
                    fields.plain.append(f"{name}=[{', '.join(part.plain[0] for part in parts)}]")
                else:
                    fields.nested.extend((name, each) for each in value)
            elif name.endswith("error_code"):
                fields.plain.append(f"{name}={error_codes.name(value)}")
            elif isinstance(value, str) and " " in value:
                fields.plain.append(f'{name}="{value}"')
            else:
                fields.plain.append(f"{name}={self.names.render(value)}")
        return fields


def _is_structure(value: Any) -> bool:
    """Whether it has fields: a message, a part of one, or a named tuple."""
    return isinstance(value, Structure) or hasattr(value, "_fields")


def _declared(message: Any) -> Iterator[tuple[str, Any, Any]]:
    """Name, value and default of every field."""
    if isinstance(message, Structure):
        for name, (_, declared) in message.FIELDS.items():
            yield name, getattr(message, name), declared.default
    else:
        for name in message._fields:
            yield name, getattr(message, name), message._field_defaults.get(name, UNDECLARED)


def title(message: Any) -> str:
    """Kafka's name of a message, a request or a response alike."""
    return type(message).__name__.partition("Request")[0].removesuffix("Response")


class Changes:
    """Lines about the state of a machine, each shown when it is not what it was."""

    def __init__(self) -> None:
        self._shown: dict[Any, str] = {}

    def lines(self, states: Mapping[Any, str]) -> list[str]:
        """A line for each state that has changed since the last time."""
        changed = [f"* {text}" for key, text in states.items() if self._shown.get(key) != text]
        self._shown = dict(states)
        return changed


def outcome(line: str, machine: StoryMachine) -> list[str]:
    """Play one input line; what the machine shows."""
    given = Input(line)
    play = machine.inputs.get(given.verb)
    if play is None:
        raise StoryError(f"{line!r}: there is no input {given.verb!r}, but {', '.join(sorted(machine.inputs))}")
    shown = play(given)
    if given.fields or given.words:
        raise StoryError(f"{line!r}: {given.verb!r} does not know {' '.join([*given.fields, *given.words])}")
    return shown if given.is_shown else []


def played(story: str, machine: StoryMachine) -> str:
    """A story with what its inputs lead to now. Comments stay, each before the line that it stood before."""
    paragraphs: list[list[str]] = []
    comments: list[str] = []
    was_quiet = False
    for line in story.splitlines():
        if line.startswith("#"):
            comments.append(line)
        elif line.startswith(">"):
            is_quiet = line.startswith(">>")
            if not (is_quiet and was_quiet and not comments):
                paragraphs.append(comments)
            paragraphs[-1] += [line, *outcome(line, machine)]
            comments, was_quiet = [], is_quiet
        elif not line and comments:
            paragraphs.append(comments)
            comments, was_quiet = [], False
    return "\n\n".join("\n".join(lines) for lines in [*paragraphs, comments] if lines) + "\n"
