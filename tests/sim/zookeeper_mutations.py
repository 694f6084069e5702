"""Bugs to plant in ZooKeeper mode: in the client's sessions, in brokers, in the controller. Most are Kafka's own.

What cannot show is not planted, since something else stands behind it: a controller that goes on with its session
gone (no write of it counts), AlterPartition of an older leader epoch (the partition epoch is older, too), a watch of
``/controller`` (a broker's controller and its channel both have one), and a StopReplica that leaves the log of a
deleted topic (UpdateMetadata has removed the topic before).
"""

from . import kind
from .mutation import Mutation

MACHINES = "kpybroker/machines/zookeeper/"
HOSTS = "kpybroker/hosts/zookeeper/"
CONTROLLER = MACHINES + "controller/"
CLIENT = HOSTS + "client/client.py"
SESSION = MACHINES + "client/session.py"
SESSIONS = HOSTS + "broker/sessions.py"
REGISTRATION = HOSTS + "broker/registration.py"
REQUESTS = MACHINES + "broker/controller_requests.py"
BROKERS = CONTROLLER + "brokers.py"
DELETION = CONTROLLER + "deletion.py"
ELECTION = CONTROLLER + "election.py"
ELECTIONS = CONTROLLER + "elections.py"
LEADERSHIP = CONTROLLER + "leadership.py"
REPLICAS = CONTROLLER + "replica_states.py"
ALTER = CONTROLLER + "alter_partition.py"
TOPICS = CONTROLLER + "topics.py"
SENDERS = HOSTS + "controller/senders.py"


def _zookeeper(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, path, old, new, world=kind.ZOOKEEPER)


ZOOKEEPER_MUTATIONS = [
    # Epochs of controllers (KAFKA-6082)
    _zookeeper(
        "a controller that was replaced writes",
        CONTROLLER + "steps.py",
        "check = Check(paths.CONTROLLER_EPOCH, self.epoch_version)",
        "check = Check(paths.CONTROLLER_EPOCH, -1)",
    ),
    _zookeeper(
        "the epoch of the controller is written at any version",
        ELECTION,
        "controller.encode_epoch(epoch), before.stat.version)",
        "controller.encode_epoch(epoch), -1)",
    ),
    _zookeeper(
        "an election whose answer was lost is lost",
        ELECTION,
        "== (broker_id, epoch):",
        "== (broker_id, epoch - 1):",
    ),
    _zookeeper(
        "/controller outlives its session",
        ELECTION,
        "acl_of(paths.CONTROLLER), is_ephemeral=True),",
        "acl_of(paths.CONTROLLER)),",
    ),
    _zookeeper(
        "who was replaced takes itself for the controller",
        CONTROLLER + "controller.py",
        "        if self._reign is not None:\n            self._reign = None\n            self._on_brokers()\n",
        "        if self._reign is not None:\n            self._on_brokers()\n",
    ),
    _zookeeper(
        "a controller of an older epoch is obeyed",
        REQUESTS,
        "if request.controller_epoch < self.controller_epoch:",
        "if request.controller_epoch < 0:",
    ),
    # Sessions and registrations (KAFKA-7235, 9839, 14845)
    _zookeeper(
        "a broker does not register in its next session",
        SESSIONS,
        "        try:\n            await self._joined.registration.register()\n",
        "        try:\n",
    ),
    _zookeeper(
        "a registration outlives its session",
        REGISTRATION,
        "create = Create(path, None, self._acls, is_ephemeral=True)",
        "create = Create(path, None, self._acls)",
    ),
    _zookeeper(
        "a registration whose answer was lost is a stranger's",
        REGISTRATION,
        "        if stat.ephemeral_owner == session_id:\n",
        "        if stat.ephemeral_owner < 0:\n",
    ),
    _zookeeper(
        "nobody stands for election in a new session",
        SESSIONS,
        "            self._joined.known.look()\n            self._candidate.look()\n            async with",
        "            self._joined.known.look()\n            async with",
    ),
    _zookeeper(
        "a broker that came back as another process is taken for the one before",
        BROKERS,
        "broker.epoch > known[each].epoch",
        "broker.epoch < known[each].epoch",
    ),
    _zookeeper(
        "orders to an earlier session are obeyed",
        REQUESTS,
        "if NO_EPOCH != request.broker_epoch < own_epoch:",
        "if NO_EPOCH - 1 > request.broker_epoch:",
    ),
    _zookeeper(
        "a newer epoch than the broker knows is refused",
        REQUESTS,
        "if NO_EPOCH != request.broker_epoch < own_epoch:",
        "if NO_EPOCH != request.broker_epoch != own_epoch:",
    ),
    _zookeeper(
        "an in-sync set is granted to an earlier session of its leader",
        ALTER,
        "known.epoch == broker_epoch else",
        "known.epoch >= broker_epoch else",
    ),
    _zookeeper(
        "an earlier session of a broker shuts it down",
        CONTROLLER + "controlled_shutdown.py",
        "broker_epoch != UNKNOWN_EPOCH and broker_epoch < known.epoch:",
        "broker_epoch < UNKNOWN_EPOCH:",
    ),
    # Requests whose answer was lost, and watches
    _zookeeper(
        "a request that lost its connection is not sent again",
        CLIENT,
        "                if result.state in ENDED:\n                    answered.set_exception(NoAnswer(result))\n"
        "                else:\n                    send(index)\n",
        "                answered.set_exception(NoAnswer(result))\n",
    ),
    _zookeeper(
        "watches stay behind at the server before",
        SESSION,
        "for frame in set_watches(self._last_zxid, self._watching.registered()):",
        "for frame in ():",
    ),
    _zookeeper(
        "changes between two connections are not told",
        SESSION,
        "for frame in set_watches(self._last_zxid, self._watching.registered()):",
        "for frame in set_watches(1 << 62, self._watching.registered()):",
    ),
    _zookeeper(
        "brokers are watched once",
        BROKERS,
        "names = yield from children(paths.BROKER_IDS, is_watched=True)",
        "names = yield from children(paths.BROKER_IDS, is_watched=not self._context.brokers)",
    ),
    _zookeeper(
        "topics are watched once",
        TOPICS,
        "        names = yield from children(paths.TOPICS, is_watched=True)\n        context = self._context\n",
        "        names = yield from children(paths.TOPICS)\n        context = self._context\n",
    ),
    _zookeeper(
        "requests to brokers are sent once",
        SENDERS,
        "            self._retry = self._scheduler.call_later(RETRY_MS, self._send_next)\n",
        "            self._waiting.popleft()\n"
        "            self._retry = self._scheduler.call_later(RETRY_MS, self._send_next)\n",
    ),
    _zookeeper(
        "notices of configs are watched once",
        HOSTS + "broker/notices.py",
        "GetChildren(self.parent, is_watched=True)",
        "GetChildren(self.parent, is_watched=self._last < 0)",
    ),
    # States of partitions (KAFKA-2729, 14140)
    _zookeeper(
        "the state of a partition is written at any version",
        LEADERSHIP,
        "Set(state_path(each), state.encode(), epoch)",
        "Set(state_path(each), state.encode(), -1)",
    ),
    _zookeeper(
        "a change that somebody was faster with is given up",
        LEADERSHIP,
        "            updated.retried.append(partition)\n",
        '            updated.failed[partition] = StateChangeFailed("it was changed")\n',
    ),
    _zookeeper(
        "a broker that is not there joins the in-sync set",
        ALTER,
        "return set(isr) <= set(reign.context.live_ids)",
        "return bool(isr)",
    ),
    _zookeeper(
        "any replica that lives is elected",
        ELECTIONS,
        "    for leader in live:\n        if leader in state.isr:\n",
        "    for leader in live[::-1]:\n        if leader in live:\n",
    ),
    _zookeeper(
        "an election keeps the leader epoch",
        ELECTIONS,
        "leader_epoch=state.leader_epoch + 1,",
        "leader_epoch=state.leader_epoch,",
    ),
    _zookeeper(
        "a broker that is gone stays in sync",
        REPLICAS,
        "isr=state.isr if len(state.isr) == 1 else without(state.isr, [broker_id]),",
        "isr=state.isr,",
    ),
    _zookeeper(
        "the last replica leaves the in-sync set",
        REPLICAS,
        "isr=state.isr if len(state.isr) == 1 else",
        "isr=state.isr if not state.isr else",
    ),
    _zookeeper(
        "producer ids are taken at any version",
        CONTROLLER + "producer_ids.py",
        "Set(paths.PRODUCER_IDS, block.encode(), znode.stat.version)",
        "Set(paths.PRODUCER_IDS, block.encode(), -1)",
    ),
    # Deletion and reassignment (KAFKA-6612, 8237, 9946)
    _zookeeper(
        "a new controller does not go on with deletions",
        CONTROLLER + "controller.py",
        "        yield from reign.deletion.resume()\n        yield from self.elections.requested()\n",
        "        yield from self.elections.requested()\n",
    ),
    _zookeeper(
        "a deletion does not go on when a broker is back",
        BROKERS,
        "        if topics:\n            yield from reign.deletion.resume_for(sorted(topics))\n",
        "",
    ),
    _zookeeper(
        "the marker of a deletion goes first",
        DELETION,
        "        yield from self._writer.delete_tree(paths.topic(topic))\n",
        "        yield from self._writer.delete_if_there([paths.delete_topic(topic)])\n"
        "        yield from self._writer.delete_tree(paths.topic(topic))\n",
    ),
    _zookeeper(
        "clients are not told of a deletion",
        REQUESTS,
        "                if known is not None:\n                    records.append(translation.removed(known.id))\n",
        "",
    ),
    _zookeeper(
        "a reassignment ends before its replicas are in sync",
        CONTROLLER + "reassignment.py",
        "return found is not None and set(assignment.target) <= set(found.state.isr)",
        "return found is not None",
    ),
    _zookeeper(
        "a broker that is no replica any more does not count while it is in sync",
        "kpybroker/machines/partition/in_sync.py",
        "        ) + tuple(follower for follower in self.leaving if follower.id in isr)\n",
        "        )\n",
    ),
]
