"""The turn of a node that wants to stop: waiting nodes are members of a group of their own, and its leader decides.

So two nodes never find the cluster whole at the same time and stop together by chance. A member with permission ends
without leaving the group: nobody else gets permission before its session has expired, and by then the cluster shows
that its node stops. Not here: which nodes may stop together (`kpybroker.machines.balance.rolling`).
"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from kpybroker.client import group_requests
from kpybroker.client.client import Client, raise_for
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from kpywire.messages.leave_group import MemberIdentity
from kpywire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

GROUP: Final = "__kpybroker_leaving"
PROTOCOL_TYPE: Final = "kpybroker"
PROTOCOL: Final = "turns"
REBALANCE_TIMEOUT_MS: Final = 60_000
HEARTBEAT_S: Final = 0.5
RETRIED: Final = frozenset(
    (error_codes.REBALANCE_IN_PROGRESS, error_codes.ILLEGAL_GENERATION, error_codes.UNKNOWN_MEMBER_ID)
)

Decide = Callable[[Iterable[int]], Mapping[int, str | None]]
"""For nodes that want to stop: the reason why each may not now, None for one that may."""


class LeavingTurn:
    """The membership of one node. ``hold_s`` is how long others wait after it has got permission."""

    def __init__(self, client: Client, node: int, decide: Decide, hold_s: float) -> None:
        self.client = client
        self.node = node
        self._decide = decide
        self._hold_ms = int(hold_s * 1000)
        self._member_id = ""
        self._generation = -1

    def ask(self) -> str | None:
        """Ask once. Return the reason why the node may not stop now, None if it may. Raises KafkaError, Unreachable."""
        while True:
            try:
                return self.client.retrying(self._ask, REBALANCE_TIMEOUT_MS / 1000)
            except KafkaError as error:
                if error.code == error_codes.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                elif error.code not in RETRIED:
                    raise

    def _ask(self) -> str | None:
        joined = self._join()
        self._member_id, self._generation = joined.member_id, joined.generation_id
        answers: list[SyncGroupRequestAssignment] = []
        if joined.leader == joined.member_id:
            nodes = {each.member_id: _node_in(each.metadata) for each in joined.members}
            reasons = self._decide(sorted({node for node in nodes.values() if node is not None}))
            for member, node in nodes.items():
                reason = "its membership names no node" if node is None else reasons[node]
                answers.append(SyncGroupRequestAssignment(member_id=member, assignment=_answer(reason)))
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=answers,
        )
        answer = self.client.call_coordinator(GROUP, request, wait_s=REBALANCE_TIMEOUT_MS / 1000)
        raise_for(answer.error_code, f"group {GROUP}")
        return _reason_in(answer.assignment)

    def _join(self) -> JoinGroupResponse:
        metadata = json.dumps({"node": self.node}).encode()
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self._hold_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=metadata)],
        )
        answer: JoinGroupResponse = self.client.call_coordinator(GROUP, request, wait_s=REBALANCE_TIMEOUT_MS / 1000)
        if answer.error_code == error_codes.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = answer.member_id
            answer = self.client.call_coordinator(GROUP, request, wait_s=REBALANCE_TIMEOUT_MS / 1000)
        raise_for(answer.error_code, f"group {GROUP}")
        return answer

    def wait(self, seconds: float) -> None:
        """Stay a member for a while, or until the members change. Raises KafkaError, Unreachable."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            code = self.client.retrying(self._heartbeat)
            if code in RETRIED:
                return
            raise_for(code, f"group {GROUP}")
            time.sleep(min(HEARTBEAT_S, seconds))

    def _heartbeat(self) -> int:
        request = HeartbeatRequest(group_id=GROUP, generation_id=self._generation, member_id=self._member_id)
        return int(self.client.call_coordinator(GROUP, request).error_code)

    def give_up(self) -> None:
        """Leave the group: the node stays. Raises KafkaError, Unreachable."""
        if self._member_id:
            identity = MemberIdentity(member_id=self._member_id, reason="the node stays")
            group_requests.remove_members(self.client, GROUP, [identity])


def _answer(reason: str | None) -> bytes:
    return json.dumps({"reason": reason}).encode()


def _reason_in(answer: bytes) -> str | None:
    try:
        reason = json.loads(answer)["reason"]
    except (ValueError, KeyError, TypeError):
        return "the group's leader gave no answer"
    return None if reason is None else str(reason)


def _node_in(metadata: bytes) -> int | None:
    try:
        node = json.loads(metadata)["node"]
    except (ValueError, KeyError, TypeError):
        return None
    return node if isinstance(node, int) else None
