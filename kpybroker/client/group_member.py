"""A member of a classic consumer group, for ``kpybroker consume --group``: joins, heartbeats, commits, leaves.

It is eager and synchronous: between two polls it heartbeats, and when the group rebalances it gives up everything and
joins again. Invariant: only records that were handed out and finished (`finish`) are committed, so a record may come
twice to the group but none is skipped.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kpybroker.client import group_requests
from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.consumer_protocol import (
    PROTOCOL_TYPE,
    RANGE,
    assign_ranges,
    assigned_spots,
    assignment,
    subscribed_topics,
    subscription,
)
from kpybroker.client.leaver import Leaver
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.errors import Malformed
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kpywire.messages.leave_group import MemberIdentity
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

LEAVE_PATIENCE_S = 5.0
REJOIN = frozenset((error_codes.REBALANCE_IN_PROGRESS, error_codes.ILLEGAL_GENERATION, error_codes.UNKNOWN_MEMBER_ID))

Start = Callable[[list[Spot]], Mapping[Spot, int]]


class MembershipSettings(NamedTuple):
    """The settings of a membership: `client_configs` has the names by which users set them.

    ``patience_s`` is how long the group's broker may be away, None for the client's own patience.
    """

    session_timeout_ms: int = 45_000
    rebalance_timeout_ms: int = 60_000
    heartbeat_s: float = 1.0
    commit_s: float = 5.0
    commits: bool = True
    patience_s: float | None = None


class GroupMember(Leaver):
    """A member of ``group`` that reads ``topics``. ``start`` is the position for partitions without a valid commit."""

    def __init__(
        self,
        client: Client,
        group: str,
        topics: Iterable[str],
        start: Start,
        instance_id: str | None = None,
        membership: MembershipSettings | None = None,
    ) -> None:
        super().__init__(client, group)
        self.membership = membership or MembershipSettings()
        self.topics = sorted(topics)
        self.start = start
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self._done: dict[Spot, int] = {}
        self._heartbeat_at = 0.0
        self._commit_at = 0.0

    def join(self) -> dict[Spot, int]:
        """Join or rejoin the group. Return the owned partitions and where to read them. Raises KafkaError."""
        while True:
            try:
                return self.client.retrying(self._join, self.membership.patience_s)
            except KafkaError as error:
                if error.code == error_codes.UNKNOWN_MEMBER_ID:
                    self.member_id = ""
                elif error.code not in REJOIN:
                    raise

    def _join(self) -> dict[Spot, int]:
        joined = self._enter()
        self.member_id, self.generation = joined.member_id, joined.generation_id
        plan = self._plan(joined) if joined.leader == joined.member_id and not joined.skip_assignment else []
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=plan,
        )
        answer = self.client.call_coordinator(self.group, request, wait_s=self._rebalance_s)
        raise_for(answer.error_code, f"group {self.group}")
        self._done.clear()
        self._heartbeat_at = time.monotonic() + self.membership.heartbeat_s
        self._commit_at = time.monotonic() + self.membership.commit_s
        return self._positions(assigned_spots(answer.assignment) or ())

    @property
    def _rebalance_s(self) -> float:
        return self.membership.rebalance_timeout_ms / 1000

    def _enter(self) -> JoinGroupResponse:
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=self.membership.session_timeout_ms,
            rebalance_timeout_ms=self.membership.rebalance_timeout_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=RANGE, metadata=subscription(self.topics))],
        )
        answer: JoinGroupResponse = self.client.call_coordinator(self.group, request, wait_s=self._rebalance_s)
        if answer.error_code == error_codes.MEMBER_ID_REQUIRED:
            self.member_id = request.member_id = answer.member_id
            answer = self.client.call_coordinator(self.group, request, wait_s=self._rebalance_s)
        raise_for(answer.error_code, f"group {self.group}")
        return answer

    def _plan(self, joined: JoinGroupResponse) -> list[SyncGroupRequestAssignment]:
        """The assignment of all members, made by the leader."""
        try:
            wanted = {member.member_id: subscribed_topics(member.metadata) for member in joined.members}
        except Malformed as error:
            raise KafkaError(error_codes.INCONSISTENT_GROUP_PROTOCOL, f"group {self.group}: {error}") from None
        topics = self.client.topics(sorted({topic for topics in wanted.values() for topic in topics}))
        counts = {topic.name or "": len(topic.partitions) for topic in topics if not topic.error_code}
        plan = assign_ranges(wanted, counts)
        return [SyncGroupRequestAssignment(member_id=each, assignment=assignment(plan[each])) for each in plan]

    def _positions(self, spots: Iterable[Spot]) -> dict[Spot, int]:
        """The position of each partition: its committed offset if that record exists, else the start."""
        owned = list(spots)
        if not owned:
            return {}
        commits = group_requests.committed(self.client, self.group, owned)
        ends = self.client.list_offsets(dict.fromkeys(commits, -1))
        starts = self.client.list_offsets(dict.fromkeys(commits, -2))
        valid = {spot: found.offset for spot, found in commits.items() if starts[spot] <= found.offset <= ends[spot]}
        rest = [spot for spot in owned if spot not in valid]
        return {**valid, **(self.start(rest) if rest else {})}

    def finish(self, spot: Spot, next_offset: int) -> None:
        """Note that everything before ``next_offset`` is finished and may be committed."""
        self._done[spot] = next_offset

    def forget(self) -> None:
        """Forget what was finished since the last commit: it did not reach the output, and is not committed."""
        self._done.clear()

    def keep_up(self) -> bool:
        """Heartbeat and commit if it is time. Return whether the assignment still stands. If not, `join` again."""
        now = time.monotonic()
        try:
            if now >= self._commit_at:
                self.client.retrying(self.commit, self.membership.patience_s)
            if now >= self._heartbeat_at:
                self.client.retrying(self._heartbeat, self.membership.patience_s)
                self._heartbeat_at = now + self.membership.heartbeat_s
        except KafkaError as error:
            if error.code not in REJOIN:
                raise
            if error.code == error_codes.REBALANCE_IN_PROGRESS:
                self._commit_while_it_counts()
            return False
        return True

    def _heartbeat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        raise_for(self.client.call_coordinator(self.group, request).error_code, f"group {self.group}")

    def commit(self) -> None:
        """Commit the finished records. Raises KafkaError."""
        self._commit_at = time.monotonic() + self.membership.commit_s
        if self._done and self.membership.commits:
            group_requests.commit(
                self.client,
                self.group,
                self._done,
                member_id=self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
            )
            self._done.clear()

    def _commit_while_it_counts(self) -> None:
        """Commit in the old generation while a rebalance begins. If that is no longer possible, other members read the
        records again."""
        try:
            self.commit()
        except KafkaError as error:
            if error.code not in REJOIN:
                raise

    def leave(self) -> None:
        """Commit and leave; a static member stays, so that its restart costs no rebalance (KIP-345).

        A command that ends does not wait long for a broker that is gone.
        """
        if not self.member_id:
            return
        self.client.hurry(LEAVE_PATIENCE_S)
        self._commit_while_it_counts()
        if self.instance_id is None:
            identity = MemberIdentity(member_id=self.member_id, reason="the consumer ends")
            group_requests.remove_members(self.client, self.group, [identity])
        self.member_id = ""
