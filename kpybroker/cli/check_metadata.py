"""The check of a node's metadata: snapshots, ``bootstrap.checkpoint``, ``quorum-state``, records (``kpybroker check``).

It also reads their contents, so that everything else in the directories can be compared with them. The metadata log's
segments are checked like those of any partition.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from kpybroker.hosts.quorum.metadata_log import QUORUM_STATE, metadata_log_path
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, InvalidMetadata, MetadataImage
from kpybroker.machines.raft import control_records
from kpybroker.machines.raft.voters import Voters
from kpystorage import names, quorum_state, scan, snapshot
from kpystorage.checking.directory import KnownMetadata
from kpystorage.checking.findings import DAMAGE, NOTE, Finding, Report
from kpystorage.checking.walking import pieces
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpywire.batch import BatchHeader
from kpywire.errors import Malformed, OfNewerVersion
from kpywire.metadata_records import decode_record
from kpywire.record import read_batch
from kpywire.uuid import ZERO_UUID, to_string

NO_EPOCH = -1


class MetadataDirectory(NamedTuple):
    """The contents of a metadata directory."""

    known: KnownMetadata
    voters: Voters | None


class MetadataCheck:
    """The check of the metadata in one log directory. ``report`` receives the findings."""

    def __init__(self, disk: Disk, directory: str, report: Report) -> None:
        self.disk = disk
        self.directory = directory
        self.path = metadata_log_path(directory)
        self.report = report
        self._voters: Voters | None = None

    def damage(self, path: str, text: str, remedy: str = "") -> None:
        self.report(Finding(DAMAGE, path, text, remedy))

    def run(self) -> KnownMetadata:
        """Check everything. Return the description of the cluster, as far as it can be read. May raise OSError."""
        bootstrap = f"{self.directory}/{snapshot.BOOTSTRAP}"
        if self.disk.status(bootstrap) is not None:
            self._checkpoint(bootstrap, 0)
        if self.disk.status(self.path) is None:
            return KnownMetadata()
        whole = [
            each
            for each in snapshot.list_snapshots(self.disk, self.path)
            if self._checkpoint(f"{self.path}/{snapshot.snapshot_name(each)}", each.epoch)
        ]
        known = self._known(whole[-1] if whole else None)
        self._quorum_state()
        return known

    def _checkpoint(self, path: str, epoch: int) -> bool:
        """Check that a file of batches is whole: nothing but batches, offsets from 0 on, header first and footer
        last."""
        file, wrong, offset, kinds = self.disk.file(path), "", 0, []
        size = file.size()
        for piece in pieces(file, size, 0):
            header, at = piece.header, f"byte {piece.position}"
            if header is None or piece.trouble:
                wrong = wrong or f"{at}: {piece.trouble or 'zeros'}"
                continue
            if header.base_offset != offset or header.partition_leader_epoch != epoch:
                place = f"{header.base_offset}, {header.partition_leader_epoch}"
                wrong = wrong or f"{at}: a batch of offset and epoch {place} instead of {offset}, {epoch}"
            offset = header.next_offset
            try:
                kinds += self._kinds(header, bytes(piece.data))
            except Malformed as error:
                wrong = wrong or f"{at}: {error}"
        file.release()
        if not wrong and (not kinds or kinds[-1] != control_records.SNAPSHOT_FOOTER):
            wrong = "it has no footer: it is not whole"
        if wrong:
            self.damage(path, wrong)
        return not wrong

    def _kinds(self, header: BatchHeader, data: bytes) -> list[int]:
        """The kinds of control records in a batch. Other records must be decodable, or of a newer version. Malformed if
        one is not."""
        if not header.is_control:
            for record in read_batch(data, header):
                with suppress(OfNewerVersion):  # noted when the cluster's metadata is read
                    decode_record(record.value or b"")
            return [-1]
        kinds = []
        for record in read_batch(data, header):
            control = control_records.read_control_record(record)
            if control is not None:
                kinds.append(control.type)
                if control.type == control_records.KRAFT_VOTERS:
                    self._voters = control_records.voters_of(control)
        return kinds

    def _known(self, newest: snapshot.SnapshotId | None) -> KnownMetadata:
        image = MetadataImage("")
        delta = MetadataDelta(from_snapshot=True)
        start = 0
        try:
            if newest is not None and newest != snapshot.BOOTSTRAP_ID:
                start = newest.end_offset
                self._apply(image, delta, f"{self.path}/{snapshot.snapshot_name(newest)}", 0)
            for name in sorted(self.disk.list_directory(self.path)):
                parsed = names.parse_segment_file(name)
                if parsed is not None and parsed[1] == names.LOG:
                    self._apply(image, delta, f"{self.path}/{name}", start)
        except OfNewerVersion as error:
            self.report(Finding(NOTE, self.path, f"{error}: the cluster's metadata cannot be compared with the rest"))
            return KnownMetadata()
        except (Malformed, InvalidMetadata) as error:
            self.damage(self.path, f"the cluster's metadata cannot be read: {error}")
            return KnownMetadata()
        return self._as_known(image)

    def _apply(self, image: MetadataImage, delta: MetadataDelta, path: str, start: int) -> None:
        file = self.disk.file(path)
        for _, header, data in scan.batches(file, 0, file.size()):
            if header.base_offset < start:
                continue
            if header.is_control:
                self._kinds(header, bytes(data))
                continue
            for record in read_batch(data, header):
                image.apply(decode_record(record.value or b""), record.offset, delta)
        file.release()

    def _as_known(self, image: MetadataImage) -> KnownMetadata:
        topic_ids = {topic.name: topic.id for topic in image.topics.values()}
        nodes = {*image.brokers, *image.controllers}
        compacted = frozenset(
            name for name in topic_ids if "compact" in image.configs_of(TOPIC_RESOURCE, name).get("cleanup.policy", "")
        )
        if len(nodes) != 1 or not image.brokers:
            return KnownMetadata(topic_ids, compacted=compacted)
        (node_id,) = nodes
        broker = image.brokers[node_id]
        directory_ids = frozenset(broker.directories)
        return KnownMetadata(topic_ids, node_id, directory_ids, broker.epoch, compacted)

    def _quorum_state(self) -> None:
        path = f"{self.path}/{QUORUM_STATE}"
        try:
            data = self.disk.read(path)
            state = quorum_state.parse(data, path)
        except FileNotFoundError:
            return
        except CorruptFile as error:
            self.damage(path, str(error).removeprefix(f"{path}: "))
            return
        reported, right = json.loads(data), json.loads(quorum_state.render(state))
        if set(reported) != set(right) or reported.get("votedDirectoryId") != right.get("votedDirectoryId"):
            self.damage(path, "is not as a broker writes it")
        voters = {*(self._voters or ()), *state.voters}
        for name, node in (("leaderId", state.leader_id), ("votedId", state.voted_id)):
            if voters and node not in {*voters, quorum_state.NO_ID}:
                self.damage(path, f"its {name} is {node}, which is no voter")
        voter = (self._voters or {}).get(state.voted_id)
        if state.voted_directory_id != ZERO_UUID and (voter is None or voter.directory_id != state.voted_directory_id):
            self.damage(path, f"its votedDirectoryId {to_string(state.voted_directory_id)} is not the voter's")

    def compare_epoch(self, last_epoch: int, *, clean: bool) -> None:
        """Compare ``quorum-state`` with the epoch of the log's last batch."""
        path = f"{self.path}/{QUORUM_STATE}"
        try:
            state = quorum_state.read(self.disk, path)
        except CorruptFile:
            return
        if state is None:
            return
        alone = len({*(self._voters or ()), *state.voters}) == 1
        if state.leader_epoch < last_epoch or (clean and alone and state.leader_epoch > last_epoch):
            self.damage(path, f"its leaderEpoch is {state.leader_epoch}, the log's last epoch {last_epoch}")


def is_metadata_directory(directory: str) -> bool:
    """Whether a log directory holds the metadata."""
    return Path(metadata_log_path(directory)).is_dir()
