"""The ceiling as a side: it plays the rows whose clients ask the same again and again."""

import base64
import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from benchmarks import processes
from benchmarks.ceiling import answers, files
from benchmarks.ceiling.relay import Exchanges, Relay
from benchmarks.raw import compiled
from benchmarks.raw.asking import Address, Conversation
from benchmarks.sides import HOST, Kpybroker, Side, SideError
from oracle import BrokerProcess, free_port

NAME: Final = "ceiling"
SOURCE: Final = Path(__file__).with_name("ceiling.c")
BATCH_COUNT_AT: Final = 57
PLAYED: Final = (
    *("produce-confluent", "produce-java", "consume-confluent", "consume-committed", "drain"),
    *("small-requests", "many-partitions", "record-cost", "round-trip", "end-to-end", "tail-beside-cold", "commit"),
)
"""Beginnings of the keys of rows that it plays."""
REFUSED: Final[Mapping[str, str]] = {
    "produce-python": "the client takes ten times as long as the broker",
    "consume-java": "the Java consumer fetches in a session, which answers of before cannot keep",
    "consume-python": "the client takes ten times as long as the broker",
    "end-to-end-java": "the Java consumer fetches in a session, which answers of before cannot keep",
    "fetch-": "what is asked decides what is answered, and no file is sent",
    "tail-beside-compaction": "nothing is compacted",
    "rebalance": "what one member is answered depends on the others",
    "transactions": "whether the markers of a transaction are written decides what is answered",
    "spark": "Spark asks something else each time",
}
ANYTHING_ELSE: Final = "it starts, fills or describes a broker: no row of requests that one thread limits"


def program() -> Path:
    """The compiled program. Raises CompileError."""
    return compiled.program(SOURCE)


class Bare(BrokerProcess):
    """``ceiling.c`` on a port, with a file of answers; what it is sent lies in ``data``."""

    program = NAME

    def __init__(self, directory: Path, port: int) -> None:
        super().__init__(directory, port)
        self.answers_file = directory / "answers"

    def command(self) -> Sequence[str]:
        return [str(program()), str(self.port), str(self.answers_file), str(self.data)]

    def prepare(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)

    def logs(self) -> Iterator[Path]:
        """A file for each partition."""
        return self.data.glob("*-*")

    def written_records(self) -> int:
        """How many records lie in its files."""
        return sum(count for path in self.logs() for count in counts(path))

    def empty(self) -> None:
        """Its files hold nothing."""
        for path in self.logs():
            with open(path, "r+b") as file:
                file.truncate(0)


def counts(path: Path) -> Iterator[int]:
    """The number of records of each batch of a file."""
    with open(path, "rb") as file:
        for _, at in files.batches(path):
            file.seek(at + BATCH_COUNT_AT)
            yield struct.unpack(">i", file.read(4))[0]


class Ceiling(Side):
    """A kpybroker that is asked before, and a program in C that answers its clients with what it had answered.

    Clients come to a port of its own: to a relay while a row is opened, rehearsed and closed, else to the program.
    """

    def __init__(self, letter: str, directory: Path) -> None:
        self.port = free_port()
        broker = Kpybroker(directory / "broker", advertised=Address(HOST, self.port))
        super().__init__(letter, NAME, directory, broker)
        self.relay = Relay(self.port, Address(HOST, broker.port))
        self.bare: Bare | None = None
        self.created = ""
        """The topic that was made last."""
        self.before: dict[str, int] = {}
        """How many records topics have at the broker."""

    def refuses(self, row: str) -> str | None:
        for beginning, reason in REFUSED.items():
            if row.startswith(beginning):
                return reason
        return None if row.startswith(PLAYED) else ANYTHING_ELSE

    def __enter__(self) -> Self:
        self.relay.start()
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_row()
        self.relay.stop()
        super().__exit__(kind, error, trace)

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def address(self) -> Address:
        return Address(HOST, self.port)

    @property
    def ended(self) -> int | None:
        """Also when the program in C has ended."""
        if self.bare is not None and self.bare.process is not None:
            return self.bare.process.poll()
        return super().ended

    @property
    def last_words(self) -> str:
        return self.bare.tail(1) if self.bare is not None else ""

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.bare.pid) if self.bare else super().cpu_seconds()

    def rehearse(self, play: Callable[[], object]) -> None:
        """Records a round, and puts the program in the broker's place. Raises what clients raise."""
        bare = Bare(self.directory / "bare", self.port)
        bare.prepare()
        for path in bare.data.iterdir():
            path.unlink()
        self.relay.begin()
        play()
        if not bare.answers:
            raise SideError("the relay does not answer")
        try:
            exchanges = self.relay.stop()
            bare.answers_file.write_bytes(answers.written(exchanges.answers, self.pieces(exchanges)))
            bare.start()
        except BaseException:
            self.relay.start()
            raise
        self.bare = bare

    def pieces(self, exchanges: Exchanges) -> dict[tuple[bytes, bytes], list[files.Piece]]:
        """The answers to the Fetch requests of a round, by topic."""
        by_topic: dict[bytes, set[files.Asked]] = {}
        for request in exchanges.fetches:
            for one in files.asked(request):
                by_topic.setdefault(one.topic, set()).add(one)
        segments, found = files.Segments(self.broker.data), {}
        with Conversation(Address(HOST, self.broker.port)) as conversation:
            for topic, starts in by_topic.items():
                newest = max(one.version for one in starts)
                of_newest = [one for one in starts if one.version == newest]
                by_id = newest >= files.BY_ID
                name = self.name_of(topic) if by_id else topic.decode()
                key = (b"", topic) if by_id else (topic, b"")
                found[key] = files.pieces(conversation, segments, name, of_newest)
        return found

    def name_of(self, topic_id: bytes) -> str:
        """By the files of the broker. Raises SideError."""
        written = base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
        for path in self.broker.data.glob("*-0/partition.metadata"):
            if re.search(rf"^topic_id: {re.escape(written)}$", path.read_text(), re.MULTILINE):
                return path.parent.name.removesuffix("-0")
        raise SideError(f"no topic has the id {written}")

    def end_row(self) -> None:
        """The broker is back."""
        bare, self.bare = self.bare, None
        if bare is None:
            return
        if bare.process is not None:
            bare.stop()
        self.relay.start()

    def create_topic(self, purpose: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """While the program plays: the one of the rehearsal once more, with no records."""
        if self.bare is None:
            self.created = super().create_topic(purpose, partitions, config)
        else:
            self.bare.empty()
            self.before[self.created] = 0
        return self.created

    def delete_topic(self, name: str) -> None:
        if self.bare is None:
            super().delete_topic(name)

    def record_count(self, topic: str, partitions: int) -> int:
        """While the program plays: what the broker has, and what the program has written."""
        if self.bare is None:
            self.before[topic] = super().record_count(topic, partitions)
            return self.before[topic]
        return self.before.get(topic, 0) + self.bare.written_records()
