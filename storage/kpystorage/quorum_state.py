"""``quorum-state``: the vote and the leader a raft replica has promised to remember (Kafka's FileQuorumStateStore).

Version 1 (``kraft.version`` 1) names the directory voted for; version 0 the voters, which were fixed by configuration.
"""

import json
from typing import NamedTuple

from kpystorage.checkpoint import write_atomically
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpywire import uuid

NO_ID = -1
_NUMBERS = ("leaderId", "leaderEpoch", "votedId")


class StoredQuorumState(NamedTuple):
    """The state of a replica in its epoch. ``leader_id`` and ``voted_id`` are -1 where there was none."""

    leader_id: int = NO_ID
    leader_epoch: int = 0
    voted_id: int = NO_ID
    voted_directory_id: bytes = uuid.ZERO_UUID
    voters: tuple[int, ...] = ()
    """The configured voters; only in version 0."""
    version: int = 1


def render(state: StoredQuorumState) -> bytes:
    """The file's bytes, as Kafka writes them."""
    content: dict[str, object]
    if state.version == 0:
        content = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
            "data_version": 0,
        }
    else:
        content = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid.to_string(state.voted_directory_id),
            "data_version": 1,
        }
    return json.dumps(content, separators=(",", ":")).encode()


def parse(data: bytes, path: str) -> StoredQuorumState:
    """The state in a file's bytes. CorruptFile, naming ``path``, if they hold none."""
    try:
        content = json.loads(data)
    except ValueError:
        raise CorruptFile(f"{path}: not JSON") from None
    version = content.get("data_version") if isinstance(content, dict) else None
    if version not in (0, 1):
        raise CorruptFile(f"{path}: data_version {version!r} is not known")
    numbers = [content.get(name) for name in _NUMBERS]
    if not all(type(number) is int for number in numbers):
        raise CorruptFile(f"{path}: {', '.join(_NUMBERS)} must be numbers")
    try:
        directory_id = uuid.from_string(str(content.get("votedDirectoryId", uuid.to_string(uuid.ZERO_UUID))))
        voters = tuple(int(voter["voterId"]) for voter in content.get("currentVoters", ()))
    except (KeyError, TypeError, ValueError):
        raise CorruptFile(f"{path}: its votedDirectoryId or currentVoters are malformed") from None
    return StoredQuorumState(numbers[0], numbers[1], numbers[2], directory_id, voters, version)


def read(disk: Disk, path: str) -> StoredQuorumState | None:
    """The state on disk; None if there is none yet. CorruptFile if it is malformed, OSError if it cannot be read."""
    try:
        return parse(disk.read(path), path)
    except FileNotFoundError:
        return None


def write(disk: Disk, path: str, state: StoredQuorumState) -> None:
    """Make the state durable: when this returns, it survives the machine's crash. OSError if it cannot be."""
    write_atomically(disk, path, render(state))
