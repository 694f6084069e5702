"""The check of a log directory's own files in memory: names, identity, the mark of a clean stop, and checkpoints."""

import pytest
from log_making import PATH, TOPIC_ID, append, make_batch, open_directory

from kpystorage import checkpoint, meta_properties, names
from kpystorage.checking.directory import DirectoryCheck, KnownMetadata
from kpystorage.checking.findings import DAMAGE, NOTE
from kpystorage.checking.partition import PartitionCheck
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpystorage.meta_properties import MetaProperties

CLUSTER_ID, DIRECTORY_ID = "MkU3OEVBNTcwNTJENDM2Qg", b"d" * 16
IDENTITY = MetaProperties(node_id=1, cluster_id=CLUSTER_ID, directory_id=DIRECTORY_ID)
SPOT = ("t", 0)


def filled() -> MemoryDisk:
    """A directory that was stopped cleanly, with one partition whose log ends at 2."""
    disk = MemoryDisk()
    disk.make_directory(PATH)
    directory = open_directory(disk)
    append(directory.create_log(*SPOT, TOPIC_ID, LogConfig(), 1), make_batch(0, 2))
    directory.close()
    disk.write(f"{PATH}/{names.META_PROPERTIES}", meta_properties.render(IDENTITY), synchronize=True)
    return disk


def checked(disk: MemoryDisk, known: KnownMetadata | None = None) -> DirectoryCheck:
    check = DirectoryCheck(disk, PATH, KnownMetadata() if known is None else known)
    check.look()
    reports = {spot: PartitionCheck(disk, path, check.facts(spot)).run() for spot, path in check.partitions.items()}
    check.compare(reports)
    return check


def reported(disk: MemoryDisk, known: KnownMetadata | None = None, level: str = DAMAGE) -> list[tuple[str, str]]:
    found = checked(disk, known).findings
    return [(each.path.rpartition("/")[2], each.text) for each in found if each.level == level]


def write(disk: MemoryDisk, name: str, data: bytes) -> None:
    disk.write(f"{PATH}/{name}", data, synchronize=True)


def test_a_directory_that_was_stopped_cleanly_is_whole() -> None:
    check = checked(filled(), KnownMetadata({"t": TOPIC_ID}, 1, frozenset((DIRECTORY_ID,)), compacted=frozenset("t")))
    assert check.findings == []
    assert (check.partitions, check.others, check.cluster_id, check.clean) == (
        {SPOT: f"{PATH}/t-0"},
        [],
        CLUSTER_ID,
        True,
    )
    facts = check.facts(SPOT)
    assert (facts.clean, facts.recovery_point, facts.cleaned_to, facts.topic_id, facts.is_compacted) == (
        True,
        2,
        0,
        TOPIC_ID,
        True,
    )
    assert not check.facts(("u", 0)).is_compacted


def test_directories_are_recognised_by_their_names() -> None:
    disk = filled()
    unique = "0123456789abcdef0123456789abcdef"
    marked = {mark: f"t-1.{unique}-{mark}" for mark in ("delete", "future", "stray")}
    for name in (*marked.values(), "lost+found"):
        disk.make_directory(f"{PATH}/{name}")
    write(disk, "notes.txt", b"")
    write(disk, f"{names.RECOVERY_POINTS}{checkpoint.TEMPORARY}", b"")
    noted = dict(reported(disk, level=NOTE))
    assert noted == {
        marked["delete"]: "a deleted partition, which the next start removes",
        marked["stray"]: "a partition that had no place in the cluster; kept, and served by nobody",
        marked["future"]: "a partition on its way into this directory",
        "lost+found": "no partition's directory; Apache Kafka refuses to start with it",
        "notes.txt": "none of Kafka's files; nobody reads it",
        f"{names.RECOVERY_POINTS}{checkpoint.TEMPORARY}": "left by a stop in between",
    }
    assert sorted(mark for _, mark in checked(disk).others) == sorted((names.FUTURE_DIRECTORY, names.STRAY_DIRECTORY))
    assert reported(disk) == []


def test_a_partition_whose_topic_is_gone_is_a_stray_one() -> None:
    text = "its topic is not in the cluster; a start sets it aside as a stray one"
    assert reported(filled(), KnownMetadata({}), NOTE) == [("t-0", text)]
    assert reported(filled(), KnownMetadata({"t": TOPIC_ID}), NOTE) == []
    assert reported(filled(), KnownMetadata(None), NOTE) == []


@pytest.mark.parametrize(
    ("identity", "known", "words"),
    [
        (IDENTITY._replace(cluster_id="not an id"), KnownMetadata(), "its cluster.id 'not an id' is no id"),
        (IDENTITY._replace(directory_id=None), KnownMetadata(), "names no directory.id"),
        (IDENTITY, KnownMetadata(directory_ids=frozenset((b"e" * 16,))), "is none of the node's in the metadata"),
        (IDENTITY, KnownMetadata(node_id=2), "its node.id is 1, the metadata's only node is 2"),
        (IDENTITY, KnownMetadata(directory_ids=frozenset((DIRECTORY_ID,)), node_id=1), ""),
    ],
)
def test_a_wrong_identity_of_a_directory_is_reported(
    identity: MetaProperties, known: KnownMetadata, words: str
) -> None:
    disk = filled()
    write(disk, names.META_PROPERTIES, meta_properties.render(identity))
    found = reported(disk, known)
    assert bool(found) is bool(words)
    assert all(name == names.META_PROPERTIES and words in text for name, text in found)


def test_a_directory_without_an_identity_is_damaged() -> None:
    disk = filled()
    disk.unlink(f"{PATH}/{names.META_PROPERTIES}")
    assert reported(disk) == [(names.META_PROPERTIES, "is missing: nobody can tell whose directory this is")]


@pytest.mark.parametrize(
    ("content", "epoch", "words"),
    [
        (b"", -1, ""),
        (b'{"version":0,"brokerEpoch":7}', 7, ""),
        (b'{"version":0,"brokerEpoch":7}', -1, ""),
        (b'{"version":0,"brokerEpoch":-1}', 7, ""),
        (b'{"version":0}', 7, ""),
        (b'{"version":0,"brokerEpoch":7}', 0, "its broker epoch is 7, the broker's was 0"),
        (b'{"version":0,"brokerEpoch":7}', 8, "its broker epoch is 7, the broker's was 8"),
        (b'{"version":1}', -1, "is not what a broker writes at a clean stop"),
        (b'{"version":0,"more":1}', -1, "is not what a broker writes at a clean stop"),
        (b"{", -1, "is not what a broker writes at a clean stop"),
        (b"[]", -1, "is not what a broker writes at a clean stop"),
    ],
)
def test_the_mark_of_a_clean_stop_is_the_brokers(content: bytes, epoch: int, words: str) -> None:
    disk = filled()
    write(disk, names.CLEAN_SHUTDOWN, content)
    found = reported(disk, KnownMetadata(broker_epoch=epoch))
    assert found == ([(names.CLEAN_SHUTDOWN, words)] if words else [])


def test_without_the_mark_the_logs_may_end_anywhere() -> None:
    disk = filled()
    disk.unlink(f"{PATH}/{names.CLEAN_SHUTDOWN}")
    (noted,) = reported(disk, level=NOTE)
    assert noted[0] == names.CLEAN_SHUTDOWN
    assert not checked(disk).clean


def offsets(**found: int) -> bytes:
    lines = [f"{name.replace('_', ' ')} {offset}" for name, offset in found.items()]
    return "\n".join(["0", str(len(lines)), *lines, ""]).encode()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (names.RECOVERY_POINTS, offsets(), "lacks t-0"),
        (names.RECOVERY_POINTS, offsets(t_0=2, u_3=1), "names u-3, which the directory does not have"),
        (names.HIGH_WATERMARKS, offsets(t_0=3), "says 3 of t-0, whose log ends at 2"),
        (names.HIGH_WATERMARKS, offsets(t_0=2), ""),
        (names.HIGH_WATERMARKS, offsets(t_0=0), ""),
        (names.HIGH_WATERMARKS, offsets(), ""),
        (names.LOG_STARTS, offsets(t_0=3), "says 3 of t-0, whose log ends at 2"),
        (names.CLEANER_OFFSETS, offsets(t_0=3), "says 3 of t-0, whose log ends at 2"),
        (names.HIGH_WATERMARKS, b"garbage", "*"),
    ],
)
def test_checkpoints_agree_with_the_logs(name: str, content: bytes, words: str) -> None:
    disk = filled()
    write(disk, name, content)
    found = [(where, text) for where, text in reported(disk) if where == name]
    assert found == ([(name, words)] if words != "*" and words else found if words else [])
    assert bool(found) is bool(words)


def test_after_a_kill_a_checkpoint_may_name_what_is_gone() -> None:
    disk = filled()
    write(disk, names.RECOVERY_POINTS, offsets(t_0=2, u_3=1))
    disk.unlink(f"{PATH}/{names.CLEAN_SHUTDOWN}")
    assert reported(disk) == []
    assert (names.RECOVERY_POINTS, "names u-3, which the directory does not have") in reported(disk, level=NOTE)
