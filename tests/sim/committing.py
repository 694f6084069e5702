"""Clients that commit how far a group has come, and ask for it. A commit that nobody answered ends its group.

(What waits in a connection that was given up may still arrive behind what was sent later, as in life.)
"""

from typing import TYPE_CHECKING

from exactly_once.history import Committed, Outcome, Position, Transaction
from kpywire import error_codes
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics

from .client import GROUP, GROUPS, Client, NoAnswer, Refused
from .records import Records

if TYPE_CHECKING:
    from .invariants import Invariants


async def commit(client: Client, records: Records, place: tuple[str, int], rules: "Invariants") -> None:
    """Commit ever larger offsets, and look what is committed: not at a coordinator that has been replaced."""
    number, offset = 0, 0
    while not client.is_over:
        group = f"{client.name}-{number}"
        began_s, outcome, offset = client.now_s, Outcome.UNKNOWN, offset + 1
        try:
            node_id = await client.coordinator(group, GROUP)
            outcome = await _commit(client, node_id, group, place, offset)
            position = Position(group, place, offset)
            records.transactions.append(
                Transaction(group, began_s, began_s, client.now_s, outcome, positions=(position,))
            )
            if outcome is Outcome.COMMITTED and client.rng.random() < 0.5:
                await _look(client, records, group, place, rules)
        except (NoAnswer, Refused):
            client.forget()
            number += outcome is Outcome.UNKNOWN
        await client.pause(60)


async def _commit(client: Client, node_id: int, group: str, place: tuple[str, int], offset: int) -> Outcome:
    """Commit once. Raises NoAnswer."""
    topic, partition = place
    if topic not in client.topics:
        await client.look()
    found = client.topics.get(topic)
    position = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata=None)
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[OffsetCommitRequestTopic(name=topic, topic_id=found.id if found else bytes(16), partitions=[position])],
    )
    answer = await client.ask(node_id, request)
    code = answer.topics[0].partitions[0].error_code
    if code in (error_codes.REQUEST_TIMED_OUT, error_codes.COORDINATOR_NOT_AVAILABLE, error_codes.NOT_COORDINATOR):
        raise NoAnswer(error_codes.name(code))  # it may have been written all the same
    if code:
        client.forget()
    return Outcome.ABORTED if code else Outcome.COMMITTED


async def _look(client: Client, records: Records, group: str, place: tuple[str, int], rules: "Invariants") -> None:
    """Ask how far the group has come. Raises NoAnswer or Refused.

    Nothing follows from the answer of a node that coordinates in an older epoch than the newest when this began. It may
    do so when it is asked, or only when it answers: who stood still obeys an order to lead that waited all the while.
    """
    topic, partition = place
    found = client.topics.get(topic)
    wanted = OffsetFetchRequestTopics(
        name=topic, topic_id=found.id if found else bytes(16), partition_indexes=[partition]
    )
    began_s, newest_epochs = client.now_s, rules.newest_epochs(GROUPS, group)
    node_id = await client.coordinator(group, GROUP)
    was_old = rules.coordinates_no_more(node_id, GROUPS, group, newest_epochs)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])])
    answer = await client.ask(node_id, request)
    is_old = was_old or rules.coordinates_no_more(node_id, GROUPS, group, newest_epochs)
    (of_group,) = answer.groups
    if of_group.error_code == error_codes.NONE:
        (one,) = of_group.topics[0].partitions
        if one.error_code == error_codes.NONE and not is_old:
            position = Position(group, place, one.committed_offset)
            records.committed.append(Committed(began_s, client.now_s, position))
