"""A simulated ensemble of ZooKeeper: three servers with one log, behind ports of the simulated network.

The leader orders writes. A write counts when a majority has it, and each server applies it some time later, so a client
of a slow follower reads what was. A server that has lost the leader goes on answering reads until it notices. A write
that its leader had not shared when it died may be lost, or may be done although nobody got an answer. Sessions expire
by the leader's clock.

Left out: the messages of the servers among themselves (they are delays here, and need an open way).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from simulated import SYNC

from kpybroker.machines.zookeeper.client import error_codes
from kpybroker.machines.zookeeper.client.frames import CLOSE_SESSION, CREATE_SESSION, PASSWORD_BYTES, Greeting
from kpybroker.machines.zookeeper.client.jute import JuteReader, JuteWriter

from .ensemble_port import Port, Wire
from .ensemble_tree import TICK_MS, Asked, Outcome, ServedConnection, Transaction, Tree
from .network import End, Host

if TYPE_CHECKING:
    from .network import Network
    from .world import World

PORT = 2181
SERVERS = 3
MAJORITY = 2
LOOK_MS = 50.0


class Tracked:
    """A session as the leader knows it."""

    def __init__(self, password: bytes, timeout_ms: int, owner: "Server", now_ms: float) -> None:
        self.password = password
        self.timeout_ms = timeout_ms
        self.owner = owner
        """The server that its client is connected to."""
        self.heard_ms = now_ms


class Server:
    """One server of the ensemble."""

    def __init__(self, ensemble: "Ensemble", name: str) -> None:
        self.ensemble = ensemble
        self.host = ensemble.network.hosts[name] = Host(ensemble.world, name, ensemble.failed)
        self.tree = Tree(ensemble.rng, self.host.wall_ms, self)
        self.received = 0
        """The entries of the log that it has."""
        self.applied = 0
        self.is_alive = True
        self.is_serving = False
        self.lag_ms = 1.0
        self.lost_leader_ms: float | None = None
        self.reported_ms = 0.0
        """The time when the leader hears the last message: later messages arrive later."""
        self._port: Port | None = None

    def __str__(self) -> str:
        return self.host.name

    # Serving

    def serve(self) -> None:
        """Accept clients from now on."""
        self.is_serving, self.lost_leader_ms = True, None
        self._port = Port(self.ensemble.network, self.host, PORT, self._accepted)

    def leave(self) -> None:
        """Serve nobody: the leader is lost."""
        if self.is_serving:
            self.is_serving = False
            assert self._port is not None
            self._port.close()
            for connection in [*self.tree.connections]:
                connection.end()

    def kill(self) -> None:
        """Its process dies. Its log stays."""
        self.ensemble.world.tell(f"{self} is killed")
        self.is_alive = self.is_serving = False
        for connection in [*self.tree.connections]:
            connection.gone()
        self.ensemble.network.process_died(self.host)

    def _accepted(self, end: End) -> None:
        Wire(end, self.tree)

    # Requests

    def greeted(self, connection: ServedConnection, greeting: Greeting) -> None:
        """A client asks for a session, or for one to go on."""
        if greeting.last_zxid > self.tree.zxid:
            self.ensemble.world.tell(f"{self} is behind a client that comes to it")
            connection.end()
        else:
            self.ensemble.tell_leader(self, self.ensemble.greeted, connection, self, greeting)

    def asked(self, asked: Asked) -> None:
        """A request came from a client."""
        ensemble, session = self.ensemble, asked.connection.session
        assert session is not None
        if ensemble.reaches_leader(self):
            ensemble.heard(session.session_id)
        if asked.is_write:
            ensemble.tell_leader(self, ensemble.asked, asked, self, session.session_id)
        elif asked.code == SYNC:
            ensemble.tell_leader(self, ensemble.synced, asked, self)

    def needs(self, asked: Asked, count: int) -> None:
        """The leader has said what a sync waits for."""
        asked.needed = count
        self.tree.answer(asked.connection)

    def apply_to(self, count: int) -> None:
        """Apply entries of the log, and answer who waits for them."""
        while self.applied < count:
            entry = self.ensemble.log[self.applied]
            self.applied += 1
            outcome = self.tree.apply(entry)
            self._applied(entry, outcome)
            if entry.code == CLOSE_SESSION:
                for connection in [*self.tree.connections]:
                    if connection.session is not None and connection.session.session_id == entry.session_id:
                        connection.end()
            self._answer_syncs()

    def _answer_syncs(self) -> None:
        for connection in [*self.tree.connections]:
            if connection.waiting and connection.waiting[0].needed == self.applied:
                self.tree.answer(connection)

    def _applied(self, entry: Transaction, outcome: Outcome) -> None:
        asker = entry.asker
        if asker is None or asker.connection._server is not self.tree:
            return
        if entry.code == CREATE_SESSION:
            self.tree.welcome(asker.connection, entry.session_id, self.ensemble.tracked.get(entry.session_id))
        else:
            asker.outcome, asker.zxid = outcome, entry.zxid
            self.tree.answer(asker.connection)

    def loses_answer(self, asked: Asked) -> bool:
        """Whether the connection breaks instead of carrying an answer."""
        ensemble = self.ensemble
        if not asked.is_write:
            return ensemble.lost_reads > 0.0 and ensemble.rng.random() < ensemble.lost_reads
        if ensemble.unheard and ensemble.unheard.encode() in asked.body:
            ensemble.unheard = ""
            return True
        return ensemble.rng.random() < ensemble.lost_answers


class Ensemble:
    """All servers, and the log that they share."""

    def __init__(self, world: "World", network: "Network") -> None:
        self.world = world
        self.network = network
        self.rng = world.stream("ensemble")
        self.log: list[Transaction] = []
        self.committed = 0
        self.epoch = 0
        self.leader: Server | None = None
        self.truth = Tree(self.rng, 1_790_000_000_000.0, None)
        """The znodes as everything has made them that counts."""
        self.tracked: dict[int, Tracked] = {}
        self.on_commit: Callable[[Transaction, Outcome], object] = lambda _entry, _outcome: None
        self.lost_answers = self.lost_reads = 0.0
        """How often a connection breaks instead of carrying the answer to a write, and to a read."""
        self.unheard = ""
        """A path: so breaks the connection of the next write that names it."""
        self.patience_ms = 200.0
        """The time after which a server notices that it has lost the leader."""
        self.servers = [Server(self, f"zk{number + 1}") for number in range(SERVERS)]
        self._election_ms: float | None = None
        self._look()

    def failed(self, what: str, _error: Any) -> None:
        self.world.violated(f"the ensemble: {what}")

    # What servers tell one another

    def reaches(self, one: Server, other: Server) -> bool:
        """Whether two servers live and hear each other."""
        cut = self.network.is_cut
        return (
            one.is_alive
            and other.is_alive
            and (one is other or not (cut(one.host, other.host) or cut(other.host, one.host)))
        )

    def reaches_leader(self, server: Server) -> bool:
        """Whether the leader hears a server."""
        return self.leader is not None and self.reaches(server, self.leader)

    def tell_leader(self, server: Server, call: Callable[..., object], *arguments: Any) -> None:
        """Have the leader do something, if it still is when that arrives."""
        epoch = self.epoch

        def arrived() -> None:
            if epoch == self.epoch and self.reaches_leader(server):
                call(*arguments)

        if server is self.leader:
            arrived()
        else:
            server.reported_ms = max(server.reported_ms, self.world.now_ms + self._delay_ms(server))
            self.world.later(server.reported_ms - self.world.now_ms, arrived)

    def _delay_ms(self, server: Server) -> float:
        return 0.1 + self.rng.random() * server.lag_ms

    # Sessions

    def greeted(self, connection: ServedConnection, server: Server, greeting: Greeting) -> None:
        """At the leader: a client wants a session."""
        if connection.is_over:
            return
        timeout_ms = min(max(greeting.timeout_ms, 2 * TICK_MS), 20 * TICK_MS)
        session_id = greeting.session_id
        if session_id == 0:
            session_id, password = self.rng.getrandbits(62) | 1, self.rng.randbytes(PASSWORD_BYTES)
            self.tracked[session_id] = Tracked(password, timeout_ms, server, self.world.now_ms)
            body = JuteWriter()
            body.buffer(password)
            body.int32(timeout_ms)
            asked = Asked(connection, 0, CREATE_SESSION, b"")
            self._propose(session_id, CREATE_SESSION, body.frame(), asked)
            return
        known = self.tracked.get(session_id)
        if known is None or known.password != greeting.password:
            self.world.later(self._delay_ms(server), server.tree.welcome, connection, session_id, None)
        else:
            known.owner, known.heard_ms, known.timeout_ms = server, self.world.now_ms, timeout_ms
            self.world.later(self._delay_ms(server), server.tree.welcome, connection, session_id, known)

    def heard(self, session_id: int) -> None:
        """At the leader: a client has said something."""
        known = self.tracked.get(session_id)
        if known is not None:
            known.heard_ms = self.world.now_ms

    def asked(self, asked: Asked, server: Server, session_id: int) -> None:
        """At the leader: a write."""
        known = self.tracked.get(session_id)
        if known is None or known.owner is not server:
            code = error_codes.SESSION_EXPIRED if known is None else error_codes.SESSION_MOVED
            asked.outcome, asked.zxid = Outcome(code, b""), server.tree.zxid
            server.tree.answer(asked.connection)
            return
        if asked.code == CLOSE_SESSION:
            del self.tracked[session_id]
        self._propose(session_id, asked.code, asked.body, asked)

    def synced(self, asked: Asked, server: Server) -> None:
        """At the leader: a sync, which waits until a server has all that was proposed before."""
        count = len(self.log)
        if server is self.leader:
            server.needs(asked, count)
        else:
            self.world.later(self._delay_ms(server), server.needs, asked, count)

    def _expire_sessions(self) -> None:
        now_ms = self.world.now_ms
        for session_id, known in [*self.tracked.items()]:
            if now_ms - known.heard_ms > known.timeout_ms:
                self._expire(session_id)

    def _expire(self, session_id: int) -> None:
        self.world.tell(f"session 0x{session_id:x} expires")
        del self.tracked[session_id]
        self._propose(session_id, CLOSE_SESSION, b"", None)

    # The log

    def _propose(self, session_id: int, code: int, body: bytes, asked: Asked | None) -> None:
        assert self.leader is not None
        zxid = (self.epoch << 32) + len(self.log) + 1
        self.log.append(Transaction(zxid, self.world.now_ms, session_id, code, body, asked))
        self.leader.received = len(self.log)
        self._share()

    def _share(self) -> None:
        for server in self.servers:
            if server is not self.leader and server.is_serving:
                state = self.epoch, len(self.log), self.committed
                self.world.later(self._delay_ms(server), self._shared, server, *state)

    def _shared(self, server: Server, epoch: int, length: int, committed: int) -> None:
        """At a follower: what the log was, and how much of it counts."""
        if epoch != self.epoch or not server.is_serving or not self.reaches_leader(server):
            return
        is_news = length > server.received
        server.received = max(server.received, length)
        server.apply_to(committed)
        if is_news:
            self.world.later(self._delay_ms(server), self._acknowledged, epoch)

    def _acknowledged(self, epoch: int) -> None:
        """At the leader: a follower has more of the log."""
        if epoch != self.epoch or self.leader is None:
            return
        counts = sorted((each.received for each in self.servers if each.is_serving), reverse=True)
        if len(counts) >= MAJORITY and counts[MAJORITY - 1] > self.committed:
            self._commit(counts[MAJORITY - 1])
            self.leader.apply_to(self.committed)
            self._share()

    def _commit(self, count: int) -> None:
        while self.committed < count:
            entry = self.log[self.committed]
            self.committed += 1
            self.on_commit(entry, self.truth.apply(entry))

    # Leaders

    def _look(self) -> None:
        now_ms = self.world.now_ms
        leader = self.leader
        if leader is not None:
            self._look_at(leader, now_ms)
        if self.leader is None:
            self._elect_when_due(now_ms)
        if self.leader is not None:
            for server in self.servers:
                if server.is_alive and not server.is_serving and self.reaches_leader(server):
                    self._join(server)
            self._expire_sessions()
            if any(each.is_serving and each.applied < len(self.log) for each in self.servers):
                self._share()
        self.world.later(LOOK_MS, self._look)

    def _look_at(self, leader: Server, now_ms: float) -> None:
        """Whether a leader still has a majority, and its followers it."""
        reached = [each for each in self.servers if self.reaches(leader, each)]
        if len(reached) >= MAJORITY:
            leader.lost_leader_ms = None
        elif leader.lost_leader_ms is None:
            leader.lost_leader_ms = now_ms
        if not leader.is_alive or now_ms - (leader.lost_leader_ms or now_ms) > self.patience_ms:
            self.world.tell(f"{leader} leads the ensemble no more")
            self.leader = None
            for server in self.servers:
                server.leave()
            return
        for server in self.servers:
            if server in reached:
                if server is not leader:
                    server.lost_leader_ms = None
            elif server.lost_leader_ms is None:
                server.lost_leader_ms = now_ms
            elif server.is_serving and now_ms - server.lost_leader_ms > self.patience_ms:
                self.world.tell(f"{server} has lost the leader of the ensemble")
                server.leave()

    def _elect_when_due(self, now_ms: float) -> None:
        if self._election_ms is None:
            self._election_ms = now_ms + self.rng.choice((20.0, 200.0, 1_000.0))
        if now_ms < self._election_ms:
            return
        candidates = [
            each for each in self.servers if sum(self.reaches(each, other) for other in self.servers) >= MAJORITY
        ]
        if not candidates:
            return
        # Two reach a majority, so one of them has all that counts; it also does if it reaches who has more.
        electorate = max(
            ([other for other in self.servers if self.reaches(each, other)] for each in candidates),
            key=lambda reached: (len(reached), [str(each) for each in reached]),
        )
        leader = max(electorate, key=lambda each: (each.received, str(each)))
        self._election_ms = None
        self.epoch += 1
        self.leader = leader
        self.world.tell(f"{leader} leads the ensemble in epoch {self.epoch} with {leader.received} of {len(self.log)}")
        del self.log[leader.received :]
        for known in self.tracked.values():
            known.heard_ms = now_ms
        leader.lost_leader_ms = None
        self._join(leader)
        for server in electorate:
            if server is not leader:
                self._join(server)
        self._forget_lost_sessions()
        self._acknowledged(self.epoch)

    def _join(self, server: Server) -> None:
        """A server has the leader's log from now on, and serves."""
        server.received = len(self.log)
        server.apply_to(min(self.committed, server.received))
        server.serve()
        self._acknowledged(self.epoch)

    def _forget_lost_sessions(self) -> None:
        """A session that only the leader before knew of is none; one that it had ended, and nobody heard of, goes
        on."""
        there = {entry.session_id for entry in self.log if entry.code == CREATE_SESSION}
        there -= {entry.session_id for entry in self.log if entry.code == CLOSE_SESSION}
        for session_id in [each for each in self.tracked if each not in there]:
            del self.tracked[session_id]
        for entry in self.log:
            if entry.session_id in there and entry.session_id not in self.tracked and entry.code == CREATE_SESSION:
                self.tracked[entry.session_id] = self._known_again(entry)

    def _known_again(self, entry: Transaction) -> Tracked:
        assert self.leader is not None
        source = JuteReader(entry.body)
        return Tracked(source.buffer() or b"", source.int32(), self.leader, self.world.now_ms)

    # What happens to it

    def end_session(self, session_id: int) -> None:
        """A session expires now."""
        if self.leader is not None and self.leader.is_alive and session_id in self.tracked:
            self._expire(session_id)

    def expire(self, session_id: int) -> None:
        """A session expires soon, unless its client says something before."""
        if self.leader is not None and self.leader.is_alive and session_id in self.tracked:
            self.tracked[session_id].heard_ms = -1e9

    def change(self, code: int, body: bytes) -> bool:
        """Somebody changes a znode by hand; whether there is a server that does it."""
        if self.leader is None or not self.leader.is_alive:
            return False
        self._propose(0, code, body, None)
        return True

    def restart(self, server: Server) -> None:
        """A killed server comes back with its log."""
        if not server.is_alive:
            self.world.tell(f"{server} starts")
            server.is_alive, server.lost_leader_ms = True, None
