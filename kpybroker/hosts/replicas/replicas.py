"""All partitions this node holds, kept in step with the committed metadata.

`Replicas.apply` is called with every committed change. It adds new partitions, moves roles on to new epochs, applies
changed topic configs, and drops deleted topics, whose directories are renamed first and emptied later.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.config.topic import TopicConfig
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.losses import LostRecords
from kpybroker.hosts.replicas.neighbours import Neighbours
from kpybroker.hosts.replicas.new_logs import NewLogs
from kpybroker.hosts.replicas.replica import HeldTopic, Replica
from kpybroker.hosts.replicas.tiering import NoTiering, Tiering
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.session import CachedPartition
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.metadata.topic import NO_LEADER, Partition, Topic
from kpybroker.machines.metadata.topic_name import INTERNAL, NEVER_TIERED
from kpybroker.machines.partition.in_sync import UNKNOWN_OFFSET, Rules
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptLog, DiskFailure, NotMade, StorageError
from kpystorage.log import Log
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.hosts.replicas.unmade_logs import UnmadeLogs
    from kpystorage.unmade import LogStart

log = logging.getLogger("kpybroker.replicas")

TIERED: Final = "remote.storage.enable"
NOT_MADE_MS: Final = 100
"""The pause while the files of a log are made."""
TopicConfigOf = Callable[[Mapping[str, str]], TopicConfig]


class FollowerFetch(NamedTuple):
    """The time of a fetch, and the longest time for which its answer may wait."""

    at_ms: float
    max_wait_ms: int


class Replicas:
    """The partitions of this node, by topic name and by topic id."""

    def __init__(
        self,
        node_id: int,
        directories: Directories,
        scheduler: Scheduler,
        topic_config: TopicConfigOf,
        rules: Rules,
        neighbours: Neighbours,
        tiering: Tiering | None = None,
    ) -> None:
        """``topic_config`` makes a topic's configuration from its overrides. By ``rules`` all leaders here decide which
        followers are in sync."""
        self.node_id = node_id
        self.directories = directories
        self.scheduler = scheduler
        self.topic_config = topic_config
        self.rules = rules
        self._assignments, self._moves, self._fetchers = neighbours
        self._tiering = NoTiering() if tiering is None else tiering
        self.bytes_to_followers = 0
        """Bytes sent to followers."""
        self.follower_fetches: dict[int, FollowerFetch] = {}
        """The last fetch of each broker that follows this one."""
        self.topics: dict[str, HeldTopic] = {}
        self.by_id: dict[bytes, HeldTopic] = {}
        self._new_logs = NewLogs(directories, scheduler, self._directory_for, self._take_up)
        self._unmade: UnmadeLogs | None = None
        self._is_dropping = False
        self._leaving: dict[str, dict[int, Replica]] = {}
        """Partitions of deleted topics whose logs are not taken out of use yet."""
        self._image: MetadataImage | None = None
        self._losses = LostRecords(scheduler, node_id, self._assignments, directories.ids, self._follow)
        directories.when_failed(self._went_offline)

    # Looking up

    def topic(self, key: str | bytes) -> HeldTopic | None:
        """A topic by its name or id; None if this node holds no partition of it."""
        return self.by_id.get(key) if isinstance(key, bytes) else self.topics.get(key)

    def find(self, topic: str | bytes, index: int) -> Replica:
        """A partition by topic name or id; raises KafkaError when the cluster or this node does not have it."""
        held = self.topic(topic)
        if held is not None:
            replica = held.replicas.get(index)
            if replica is not None:
                return replica
        image = self._image
        known = None
        if image is not None:
            known = image.topics.get(topic) if isinstance(topic, str) else image.topics_by_id.get(topic)
        if known is not None and index in known.partitions:
            raise KafkaError(error_codes.NOT_LEADER_OR_FOLLOWER)
        if known is None and isinstance(topic, bytes):
            raise KafkaError(error_codes.UNKNOWN_TOPIC_ID)
        raise KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION)

    def find_for(self, entry: CachedPartition) -> Replica:
        """The partition of a fetch session's entry that has no replica yet, or one that is gone. Raises KafkaError."""
        if entry.replica is not None:
            entry.unwatch()
        try:
            replica = self.find(entry.topic, entry.index)
        except KafkaError as error:
            if entry.name is not None and error.code == error_codes.UNKNOWN_TOPIC_ID:
                # A topic id that is no longer known: Kafka looks for another topic of its name.
                held = self.topics.get(entry.name)
                there = held is not None and entry.index in held.replicas
                code = error_codes.INCONSISTENT_TOPIC_ID if there else error_codes.UNKNOWN_TOPIC_OR_PARTITION
                raise KafkaError(code) from None
            raise
        entry.replica, entry.name = replica, replica.topic.name
        return replica

    def __iter__(self) -> Iterator[Replica]:
        for topic in self.topics.values():
            yield from topic.replicas.values()

    # Following the metadata

    def begin_without_metadata(self, image: MetadataImage) -> None:
        """Begin with metadata that do not name the partitions of this node yet: orders of a controller will, one after
        the other (ZooKeeper mode). So no log on the disk is set aside."""
        self._image, self.rules.brokers = image, image.brokers
        self.directories.remove_leftovers()

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change."""
        first, self._image = self._image is None, image
        self.rules.brokers = image.brokers
        if first:
            self.directories.deleted_topics = dict(delta.removed_topics)
            self.directories.keep_one_of_each(self._assigned_directory, self._topic_id)
        for topic in delta.deleted_topics.values():
            self._drop(topic)
        for topic_id, partitions in delta.partitions.items():
            topic = image.topics_by_id[topic_id]
            for index in partitions:
                self._hold(image, topic, index, topic.partitions[index])
        if delta.brokers:
            self._fetchers.brokers_changed()
        for resource_type, name in delta.configs:
            if resource_type == TOPIC_RESOURCE and name in self.topics:
                self.configure(self.topics[name], image.configs_of(TOPIC_RESOURCE, name))
        if first:
            self._moves.resume(image, self)
            self.directories.set_strays_aside({(r.topic.name, r.index) for r in self})
            for replica in self:  # the last life may have ended before it heard of it
                found = self.find_log(replica)
                if found is not None:
                    self._tell_place(replica, found)

    def _topic_id(self, topic: str) -> bytes | None:
        known = None if self._image is None else self._image.topics.get(topic)
        return None if known is None else known.id

    def _tell_place(self, replica: Replica, found: Log) -> None:
        """Report a log's directory to the controller, unless the log is about to move."""
        topic, lies_in = replica.topic, self.directories.ids[found.directory]
        is_moving = self._moves.is_moving(topic.name, replica.index)
        if not is_moving and replica.partition.directory_of(self.node_id) != lies_in:
            self._assignments.assign(topic.id, replica.index, lies_in)

    def _assigned_directory(self, topic: str, index: int) -> bytes | None:
        """The directory of this node's replica in the metadata; None for a partition that it should not have."""
        known = None if self._image is None else self._image.topics.get(topic)
        partition = None if known is None else known.partitions.get(index)
        held = partition is not None and self.node_id in partition.replicas
        return partition.directory_of(self.node_id) if partition is not None and held else None

    def _hold(self, image: MetadataImage, topic: Topic, index: int, partition: Partition) -> None:
        held = self.by_id.get(topic.id)
        if self.node_id not in partition.replicas:
            if held is not None and index in held.replicas:
                self._forget(held.replicas.pop(index))
            return
        if held is None:
            config = self._config_of(topic.name, image.configs_of(TOPIC_RESOURCE, topic.name))
            held = HeldTopic(topic.name, topic.id, config, config.validation(is_internal=topic.name in INTERNAL))
            self.topics[topic.name] = self.by_id[topic.id] = held
        replica = held.replicas.get(index)
        if replica is not None:
            replica.update(partition)
            self._follow(replica)
            is_new_leader = replica.is_led_here and replica.role is None
            if is_new_leader and self._may_begin_in_store(replica) and self.find_log(replica) is None:
                self._make(replica)
            return
        replica = held.replicas[index] = Replica(
            held,
            index,
            partition,
            self.node_id,
            self.open_log,
            monotonic_ms=self.scheduler.monotonic_ms,
            rules=self.rules,
        )
        if topic.name in self._leaving or self.find_log(replica) is None:
            self._make(replica)
        else:
            self._follow(replica)

    def _make(self, replica: Replica) -> None:
        """Have the log of a new partition made, unless it may begin behind what a store has: not before that is known,
        and its directory is reported meanwhile."""
        is_led, is_waiting = replica.is_led_here, False
        if self._may_begin_in_store(replica) and (is_led or replica.partition.leader == NO_LEADER):
            try:
                is_waiting = not is_led or self._tiering.beginning(replica) is not None
            except KafkaError:
                is_waiting = True
        directory = self._new_logs.place(replica) if is_waiting else None
        if directory is None:
            self._new_logs.add(replica)
        elif replica.partition.directory_of(self.node_id) != self.directories.ids[directory]:
            self._assignments.assign(replica.topic.id, replica.index, self.directories.ids[directory])

    def _may_begin_in_store(self, replica: Replica) -> bool:
        topic = replica.topic
        return topic.config.tier is not None and not topic.config.is_fed and topic.name not in self._leaving

    def _take_up(self, replica: Replica) -> None:
        """Take up a new partition."""
        replica.held()
        self._follow(replica)

    def _follow(self, replica: Replica) -> None:
        """Have the partition fetched from its leader, if it has one on another broker."""
        if replica.is_here and replica.partition.leader not in (self.node_id, NO_LEADER):
            self._fetchers.follow(replica)
        else:
            self._fetchers.forget(replica)

    def log_start_moved(self, replica: Replica) -> None:
        """Report a partition's new log start to its readers and to its leader."""
        replica.log_start_moved()
        self._fetchers.log_start_moved(replica)

    def move_log_start(self, replica: Replica, offset: int, moved: Callable[[], object] = bool) -> None:
        """Move the start of the log that this node leads to ``offset``, once that is on disk; then call ``moved``. A
        log that is closed or gone by then stays as it is."""
        leader = replica.leader
        if leader is None or offset <= leader.log.log_start_offset:
            moved()
            return
        found = leader.log
        try:
            found.directory.promise_log_start(found, offset)
        except NotMade:
            self.scheduler.call_later(NOT_MADE_MS, self.move_log_start, replica, offset, moved)
            return

        def written() -> None:
            may_move = found.directory.failure is None and found.is_open and not replica.gone
            if may_move and found.advance_log_start(offset):
                replica.log_start_moved()
            moved()

        content = found.directory.render_log_starts()
        self.directories.write_checkpoint(found.directory, names.LOG_STARTS, content, written)

    def configure(self, held: HeldTopic, overrides: Mapping[str, str]) -> None:
        """Apply a change of a topic's configuration, or of a default below it."""
        held.config = self._config_of(held.name, overrides)
        held.validation = held.config.validation(is_internal=held.is_internal)
        held.is_guarded = held.is_internal or held.config.is_mirror
        changed = held.config.log()
        for replica in held.replicas.values():
            found = self.log_of(replica)
            if found is not None:
                if found.need_files is not None and not changed.is_tiered:
                    found.need_files()  # from now on nothing else knows where it begins
                found.configure(changed)
            self._fetchers.configured(replica)
            leader = replica.leader
            if leader is not None and leader.is_fed != held.config.is_fed:
                if held.config.is_fed:
                    leader.begin_feed()
                else:
                    leader.end_feed()
            if leader is not None and leader.require_in_sync(
                held.config.min_insync_replicas, self.scheduler.monotonic_ms()
            ):
                replica.changed()

    def _config_of(self, name: str, overrides: Mapping[str, str]) -> TopicConfig:
        """The configuration of a topic. Kafka's own topics are not tiered, whatever is set (``isRemoteLogEnabled``)."""
        if name in NEVER_TIERED and TIERED in overrides:
            overrides = {key: value for key, value in overrides.items() if key != TIERED}
        return self.topic_config(overrides)

    def configure_all(self) -> None:
        """Apply a change of the broker's defaults for topics."""
        if self._image is not None:
            for held in self.topics.values():
                self.configure(held, self._image.configs_of(TOPIC_RESOURCE, held.name))

    def _drop(self, topic: Topic) -> None:
        """Remove a deleted topic, so that its partitions are not found any more; their logs are taken out of use soon,
        some a turn."""
        held = self.by_id.pop(topic.id, None)
        if held is None:
            return
        if self.topics.get(topic.name) is held:
            del self.topics[topic.name]
        for replica in held.replicas.values():
            if replica.watchers or replica.notified or replica.commit_waits:
                replica.forget()
            else:
                replica.gone, replica.leader, replica.follower = True, None, None
            self._follow(replica)
        for earlier in self._leaving.get(topic.name, {}).copy():
            self._forget_leaving(topic.name, earlier)
        self._leaving[topic.name], held.replicas = held.replicas, {}  # they hold their topic
        log.info("Deleting topic %s with %d logs", topic.name, len(self._leaving[topic.name]))
        if not self._is_dropping:
            self._is_dropping = True
            self.scheduler.in_pieces(self._drop_in_pieces())

    def _drop_in_pieces(self) -> Iterator[None]:
        try:
            while self._leaving:
                name, replicas = next(iter(self._leaving.items()))
                while replicas:
                    self._forget_leaving(name, next(iter(replicas)))
                    yield
                if self._leaving.get(name) is replicas:
                    del self._leaving[name]
        finally:
            self._is_dropping = False

    def stop(self) -> None:
        """Make no more logs, and leave pending removals to the next start: the node stops."""
        self._new_logs.stop()
        if self._unmade is not None:
            self._unmade.stop()
        self.directories.stop()

    def finish_dropping(self) -> None:
        """Take the logs of all deleted topics out of use now: before the node stops."""
        for _ in self._drop_in_pieces():
            pass

    def _forget_leaving(self, name: str, index: int) -> None:
        """Take the log of a deleted topic's partition out of use, if that was not done yet."""
        replica = self._leaving.get(name, {}).pop(index, None)
        if replica is not None:
            self._forget(replica)

    def _forget(self, replica: Replica) -> None:
        self._moves.forget(replica.topic.name, replica.index)
        found = self.find_log(replica)
        if found is None:
            self._new_logs.forget(replica)
        if not replica.gone:
            replica.forget()
            self._follow(replica)
        if found is not None:
            self.directories.delete(found, replica.topic.config.file_delete_delay_ms)
            log.debug("Deleted the log of %s", replica)

    # Logs

    def find_log(self, replica: Replica) -> Log | None:
        """The log of a replica as it is on disk, opened or not."""
        return self.directories.find(replica.topic.name, replica.index)

    def log_of(self, replica: Replica) -> Log | None:
        """The log of a replica, opened or not. It may have no files yet."""
        return self.find_log(replica) or replica.log

    def is_known_empty(self, replica: Replica) -> bool:
        """Whether a log never held a record. Nothing is opened for it: False if that would be needed to know."""
        found = self.log_of(replica)
        if found is None:
            # It may be in a directory that does not work.
            return not self.directories.failed_paths
        if found.is_open:
            return found.log_end_offset == 0
        try:
            first = found.directory.disk.status(f"{found.path}/{names.segment_file(0, names.LOG)}")
        except OSError:
            return False
        recovered_to = found.directory.recovery_points.get((found.topic, found.partition), 0)
        return first is not None and first.size == 0 and recovered_to == 0

    def open_log(self, replica: Replica) -> Log:
        """The log of a replica, made if it is missing. KafkaError while another replica is about to lead, or while it
        is not known where the log of a tiered topic begins that lost its disk."""
        topic = replica.topic
        self._forget_leaving(topic.name, replica.index)  # of an earlier topic of this name
        found = self.directories.find_of_topic(topic.name, replica.index, topic.id)
        if found is None:
            found = self._new_log(replica)
        else:
            found.configure(topic.config.log())
            try:
                found.open()
            except CorruptLog:
                self._losses.refused(replica)
                raise
            self._losses.check(replica, found)
        self._tell_place(replica, found)
        if replica.checkpointed_high_watermark == UNKNOWN_OFFSET:
            # Later on the file may tell of what has been cut since it was written.
            checkpointed = found.directory.high_watermarks.get((topic.name, replica.index), 0)
            replica.checkpointed_high_watermark = checkpointed
        if topic.config.tier is not None and replica.partition.leader == self.node_id:
            self._tiering.check_beginning(replica, found)
        return found

    def _new_log(self, replica: Replica) -> Log:
        topic, config, now_ms = replica.topic, replica.topic.config.log(), self.scheduler.now_ms()
        is_in_question = replica.is_led_here and self._may_begin_in_store(replica)
        start = self._tiering.beginning(replica) if is_in_question else None
        directory, blank = self._new_logs.take(replica)
        if directory is None or directory.failure is not None:
            directory, blank = self._directory_for(replica), None
        if start is None:
            return directory.create_log(topic.name, replica.index, topic.id, config, now_ms, blank)
        if blank is not None:
            self.directories.remove_later(directory, blank, 0)
        return self._begin_unmade(replica, Log(directory, topic.name, replica.index, topic.id, config), start)

    def _begin_unmade(self, replica: Replica, found: Log, start: "LogStart") -> Log:
        """Have a log begin that gets its files later. Most nodes never need the modules for it."""
        from kpybroker.hosts.replicas.unmade_logs import UnmadeLogs
        from kpystorage.unmade import begin_unmade

        if self._unmade is None:
            self._unmade = UnmadeLogs(self.directories, self.scheduler)
        begin_unmade(found, start, self.scheduler.now_ms(), partial(self._unmade.need, replica))
        self._unmade.add(replica, found)
        return found

    def _directory_for(self, replica: Replica) -> LogDirectory:
        assigned = replica.partition.directory_of(self.node_id)
        return self.directories.for_new_log(replica.topic.name, replica.index, assigned)

    # Failing directories

    def directory_failed(self, failure: DiskFailure) -> None:
        """Handle a failure that a log raised: its directory is offline then, unless only that log is damaged."""
        self.directories.check(failure)

    def code_of(self, error: KafkaError | StorageError) -> int:
        """The error code of a use of a log that failed. A failed disk takes its directory offline."""
        if isinstance(error, KafkaError):
            return error.code
        if isinstance(error, DiskFailure):
            self.directory_failed(error)
        return error.error_code

    def _went_offline(self, directory: LogDirectory) -> None:
        for replica in self:
            # Of one that has just moved away from there the log is found elsewhere.
            was_here = (replica.topic.name, replica.index) in directory.logs and self.find_log(replica) is None
            unmade = replica.log if replica.log is not None and replica.log.need_files is not None else None
            if was_here or (unmade is not None and unmade.directory is directory):
                replica.fail()
                self._follow(replica)

    def checkpoint_high_watermarks(self) -> None:
        """Update the high watermarks that the directories will write to their checkpoints."""
        for replica in self:
            role = replica.role
            if role is not None and role.log.need_files is None:
                key = (replica.topic.name, replica.index)
                role.log.directory.high_watermarks[key] = role.high_watermark.offset
