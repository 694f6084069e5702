"""Brokers that are fenced before their sessions end, because the nodes that need them have lost them.

A broker is suspected when the controller has heard nothing of it for longer than usual: no fetch of the metadata log
and no heartbeat. It is then asked by a connection of its own, and every answer ends the suspicion. It is fenced if it
stays silent and most of its peers report that it does not answer them either. A peer is a broker that follows it or
that it follows. A report of a peer that had lost it long before the controller did says nothing.

A broker that the controller hears is fenced only if all brokers in sync with partitions that it leads, and at least
two, get no answers to their fetches: then nothing can be committed there, and others can lead.

A new controller knows nothing of brokers, except of the quorum's former leader: it has waited for this one as a voter.

A node that stood still has unread messages, so it starts all over. One whose looks are late is on a busy machine, and
waits longer. A broker that is heard soon after it was fenced was only slow: for an hour its session alone counts, and
all others are given twice the time.

Not here: connections and timers (`kpybroker.hosts.quorum.suspects`), and brokers that do not take part, such as those
of Apache Kafka.

Invariant: no broker is fenced that was heard since the suspicion of it began, unless its followers in sync lost it.
"""

from collections.abc import Collection, Mapping
from math import inf
from typing import Final, NamedTuple

from kpybroker.machines.controller.heartbeats import BrokerSession, SilenceReport

LOOK_MS: Final = 250
"""The interval between two looks."""
LATE_MS: Final = 250
"""A look that comes later than that after its time means that this node stood still."""
QUIET_MS: Final = 750
"""The shortest silence that is suspicious. A living broker fetches the metadata log every 500 ms."""
QUIET_FACTOR: Final = 1.5
"""The shortest suspicious silence of a broker with longer usual pauses, as a multiple of these."""
PROBE_MS: Final = 750
"""The time that a suspect has for an answer."""
LOST_MS: Final = 2_000
"""The time for which all followers in sync must have lost a leader that the controller hears."""
TOGETHER_MS: Final = 2_000
"""The most by which a peer may have lost a broker before the controller did."""
LAG_FACTOR: Final = 4
"""The part of all waits that is due to the latest looks of late, as a multiple of their lateness."""
SLOW_MS: Final = 2_000
"""A broker that is heard within this time after it was fenced was only slow."""
REST_MS: Final = 3_600_000
FRESH_MS: Final = 1_000
"""The time after which the peers of a suspect are found out again."""
FORGET_SHARE: Final = 16
"""The part by which the known pause of a broker comes nearer to a shorter one."""


LEAST_FOLLOWERS: Final = 2
"""The number of followers in sync below which a leader is not fenced for their sake: the follower may be cut off."""
Reports = Mapping[int, Mapping[int, SilenceReport]]
"""By reporter, the brokers that do not answer it."""
NO_REPORTS: Final[Mapping[int, SilenceReport]] = {}


class BrokerPeers(NamedTuple):
    """The other brokers that a broker's partitions connect it with."""

    witnesses: frozenset[int]
    """The brokers that follow it, and the ones that it follows."""
    in_sync: frozenset[int]
    """The brokers in sync with partitions that it leads."""


class EarlyFencing(NamedTuple):
    """The decision to fence a broker before its session ends."""

    session: BrokerSession
    silent_ms: int
    """The time since the controller, or the last of the followers, heard of it."""
    reporters: tuple[int, ...]
    is_heard: bool
    """The controller itself hears the broker."""


class Findings(NamedTuple):
    """The outcome of a look."""

    probed: list[BrokerSession]
    """The brokers to ask for a sign of life."""
    unknown: list[BrokerSession]
    """The brokers whose peers must be found out."""
    fenced: list[EarlyFencing]


class _Suspect:
    __slots__ = ("began_ms", "found_ms", "is_quiet", "peers")

    def __init__(self, began_ms: float, *, is_quiet: bool) -> None:
        self.began_ms = began_ms
        self.is_quiet = is_quiet
        """The controller does not hear the broker. If false, only its followers do not."""
        self.peers: BrokerPeers | None = None
        self.found_ms = -1.0

    def needs_peers(self, now_ms: float) -> bool:
        return self.peers is None or now_ms - self.found_ms >= FRESH_MS


class Suspicions:
    """The suspicions of one active controller. ``node_id`` is its node, whose broker is never suspected."""

    def __init__(self, node_id: int, now_ms: float) -> None:
        self._node_id = node_id
        self._looked_ms = now_ms
        self._woke_ms = now_ms
        self._lag_ms = 0.0
        """The lateness of the latest looks of late."""
        self._slow_until_ms = -1.0
        """The time until which all waits are twice as long, since a broker that was fenced was only slow."""
        self._suspects: dict[BrokerSession, _Suspect] = {}
        self._signs: dict[BrokerSession, float] = {}
        self._answered: dict[BrokerSession, float] = {}
        self._usual_ms: dict[BrokerSession, float] = {}
        self._returned_ms: dict[BrokerSession, float] = {}
        """The times when brokers were heard again after a pause."""
        self._lost_ms: dict[BrokerSession, float] = {}
        """The time when this node heard the quorum's former leader last, before it was the controller."""
        self._fenced_ms: dict[BrokerSession, float] = {}
        self._rests_until_ms: dict[int, float] = {}

    def lost(self, session: BrokerSession, heard_ms: float, asked_ms: float, lag_ms: float) -> None:
        """Note that the quorum's former leader answered this node last at ``heard_ms``, and gives no sign of life since
        it was asked. Looks were late by ``lag_ms`` meanwhile. Its broker is a suspect since then."""
        self._lost_ms[session] = heard_ms
        self._lag_ms = lag_ms
        self._suspects[session] = _Suspect(asked_ms, is_quiet=True)

    def answered(self, session: BrokerSession, now_ms: float) -> None:
        """Note that a suspect answered."""
        self._answered[session] = now_ms
        suspect = self._suspects.get(session)
        if suspect is not None and suspect.is_quiet:
            del self._suspects[session]

    def found(self, session: BrokerSession, peers: BrokerPeers, now_ms: float) -> None:
        """Note the peers of a suspect."""
        suspect = self._suspects.get(session)
        if suspect is not None:
            suspect.peers, suspect.found_ms = peers, now_ms

    def look(
        self,
        now_ms: float,
        signs: Mapping[BrokerSession, float | None],
        reports: Reports,
    ) -> Findings:
        """Decide. ``signs``: the last time that each broker was heard, None if never by this controller; of those that
        are not fenced and take part."""
        if now_ms - self._looked_ms > LOOK_MS + LATE_MS:
            self._woke_ms = now_ms
            self._suspects.clear()
            self._lost_ms.clear()
        late_ms = min(max(now_ms - self._looked_ms - LOOK_MS, 0.0), LATE_MS)
        self._lag_ms = max(late_ms, self._lag_ms - self._lag_ms / FORGET_SHARE)
        self._looked_ms = now_ms
        self._note(now_ms, signs)
        quiet = {session for session, sign in signs.items() if self._is_quiet(session, sign, now_ms)}
        live = {session.broker_id for session in signs if session not in quiet} | {self._node_id}
        self._suspect(now_ms, signs, reports, quiet)
        fenced: list[EarlyFencing] = []
        for session, suspect in self._suspects.items():
            if suspect.peers is not None and now_ms - suspect.began_ms >= self._wait_ms(PROBE_MS, now_ms):
                decide = self._by_witnesses if suspect.is_quiet else self._by_followers
                decided = decide(session, suspect.peers, now_ms, signs[session], reports, live)
                if decided is not None:
                    fenced.append(decided)
        for each in fenced:
            del self._suspects[each.session]
            if not each.is_heard:
                self._fenced_ms[each.session] = now_ms
        suspects = self._suspects.items()
        return Findings(
            [session for session, suspect in suspects if suspect.is_quiet],
            [session for session, suspect in suspects if suspect.needs_peers(now_ms)],
            fenced,
        )

    def _note(self, now_ms: float, signs: Mapping[BrokerSession, float | None]) -> None:
        """Learn the usual pauses of brokers, and which ones were fenced although they were only slow."""
        for session, sign in signs.items():
            before = self._signs.get(session)
            if sign is None or sign == before:
                continue
            self._signs[session] = sign
            pause_ms = inf if before is None else sign - before
            if pause_ms >= QUIET_MS:
                self._returned_ms[session] = sign
            fenced_ms = self._fenced_ms.get(session)
            if fenced_ms is not None and sign > fenced_ms:
                del self._fenced_ms[session]
                self._usual_ms.pop(session, None)
                if sign - fenced_ms < SLOW_MS:
                    self._rests_until_ms[session.broker_id] = self._slow_until_ms = sign + REST_MS
            elif before is not None and before >= self._woke_ms:
                usual_ms = self._usual_ms.get(session, 0.0)
                share = 1 if pause_ms > usual_ms else FORGET_SHARE
                self._usual_ms[session] = usual_ms + (pause_ms - usual_ms) / share
        for session in [each for each, fenced_ms in self._fenced_ms.items() if now_ms - fenced_ms > 2 * SLOW_MS]:
            del self._fenced_ms[session]
        for known in (self._signs, self._answered, self._usual_ms, self._returned_ms):
            for session in known.keys() - signs.keys() - self._fenced_ms.keys():
                del known[session]

    def _heard_ms(self, session: BrokerSession, sign: float | None) -> float:
        """The time since when a broker is silent, as far as this node can know."""
        if self._is_unknown(session, sign) and session in self._lost_ms:
            return self._lost_ms[session]
        return max(-1.0 if sign is None else sign, self._answered.get(session, -1.0), self._woke_ms)

    def _is_quiet(self, session: BrokerSession, sign: float | None, now_ms: float) -> bool:
        least_ms = max(QUIET_MS, QUIET_FACTOR * self._usual_ms.get(session, 0.0))
        return now_ms - self._heard_ms(session, sign) >= self._wait_ms(least_ms, now_ms)

    def _wait_ms(self, least_ms: float, now_ms: float) -> float:
        """A wait as it is on this machine now."""
        return (least_ms + LAG_FACTOR * self._lag_ms) * (2 if now_ms < self._slow_until_ms else 1)

    def _suspect(
        self,
        now_ms: float,
        signs: Mapping[BrokerSession, float | None],
        reports: Reports,
        quiet: Collection[BrokerSession],
    ) -> None:
        """Begin and end suspicions."""
        reported: dict[int, int] = {}
        for silent in reports.values():
            for broker_id in silent:
                reported[broker_id] = reported.get(broker_id, 0) + 1
        suspects: dict[BrokerSession, _Suspect] = {}
        for session, sign in signs.items():
            if self._rests_until_ms.get(session.broker_id, -1.0) > now_ms:
                continue
            reporters = reported.get(session.broker_id, 0)
            is_quiet = session in quiet or (reporters > 0 and self._is_unknown(session, sign))
            if is_quiet or reporters > 1:
                before = self._suspects.get(session)
                same = before is not None and before.is_quiet == is_quiet
                suspects[session] = before if before is not None and same else _Suspect(now_ms, is_quiet=is_quiet)
        self._suspects = suspects

    def _is_unknown(self, session: BrokerSession, sign: float | None) -> bool:
        """Return whether this controller has never heard a broker."""
        return sign is None and session not in self._answered

    def _by_witnesses(
        self,
        session: BrokerSession,
        peers: BrokerPeers,
        now_ms: float,
        sign: float | None,
        reports: Reports,
        live: Collection[int],
    ) -> EarlyFencing | None:
        """Fence a broker that the controller does not hear, if most of its peers do not either."""
        heard_ms = self._heard_ms(session, sign)
        is_unknown = self._is_unknown(session, sign) and session not in self._lost_ms
        earliest_ms = -inf if is_unknown else heard_ms - TOGETHER_MS
        asked = peers.witnesses.intersection(live)
        reporters: list[int] = []
        for peer in sorted(asked):
            report = reports.get(peer, NO_REPORTS).get(session.broker_id)
            if report is not None and report.since_ms >= earliest_ms:
                reporters.append(peer)
        if len(reporters) * 2 <= len(asked):
            return None
        return EarlyFencing(session, int(now_ms - heard_ms), tuple(reporters), is_heard=False)

    def _by_followers(
        self,
        session: BrokerSession,
        peers: BrokerPeers,
        now_ms: float,
        sign: float | None,
        reports: Reports,
        live: Collection[int],
    ) -> EarlyFencing | None:
        """Fence a broker that the controller hears, if all followers in sync lost it."""
        is_heard = now_ms - self._heard_ms(session, sign) < QUIET_MS
        if not is_heard or len(peers.in_sync) < LEAST_FOLLOWERS or not peers.in_sync.issubset(live):
            return None
        heard_ms = self._returned_ms.get(session, -inf)  # its followers may not know yet that it is back
        for peer in peers.in_sync:
            report = reports.get(peer, NO_REPORTS).get(session.broker_id)
            if report is None or not report.is_unanswered:
                return None
            heard_ms = max(heard_ms, report.since_ms)
        if now_ms - heard_ms < self._wait_ms(LOST_MS, now_ms):
            return None
        return EarlyFencing(session, int(now_ms - heard_ms), tuple(sorted(peers.in_sync)), is_heard=True)
