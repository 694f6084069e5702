"""The partitions of this node that move between its log directories: begun by AlterReplicaLogDirs, continued after a
start, cancelled (``ReplicaManager.alterReplicaLogDirs``, ``ReplicaAlterLogDirsManager``, ``LogManager``).

A few move at a time, the others wait; all share one throttle. If a move cannot be finished, the partition stays where
it is.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.move import Assignment, Move, MoveParts, keep_common, while_copied
from kpybroker.hosts.replicas.neighbours import Assigning, HeldPartitions
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.throttle import ReplicaThrottle
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.errors import CorruptLog, DiskFailure
from kpystorage.log import Log
from kpywire import error_codes

log = logging.getLogger("kpybroker.hosts.replicas.moves")

THREADS = "num.replica.alter.log.dirs.threads"


class Moves:
    """The moves of this node."""

    def __init__(
        self,
        node_id: int,
        directories: Directories,
        scheduler: Scheduler,
        assignments: Assigning,
        config: Callable[[], BrokerConfig],
    ) -> None:
        self.directories = directories
        self.scheduler = scheduler
        self._node_id = node_id
        self._assignments = assignments
        self._config = config
        self._moves: dict[tuple[str, int], Move] = {}
        self._waiting: deque[Move] = deque()
        self._running: set[Move] = set()
        self._stopped = False
        self._parts = MoveParts(
            self.scheduler,
            self.directories,
            ReplicaThrottle(lambda: config().move_bytes_per_second),
            self._assign,
            self._swap,
            self._give_up,
        )
        self.directories.when_failed(self._went_offline)

    def __iter__(self) -> Iterator[Move]:
        return iter(self._moves.values())

    def of(self, topic: str, index: int) -> Move | None:
        """The move of a partition; None if it does not move."""
        return self._moves.get((topic, index))

    def is_moving(self, topic: str, index: int) -> bool:
        """Whether a partition moves."""
        return (topic, index) in self._moves

    def source_was_cut(self, replica: Replica) -> None:
        """Note that the log of a partition was truncated; if it moves, its copy is too."""
        move = self.of(replica.topic.name, replica.index)
        if move is not None:
            move.source_was_cut()

    def stop(self) -> None:
        """Stop all moves; the next start continues them."""
        self._stopped = True
        for move in self._moves.values():
            move.is_over = True

    # Asked for

    def move(self, held: HeldPartitions, topic: str, index: int, path: str) -> None:
        """Move a partition to the directory ``path``, now or, if it is not in ``held`` yet, once it is.

        Raises:
            KafkaError: there is no such directory, it does not work, takes no new logs, or the partition is not here.
            DiskFailure: a directory failed.
        """
        if len(names.marked_directory(topic, index, 0, names.FUTURE_DIRECTORY, cut=False)) > names.MAX_NAME_CHARS:
            raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, "The topic name is too long.")
        target = self.directories.named(path)
        going = self.of(topic, index)
        if going is not None and going.copy.directory is not target:
            self._call_off(going, "it is wanted elsewhere")
            going = None
        found = self.directories.find(topic, index)
        if found is None:
            self.directories.prefer((topic, index), target)
        replica = held.find(topic, index)
        if replica.offline:
            raise KafkaError(error_codes.KAFKA_STORAGE_ERROR, f"Partition {replica} is offline")
        if replica.log is not None and replica.log.need_files is not None:
            replica.log.need_files()
            raise KafkaError(error_codes.REPLICA_NOT_AVAILABLE, f"The files of {replica} are being made")
        source = held.open_log(replica)
        if source.directory is target or going is not None:
            return
        if self.directories.failed_paths:
            raise KafkaError(
                error_codes.KAFKA_STORAGE_ERROR,
                f"Can not create log for {replica} because log directories {','.join(self.directories.failed_paths)} "
                "are offline",
            )
        self._begin(Move(replica, source, self._new_copy(replica, source, target), self._parts))

    def _new_copy(self, replica: Replica, source: Log, target: LogDirectory) -> Log:
        config = while_copied(replica.topic.config.log())
        return target.create_future_log(source, replica.topic.id, config, self.scheduler.now_ms())

    def _begin(self, move: Move) -> None:
        log.info("Moving %s", move)
        if move.source.is_open and move.source.stop_compacting is not None:
            move.source.stop_compacting()
        self._moves[move.source.topic, move.source.partition] = move
        self._waiting.append(move)
        self.scheduler.call_soon(self._start_some)

    def _start_some(self) -> None:
        at_once = self._config()[THREADS] or len(self.directories.working)
        while self._waiting and len(self._running) < at_once and not self._stopped:
            move = self._waiting.popleft()
            if not move.is_over:
                self._running.add(move)
                move.step()

    # Found at the start

    def resume(self, image: MetadataImage, held: HeldPartitions) -> None:
        """Continue the moves of held partitions that the last stop interrupted, once the first metadata are there."""
        for directory in list(self.directories):
            for copy in list(directory.future_logs.values()):
                try:
                    self._resume(image, held, directory, copy)
                except DiskFailure as failure:
                    self.directories.check(failure)
                except KafkaError as error:
                    log.warning("The move of %s to %s does not continue: %s", copy.name, directory.path, error)

    def _resume(self, image: MetadataImage, held: HeldPartitions, directory: LogDirectory, copy: Log) -> None:
        topic = image.topics.get(copy.topic)
        held_topic = None if topic is None else held.topic(topic.id)
        replica = None if held_topic is None else held_topic.replicas.get(copy.partition)
        try:
            topic_id = directory.read_topic_id(copy)
        except CorruptLog:
            topic_id = None
        if topic is None or replica is None or topic_id not in (None, topic.id):
            self.directories.set_aside(copy)
            return
        source = self.directories.find_of_topic(copy.topic, copy.partition, topic.id)
        if source is None and topic_id is not None:
            self._recover_abandoned(replica, copy, topic.id)
        elif source is None or source.directory is directory or self.of(copy.topic, copy.partition) is not None:
            self.directories.delete(copy, 0)
        else:
            source.open()
            if topic_id is None:  # the machine died before that was on disk
                self.directories.delete(copy, 0)
                copy = self._new_copy(replica, source, directory)
            self._begin(self._resumed(replica, source, copy))

    def _resumed(self, replica: Replica, source: Log, copy: Log) -> Move:
        directory = copy.directory
        try:
            copy.open()
            copy.configure(while_copied(replica.topic.config.log()))
            keep_common(copy, source, self.scheduler.now_ms())
        except CorruptLog as damage:
            log.warning("%s. A new copy is made", damage)
            self.directories.delete(copy, 0)
            copy = self._new_copy(replica, source, directory)
        return Move(replica, source, copy, self._parts)

    def _recover_abandoned(self, replica: Replica, copy: Log, topic_id: bytes) -> None:
        """Recover from a copy whose log is gone.

        If the log's directory failed, the copy is used only if the controller knows that it had caught up
        (``LogManager.recoverAbandonedFutureLogs``). Otherwise the log was lost when the machine died, and the copy is
        used.
        """
        directory = copy.directory
        caught_up = replica.partition.directory_of(self._node_id) == self.directories.ids[directory]
        if self.directories.failed_paths and not caught_up:
            log.error("%s was moving to %s, and the log that it was copied from is missing", copy.name, directory.path)
            return
        copy.topic_id = topic_id
        directory.promote(copy.open())
        copy.configure(replica.topic.config.log())
        log.warning(
            "%s ends at offset %d in %s: the log that it was copied from was lost during the move, so the last records "
            "may be missing",
            copy.name,
            copy.log_end_offset,
            directory.path,
        )

    # What a move asks for

    def _assign(self, move: Move) -> None:
        place = (move.replica.topic.id, move.replica.index)
        self._assignments.assign(*place, self.directories.ids[move.copy.directory], then=move.assigned)

    def _swap(self, move: Move) -> None:
        source, copy, replica = move.source, move.copy, move.replica
        target, key = copy.directory, (source.topic, source.partition)
        target.promote(copy)
        self._forget(move)
        copy.configure(replica.topic.config.log())
        if key in source.directory.high_watermarks:
            target.high_watermarks[key] = source.directory.high_watermarks[key]
        if key in source.directory.cleaner_offsets:  # nothing was compacted since the move began
            target.cleaner_offsets[key] = source.directory.cleaner_offsets[key]
        role = replica.role
        if role is not None and role.log is source:
            role.relocate(copy)
        log.info("Moved %s", move)
        self.directories.delete(source, replica.topic.config.file_delete_delay_ms)

    def _give_up(self, move: Move, reason: str) -> None:
        log.error("%s stays in %s: %s", move.source.name, move.source.directory.path, reason)
        self._undo(move)

    # Called off

    def forget(self, topic: str, index: int) -> None:
        """End the move of a partition that is gone from this node."""
        move = self.of(topic, index)
        if move is not None:
            self._forget(move)
            self._delete(move.copy)

    def _call_off(self, move: Move, reason: str) -> None:
        log.info("The move of %s is cancelled: %s", move, reason)
        self._undo(move)

    def _undo(self, move: Move) -> None:
        """Leave the partition where it is: delete the copy, and correct the controller if it knows the new
        directory."""
        self._forget(move)
        if move.assignment is not Assignment.NOT_ASKED:
            lies_in = self.directories.ids[move.source.directory]
            self._assignments.assign(move.replica.topic.id, move.replica.index, lies_in)
        self._delete(move.copy)

    def _delete(self, copy: Log) -> None:
        if copy.directory.failure is None:
            self.directories.delete(copy, copy.config.file_delete_delay_ms)

    def _forget(self, move: Move) -> None:
        move.is_over = True
        self._moves.pop((move.source.topic, move.source.partition), None)
        self._running.discard(move)
        self.scheduler.call_soon(self._start_some)

    def _went_offline(self, directory: LogDirectory) -> None:
        for move in list(self._moves.values()):
            if directory is move.copy.directory:
                self._give_up(move, f"{directory.path}, where it was moving, is offline")
            elif directory is move.source.directory:
                log.error(
                    "%s does not move to %s: its directory is offline", move.source.name, move.copy.directory.path
                )
                self._forget(move)
