"""A coordinator on its log, as stories play it: its records and replies as lines, in the order in which they come."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from rendering import Changes, Rendering

from kpywire import error_codes


class StoryTicket:
    """A request of a story. Its reply becomes lines of the story."""

    def __init__(self, story: "CoordinatorStory", head: str) -> None:
        self._story = story
        self._head = head

    def answer(self, message: Any) -> None:
        self._story.name_what_is_new(message)
        self._story.show_records()
        self._story.lines += self._story.reply_lines(self._head, message)

    def fail(self, error_code: int) -> None:
        self._story.lines.append(f"= {self._head}: error_code={error_codes.name(error_code)}")


class CoordinatorStory(ABC):
    """One machine on its log."""

    def __init__(self, rendering: Rendering) -> None:
        self.rendering = rendering
        self.changes = Changes()
        self.lines: list[str] = []
        """The lines of the input that is played now."""
        self.shown = 0
        """The number of records that are shown already, which is the offset of the next one."""

    @abstractmethod
    def records(self) -> Sequence[Any]:
        """All records of the log."""

    @abstractmethod
    def record_lines(self, record: Any) -> list[str]:
        """The lines of one record."""

    @abstractmethod
    def states(self) -> dict[Any, str]:
        """The state of the machine, a text for each part."""

    def name_what_is_new(self, message: Any) -> None:  # noqa: B027 - most have nothing to name
        """Give short names to random values of a reply."""

    def reply_lines(self, head: str, message: Any) -> list[str]:
        """The lines of one reply."""
        return self.rendering.lines(f"= {head}:", message)

    def show_records(self) -> None:
        """Add the records that are new."""
        for record in self.records()[self.shown :]:
            self.lines += self.record_lines(record)
            self.shown += 1

    def outcome(self) -> list[str]:
        """The lines of the input that was played."""
        self.show_records()
        lines, self.lines = self.lines, []
        return lines + self.changes.lines(self.states())
