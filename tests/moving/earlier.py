"""Data directories that earlier versions have left: archives in ``left/``, each with the state that clients saw last.

``make earlier`` writes them again, from the sources in the repository's history. A test opens one a few seconds after
it was left, by a clock that is behind.
"""

import ast
import io
import sys
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from contents import Contents, differences, look
from filling import create_topics, fill
from moved_security import PROPERTIES as LOGINS
from moved_security import Moved
from newer_groups import described, join

from kpybroker.client import acl_requests
from kpybroker.client.acl_requests import AclBinding
from kpybroker.client.client import Client
from kpybroker.client.token_requests import DelegationToken
from oracle import free_port
from support.raw_client import RawClient
from support.targets import KpyBroker
from support.upgrading import VERSIONS, finalized, program_of, sources_of

LEFT = Path(__file__).with_name("left")
SEEN = "seen.txt"
TURNS = 2
LATER_S = 5
"""How long after the writing the directory is opened."""
PARTITIONS = "3"
SMALL = {
    "offsets.topic.num.partitions": PARTITIONS,
    "transaction.state.log.num.partitions": PARTITIONS,
    "share.coordinator.state.topic.num.partitions": PARTITIONS,
}
WRITING = {"log.cleaner.backoff.ms": "300", "metadata.log.max.record.bytes.between.snapshots": "2000"}
"""Logs are compacted and metadata snapshots written in the moment."""
AN_HOUR_MS = "3600000"
OPENED = {
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": AN_HOUR_MS,
    **{
        f"group.{kind}.{bound}session.timeout.ms": AN_HOUR_MS
        for kind in ("consumer", "share", "streams")
        for bound in ("", "max.")
    },
}
"""Clients may write, whose clocks are not behind. The transaction that was left open and the members of groups, which
nobody continues, stay while a test lasts."""
SECURED = {
    **LOGINS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:root",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_PLAINTEXT",
}
ACLS = [
    AclBinding(2, "plain", 3, "User:CN=a,O=b", "*", 3, 3),
    AclBinding(2, "pre", 4, "User:alice", "10.0.0.0/8", 4, 2),
    AclBinding(3, "*", 3, "User:*", "*", 2, 3),
    AclBinding(4, "kafka-cluster", 3, "User:alice", "*", 12, 3),
]


class Left(NamedTuple):
    """The state of a node when it stopped."""

    at_s: int
    features: dict[str, int]
    seen: Contents
    acls: list[AclBinding]
    groups: dict[str, str]
    """The descriptions of groups of the newer protocols."""
    users: dict[tuple[str, str], str]
    quotas: dict[str, dict[str, float]]
    tokens: list[DelegationToken]

    @property
    def is_secured(self) -> bool:
        return bool(self.acls)

    def check(self, broker: "DatedBroker") -> None:
        """Everything is still there, and nothing else."""
        assert finalized(broker.port) == self.features
        assert not differences(self.seen, look(broker.port))
        with RawClient(broker.port) as raw:
            assert described(raw) == self.groups
        with Client(broker.bootstrap_servers) as client:
            if self.is_secured:
                assert acl_requests.describe(client) == sorted(self.acls)
                broker.moved.users, broker.moved.quotas, broker.moved.tokens = self.users, self.quotas, self.tokens
                broker.moved.check(broker)


class DatedBroker(KpyBroker):
    """A node with the program of a version, or with this one and a clock that is behind."""

    start_timeout_s = 60.0
    stop_timeout_s = 60.0

    def __init__(
        self, words: tuple[str, ...], properties: Mapping[str, str], *, directory: Path, secured: bool
    ) -> None:
        super().__init__({**SMALL, **properties, **(SECURED if secured else {})}, directory=directory)
        self.words = words
        self.moved = Moved(free_port())
        if secured:
            self.properties["listeners"] += f",SECURED://{self.moved.address}"
            self.properties["advertised.listeners"] = self.properties["listeners"]

    def command(self) -> list[str]:
        return [*self.words, *super().command()[1:]]


def behind(seconds: int) -> tuple[str, ...]:
    """The words that begin a command line of this version's program with its clock."""
    return (sys.executable, str(Path(__file__).with_name("at_time.py")), str(seconds))


def leave(version: str, directory: Path) -> Left:
    """Let a version write a directory and stop; what was seen of it before."""
    secured = version != "0.1.0"
    words = program_of(sources_of(version, directory / "sources"))
    with DatedBroker(words, WRITING, directory=directory, secured=secured) as broker:
        create_topics(broker.port)
        for turn in range(TURNS):
            fill(broker.port, turn)
        if secured:
            with Client(broker.bootstrap_servers) as client:
                acl_requests.create(client, ACLS)
            for turn in range(TURNS):
                broker.moved.change(broker, f"turn {turn}")
            broker.moved.check(broker)
        with RawClient(broker.port) as raw:
            if "share.version" in finalized(broker.port):
                join(raw)
            groups = described(raw)
        moved = broker.moved
        features, seen, acls = finalized(broker.port), look(broker.port), ACLS if secured else []
        broker.stop()
        return Left(int(time.time()), features, seen, acls, groups, moved.users, moved.quotas, moved.tokens)


def archive(version: str) -> Path:
    return LEFT / f"{version}.tar.xz"


def write(version: str) -> None:
    """Write the archive of a version."""
    with TemporaryDirectory(prefix="kpybroker-left-") as name:
        directory = Path(name)
        left = leave(version, directory)
        text = repr(plain(left)).encode()
        assert parse(text.decode()) == left
        LEFT.mkdir(exist_ok=True)
        with tarfile.open(archive(version), "w:xz", preset=9) as packed:
            packed.add(directory / "data", "data", filter=anonymous)
            about = tarfile.TarInfo(SEEN)
            about.size = len(text)
            packed.addfile(about, io.BytesIO(text))


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A file without its owner and time; the lock is left out."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return None if member.name.endswith(".lock") else member


def unpack(version: str, directory: Path) -> Left:
    """Lay the data of a version into a directory; what was seen of it."""
    with tarfile.open(archive(version)) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.4 has it first
        packed.extractall(directory)
    return parse((directory / SEEN).read_text())


def opened(left: Left, directory: Path) -> DatedBroker:
    """This version's node on what was left."""
    words = behind(int(time.time()) - left.at_s - LATER_S)
    return DatedBroker(words, OPENED, directory=directory, secured=left.is_secured)


def plain(value: Any) -> Any:
    """The value with plain tuples for named ones, so that its repr can be read back."""
    if isinstance(value, dict):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return tuple(plain(each) for each in value) if isinstance(value, tuple) else value


def parse(text: str) -> Left:
    at_s, features, seen, acls, groups, users, quotas, tokens = ast.literal_eval(text)
    entries = [AclBinding(*each) for each in acls]
    return Left(
        at_s, features, Contents(*seen), entries, groups, users, quotas, [DelegationToken(*each) for each in tokens]
    )


if __name__ == "__main__":
    for each in sys.argv[1:] or VERSIONS:
        write(each)
        print(f"{archive(each)}: {archive(each).stat().st_size:,} bytes")
