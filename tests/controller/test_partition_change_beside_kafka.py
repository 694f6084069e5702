"""The same changes asked of Kafka's own ``PartitionChangeBuilder``: the same records, whatever was wanted of whom."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from test_partition_change import change_of, partition

from kpybroker.machines.controller.partition_change import Election
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.topic import NO_LEADER, RECOVERED, RECOVERING, Partition
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from oracle.recorded import Asked, AskedAtOnce, Play

CASES = 6_000
IDS = (1, 2, 3, 4, 5)
STATES = (RECOVERED, RECOVERED, RECOVERED, RECOVERING)


def some(rng: Random, of: Sequence[int], least: int = 0) -> list[int]:
    return rng.sample(list(of), rng.randint(min(least, len(of)), len(of)))


def a_change(rng: Random) -> tuple[str, str]:
    """The case as a line for Kafka, and what comes of it here."""
    replicas = some(rng, IDS, 1)
    elr_enabled = rng.random() < 0.8
    isr = some(rng, replicas, 0 if elr_enabled else 1)
    rest = [each for each in replicas if each not in isr]
    elr = some(rng, rest) if elr_enabled else []
    last_known = rng.choice(([], some(rng, replicas, 1)[:1])) if elr_enabled and not isr else []
    leader = rng.choice([*isr, NO_LEADER]) if isr else NO_LEADER
    moves = rng.random() < 0.3
    adding = [each for each in IDS if each in replicas and rng.random() < 0.3] if moves else []
    removing = [each for each in replicas if each not in adding and rng.random() < 0.3] if moves else []
    recovery = RECOVERED if len(isr) != 1 else rng.choice(STATES)
    up = some(rng, IDS)
    min_isr = rng.randint(1, min(3, len(replicas)))
    level = rng.choice((23, 26, metadata_version.LATEST) if elr_enabled else (7, 17, metadata_version.LATEST))
    election = rng.choice(list(Election))
    was = partition(
        replicas,
        isr,
        leader,
        elr=elr,
        last_known_elr=last_known,
        adding_replicas=adding,
        removing_replicas=removing,
        leader_recovery_state=recovery,
        leader_epoch=5,
        partition_epoch=7,
    )
    change = change_of(was, up, elr=elr_enabled, min_isr=min_isr, level=level)
    change.election = election
    if rng.random() < 0.7:
        change.isr = some(rng, replicas if rng.random() < 0.3 else isr)
    if rng.random() < 0.2:
        change.replicas = [*replicas, *(each for each in IDS if each not in replicas and rng.random() < 0.5)]
        change.adding = change.replicas[len(replicas) :]
    change.leader_recovery_state = recovery if rng.random() < 0.8 else RECOVERED
    change.unclean_shutdown_replicas = some(rng, IDS)[:1] if rng.random() < 0.3 else []
    lists = (replicas, isr, [leader], elr, last_known, adding, removing, [recovery], up, [level], [min_isr])
    words = [",".join(map(str, each)) for each in lists]
    words += [str(elr_enabled).lower(), election.name]
    targets = (change.isr, change.replicas, change.adding, change.removing, [change.leader_recovery_state])
    words += [",".join(map(str, each)) for each in (*targets, change.unclean_shutdown_replicas)]
    return "\t".join(words), described(was, change.build(), level)


def described(was: Partition, record: PartitionChangeRecord | None, level: int) -> str:
    """The record, and who is eligible after it: here no broker that has left the replicas is."""
    if record is None:
        return "nothing"
    fields = {
        "leader": "leader",
        "isr": "isr",
        "elr": "eligible_leader_replicas",
        "last": "last_known_elr",
        "replicas": "replicas",
        "adding": "adding_replicas",
        "removing": "removing_replicas",
        "recovery": "leader_recovery_state",
    }
    values: dict[str, object] = {name: getattr(record, field) for name, field in fields.items()}
    values["elr"] = list(was.elr) if record.eligible_leader_replicas is None else record.eligible_leader_replicas
    values["directories"] = None if record.directories is None else len(record.directories)
    values["version"] = metadata_version.partition_record_version(level)
    return " ".join(f"{name}={'null' if value is None else value}" for name, value in values.items())


def kafkas() -> Asked:
    return AskedAtOnce(Path(__file__).with_name("PartitionChanges.java"))


def compare(kafka: Asked, count: int) -> None:
    rng = Random(966)
    cases = [a_change(rng) for _ in range(count)]
    answers = kafka.ask_for_line(*(line for line, _ in cases))
    differing = [
        f"{line!r}\n  kafka {theirs}\n  here  {ours}"
        for (line, ours), theirs in zip(cases, answers.splitlines(), strict=True)
        if ours != theirs
    ]
    assert not differing, "\n".join(differing[:5]) + f"\n{len(differing)} of {count}"
    for reported in ("last=[1]", "last=[]", "elr=[1, 2]", "nothing", "recovery=1", "leader=-1"):
        assert any(reported in ours for _, ours in cases), reported


@pytest.mark.java
def test_every_change_is_the_one_that_kafka_makes() -> None:
    compare(kafkas(), CASES)


def test_changes_are_those_that_kafka_made(recorded: Play) -> None:
    compare(recorded(kafkas), 1_000)
