"""Users with few permissions and small quotas, who try everything, and note what came of it.

They know the metadata from inside, so that they need no permission to find a leader. What they did must be allowed by
ACLs that some node had meanwhile, and what was refused must leave nothing behind. An answer that says how long to wait
holds back the next one on the same connection.
"""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from exactly_once.history import Seen
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

from .acls import ALL, ALLOW, CLUSTER, CLUSTER_NAME, CREATE, DELETE, DESCRIBE, LITERAL, READ, TOPIC, WRITE, Need
from .client import Client, NoAnswer
from .guarding import STOLEN, Guarding, Window
from .identities import GUESTS
from .settling import newest_image

if TYPE_CHECKING:
    from .machine import Machine

TOPICS = {"ga": 1, "gab": 1, "gb": 1}
"""Topics of which the names are prefixes of each other, with the number of their partitions."""
MOST_VALUE_BYTES = 2_000
SLOWEST_CLOCK = 0.96
DENIED = frozenset({error_codes.TOPIC_AUTHORIZATION_FAILED, error_codes.CLUSTER_AUTHORIZATION_FAILED})


class Attempt:
    """A record that somebody wanted to write."""

    def __init__(self, user: str, host: str, needs: list[Need], window: Window) -> None:
        self.user = user
        self.host = host
        self.needs = needs
        self.window = window
        self.code: int | None = None


class Written:
    """All attempts of all guests, by the value."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}

    def verdict(self, log: list[Seen]) -> str:
        """The record that should not be there; nothing if all is well."""
        for seen in log:
            attempt = self.attempts[seen.value.partition(" ")[0]]
            if attempt.code in DENIED:
                return f"{seen} was denied, and it is in the log"
            if not attempt.window.ever_allowed(attempt.user, attempt.host, attempt.needs):
                return f"{seen} is in the log, and no ACL ever allowed it"
        return ""


class Guest:
    """One of them."""

    def __init__(self, client: Client, guarding: Guarding, machines: "list[Machine]", written: Written) -> None:
        self.client = client
        self.user = f"User:{GUESTS[client.name]}"
        self.guarding = guarding
        self.machines = machines
        self.written = written
        self.answers = 0
        """The number of requests that were answered."""
        self._waits: dict[int, tuple[Any, float]] = {}
        """By node: the connection on which an answer said to wait, and the time before which no other comes."""
        self._count = 0

    async def try_everything(self) -> None:
        """For as long as the simulation goes on."""
        client, rng = self.client, self.client.rng
        tries: list[Callable[[], Awaitable[None]]] = [
            *[self._produce] * 6, self._fetch, self._fetch, self._look, self._list_offsets, self._create_topic,
            self._delete_topic, self._steal,
        ]  # fmt: skip
        while not client.is_over:
            await rng.choice(tries)()
            await client.pause(rng.choice((5, 100)))

    # What they try

    async def _produce(self) -> None:
        rng, topic = self.client.rng, self.client.rng.choice(list(TOPICS))
        found = self._leader(topic)
        if found is None:
            return
        node_id, topic_id = found
        self._count += 1
        name = f"{self.client.name}-{self._count}"
        value = f"{name} {'x' * rng.randrange(MOST_VALUE_BYTES)}"
        batch = build_batch([Record(timestamp=self.client.host.now_ms(), value=value.encode())])
        data = PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            acks=rng.choice((0, 1, -1, -1)),
            timeout_ms=1_000,
            topic_data=[TopicProduceData(name=topic, topic_id=topic_id, partition_data=[data])],
        )
        needs = [Need(WRITE, TOPIC, topic)]
        attempt = Attempt(self.user, self.client.name, needs, self.guarding.window())
        self.written.attempts[name] = attempt
        if request.acks == 0:
            try:
                await self.client.tell(node_id, request)
            except NoAnswer:
                self.client.world.tell(f"nobody takes {name}")
            return
        limit = self.guarding.limit_at(node_id, "producer_byte_rate", self.user, self.client.name)
        answer = await self._ask(node_id, request)
        if answer is None:
            return
        code = attempt.code = answer.responses[0].partition_responses[0].error_code
        self._judge(f"write {name} to {topic}", needs, attempt.window, code)
        if code == error_codes.NONE:
            attempt.window.close()
            again = self.guarding.limit_at(node_id, "producer_byte_rate", self.user, self.client.name)
            least_ms = 0.0 if limit is None or limit != again else self.guarding.least_wait_ms(len(batch), limit[1])
            if answer.throttle_time_ms < least_ms:
                reported = f"has to wait {answer.throttle_time_ms} ms, not {least_ms:.0f} ms"
                self._wrong(f"{reported}, after {len(batch)} bytes to n{node_id} with the quota {limit}")

    async def _fetch(self) -> None:
        topic = self.client.rng.choice(list(TOPICS))
        found = self._leader(topic)
        if found is None:
            return
        node_id, topic_id = found
        partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=MOST_VALUE_BYTES)
        request = FetchRequest(
            max_wait_ms=self.client.rng.choice((0, 200)),
            min_bytes=1,
            max_bytes=MOST_VALUE_BYTES,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])],
        )
        window = self.guarding.window()
        answer = await self._ask(node_id, request)
        if answer is None or not answer.responses:
            return
        data = answer.responses[0].partitions[0]
        if data.error_code in DENIED and data.records:
            self._wrong(f"may not read {topic}, and gets its records")
        if data.error_code in DENIED or data.records:
            self._judge(f"read {topic}", [Need(READ, TOPIC, topic)], window, data.error_code)

    async def _look(self) -> None:
        window = self.guarding.window()
        answer = await self._ask(self.client.any_node(), MetadataRequest(topics=None))
        for topic in answer.topics if answer is not None else ():
            self._judge(f"see {topic.name}", [Need(DESCRIBE, TOPIC, topic.name)], window, topic.error_code)

    async def _list_offsets(self) -> None:
        topic = self.client.rng.choice(list(TOPICS))
        found = self._leader(topic)
        if found is None:
            return
        asked = ListOffsetsTopic(name=topic, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        window = self.guarding.window()
        answer = await self._ask(found[0], ListOffsetsRequest(replica_id=-1, topics=[asked]))
        if answer is not None:
            code = answer.topics[0].partitions[0].error_code
            self._judge(f"list offsets of {topic}", [Need(DESCRIBE, TOPIC, topic)], window, code)

    async def _create_topic(self) -> None:
        name = self._own_topic()
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])
        needs = [Need(CREATE, CLUSTER, CLUSTER_NAME), Need(CREATE, TOPIC, name)]
        window = self.guarding.window()
        request = CreateTopicsRequest(topics=[topic], timeout_ms=1_000, validate_only=False)
        answer = await self._ask(self.client.any_node(), request)
        if answer is not None:
            self._judge(f"create {name}", needs, window, answer.topics[0].error_code)

    async def _delete_topic(self) -> None:
        name = self._own_topic()
        needs = [Need(DELETE, CLUSTER, CLUSTER_NAME), Need(DELETE, TOPIC, name)]
        window = self.guarding.window()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=1_000)
        answer = await self._ask(self.client.any_node(), request)
        if answer is None:
            return
        code = answer.responses[0].error_code
        self._judge(f"delete {name}", needs, window, code)

    def _own_topic(self) -> str:
        return f"gx{self.client.name[-1]}{self.client.rng.choice('ab')}"

    async def _steal(self) -> None:
        """Ask for what is never allowed."""
        creation = AclCreation(
            resource_type=TOPIC,
            resource_name="*",
            resource_pattern_type=LITERAL,
            principal=self.user,
            host=STOLEN,
            operation=ALL,
            permission_type=ALLOW,
        )
        entity = [AlterClientQuotasRequestEntityData(entity_type="user", entity_name=STOLEN)]
        entry = AlterClientQuotasRequestEntryData(
            entity=entity, ops=[OpData(key="producer_byte_rate", value=1e9, remove=False)]
        )
        upsertion = ScramCredentialUpsertion(
            name=STOLEN, mechanism=1, iterations=4_096, salt=b"s", salted_password=bytes(32)
        )
        request = self.client.rng.choice(
            (
                CreateAclsRequest(creations=[creation]),
                AlterClientQuotasRequest(entries=[entry], validate_only=False),
                AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]),
            )
        )
        answer = await self._ask(self.client.any_node(), request)
        if answer is not None:
            results = answer.entries if isinstance(request, AlterClientQuotasRequest) else answer.results
            if results[0].error_code == error_codes.NONE:
                self._wrong(f"may do {type(request).__name__}, which nobody ever allowed")

    # Asking

    def _leader(self, topic: str) -> tuple[int, bytes] | None:
        """The leader of the topic's partition, and the topic's id; None if nobody leads."""
        image = newest_image(self.machines)
        found = None if image is None else image.topics.get(topic)
        leader = -1 if found is None else found.partitions[0].leader
        return (leader, found.id) if leader in self.client.nodes else None

    async def _ask(self, node_id: int, request: Any) -> Any:
        """The answer, if there is one in time. None if nobody knows what came of it."""
        client = self.client
        peer, sent_ms = client.peer(node_id), client.world.now_ms
        link, is_muted = peer._link, self.guarding.mutes(node_id)
        try:
            answer = await client.ask(node_id, request)
        except NoAnswer:
            return None
        self.answers += 1
        now_ms = client.world.now_ms
        waits_on, until_ms = self._waits.pop(node_id, (None, 0.0))
        if waits_on is not None and waits_on is link is peer._link and now_ms < until_ms:
            self._wrong(f"was answered by n{node_id} {until_ms - now_ms:.0f} ms before the end of its wait")
        throttle_ms = getattr(answer, "throttle_time_ms", 0)
        is_muted = is_muted and self.guarding.mutes(node_id)
        if throttle_ms > 0 and is_muted and peer._link is not None and (link is None or link is peer._link):
            client.world.tell(f"{client.name} has to wait for n{node_id} {throttle_ms} ms")
            self._waits[node_id] = peer._link, sent_ms + throttle_ms * SLOWEST_CLOCK
        return answer

    def _judge(self, what: str, needs: list[Need], window: Window, code: int) -> None:
        window.close()
        user, host = self.user, self.client.name
        if code in DENIED:
            if not window.ever_denied(user, host, needs):
                self._wrong(f"may not {what}, and the ACLs allowed it all the time")
        elif code == error_codes.NONE and not window.ever_allowed(user, host, needs):
            self._wrong(f"may {what}, and no ACL allowed it")

    def _wrong(self, what: str) -> None:
        self.client.world.violated(f"{self.user} at {self.client.name} {what}")
