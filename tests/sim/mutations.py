"""Bugs to plant: in which file what text becomes what other. Each is one that somebody could make.

A planted bug is found when a seed fails with it. The texts are held against the sources by a test, so a change of the
code brings its mutations along.

What cannot show is not planted: a quorum's follower that takes gaps (an honest leader sends none, since each fetch
names where the log ends and with which epoch), and an acknowledgement by a later term (requests are decided when a role
ends, before the next begins).
"""

from .beating_mutations import BEATING_MUTATIONS
from .compacted_tier_mutations import COMPACTED_TIER_MUTATIONS
from .flushing_mutations import FLUSHING_MUTATIONS
from .guarded_mutations import GUARDED_MUTATIONS
from .lending_mutations import LENDING_MUTATIONS
from .levelling_mutations import LEVELLING_MUTATIONS
from .mutation import Mutation
from .sharing_mutations import SHARING_MUTATIONS
from .streaming_mutations import STREAMING_MUTATIONS
from .suspicion_mutations import SUSPICION_MUTATIONS
from .tiering_mutations import TIERING_MUTATIONS
from .zookeeper_mutations import ZOOKEEPER_MUTATIONS

QUORUM = "kpybroker/machines/raft/quorum.py"
VOTING = "kpybroker/machines/raft/voting.py"
LEADING = "kpybroker/machines/raft/leading.py"
QUORUM_STATE = "kpybroker/machines/raft/quorum_state.py"
ANSWERING = "kpybroker/machines/raft/answering.py"
LOG_VIEW = "kpybroker/machines/raft/log_view.py"
SHELL = "kpybroker/hosts/quorum/shell.py"
IN_SYNC = "kpybroker/machines/partition/in_sync.py"
LEADER = "kpybroker/machines/partition/leader.py"
FOLLOWER = "kpybroker/machines/partition/follower.py"
ROLE = "kpybroker/machines/partition/role.py"
BROKERS = "kpybroker/machines/controller/brokers.py"
CHANGE = "kpybroker/machines/controller/partition_change.py"
PARTITIONS = "kpybroker/machines/controller/partitions.py"
WAIT = "kpybroker/hosts/replicas/commit_wait.py"
JOURNAL = "kpybroker/machines/journal.py"
PRODUCERS = "storage/kpystorage/producer_states.py"
LOG = "storage/kpystorage/log.py"
CLIENT_READ = "kpybroker/requests/serving/reading/client.py"
END_TRANSACTION = "kpybroker/machines/transactions/end_transaction.py"
MARKERS = "kpybroker/machines/transactions/markers.py"
CHECKPOINT = "storage/kpystorage/checkpoint.py"
VOTER_CHANGES = "kpybroker/machines/raft/voter_changes.py"
SNAPSHOT = "storage/kpystorage/snapshot.py"
SNAPSHOT_WRITER = "kpybroker/hosts/quorum/snapshot_writer.py"
COMMITTED = "kpybroker/hosts/quorum/committed.py"
SESSION = "kpybroker/machines/fetch/session.py"
SESSIONS = "kpybroker/machines/fetch/sessions.py"

MUTATIONS = [
    # The quorum
    Mutation(
        "vote not fsynced",
        "kpybroker/hosts/quorum/metadata_log.py",
        'quorum_state.write(self._disk, f"{self._path}/{QUORUM_STATE}", state)',
        'self._disk.write(f"{self._path}/{QUORUM_STATE}", quorum_state.render(state), synchronize=False)',
    ),
    Mutation(
        "vote said before it is saved",
        QUORUM,
        "may_speak = self._talks.has_words and election is None and self._saving is None",
        "may_speak = self._talks.has_words",
    ),
    Mutation(
        "vote for two candidates of an epoch",
        VOTING,
        "        return election.voted_id == vote.replica.id and same_disk\n",
        "        return is_complete and same_disk\n",
    ),
    Mutation(
        "vote for a log that lacks records",
        VOTING,
        "is_complete = (vote.end.epoch, vote.end.offset) >= (end.epoch, end.offset)",
        "is_complete = True",
    ),
    Mutation(
        "vote compares offsets before epochs",
        VOTING,
        "is_complete = (vote.end.epoch, vote.end.offset) >= (end.epoch, end.offset)",
        "is_complete = (vote.end.offset, vote.end.epoch) >= (end.offset, end.epoch)",
    ),
    Mutation(
        "quorum commits what one follower has",
        LEADING,
        "return sorted(values, reverse=True)[len(values) // 2]",
        "return sorted(values, reverse=True)[0]",
    ),
    Mutation(
        "quorum's leader counts what it has not synced",
        LEADING,
        "leader.synced_offset if voter.id == local_id else",
        "10**9 if voter.id == local_id else",
    ),
    Mutation(
        "quorum commits records of older epochs",
        LEADING,
        "known = leader.epoch_start_offset if leader.high_watermark is None else leader.high_watermark",
        "known = -1 if leader.high_watermark is None else leader.high_watermark",
    ),
    Mutation(
        "quorum's follower fetches before it has synced",
        QUORUM,
        "            if self.log.is_durable:\n                self._talks.ask(leader_id, self._next_fetch())\n",
        "            self._talks.ask(leader_id, self._next_fetch())\n",
    ),
    Mutation(
        "quorum's fetch of another epoch is taken",
        ANSWERING,
        "            return error_codes.FENCED_LEADER_EPOCH\n        if epoch > self.epoch:\n"
        "            return error_codes.UNKNOWN_LEADER_EPOCH\n        return error_codes.NONE if",
        "            return error_codes.NONE\n        return error_codes.NONE if",
    ),
    Mutation(
        "quorum's leader does not see that logs part",
        LOG_VIEW,
        "return None if end.epoch == last_fetched_epoch and offset <= end.offset else end",
        "return None",
    ),
    Mutation(
        "quorum's follower is cut too little",
        LOG_VIEW,
        "return min(end.offset, diverging.offset) if end.epoch == diverging.epoch else end.offset",
        "return max(end.offset, diverging.offset)",
    ),
    Mutation(
        "quorum's candidate needs less than a majority",
        "kpybroker/machines/raft/roles.py",
        "self.needed = len(self.voters) // 2 + 1",
        "self.needed = len(self.voters) // 2",
    ),
    Mutation(
        "quorum's leader never resigns",
        QUORUM,
        "return majority_ms + self.timing.fetch_timeout_ms * 1.5",
        "return NEVER",
    ),
    Mutation(
        "quorum's high watermark runs ahead of the follower's log",
        QUORUM,
        "committed = min(response.high_watermark, self.next_offset)",
        "committed = response.high_watermark + 1",
    ),
    Mutation(
        "metadata flushed without fsync",
        "storage/kpystorage/flush.py",
        "        for descriptor in self.descriptors:\n            descriptor.fsync()\n",
        "",
    ),
    Mutation(
        "nobody is asked before an election",
        QUORUM_STATE,
        "        if votes.is_won:\n            self._stand(now_ms)\n\n    def _stand",
        "        self._stand(now_ms)\n\n    def _stand",
    ),
    Mutation(
        "who hears the leader would vote for another",
        VOTING,
        "return vote.pre_vote and is_complete and not role.has_fetched",
        "return vote.pre_vote and is_complete",
    ),
    # Changes of the voters
    Mutation(
        "voters change before the last change is committed",
        VOTER_CHANGES,
        "if offset is None or offset >= leader.high_watermark:",
        "if offset is None:",
    ),
    Mutation(
        "voters that were cut off the log still vote",
        QUORUM,
        "        self.log.truncate_to(offset)\n        self.history.truncate_to(offset)\n",
        "        self.log.truncate_to(offset)\n",
    ),
    Mutation(
        "the leader counts with the voters that were",
        ANSWERING,
        "            self.history.add_voters(offset, voters)\n",
        "",
    ),
    Mutation(
        "who was voted out leads on",
        ANSWERING,
        "return not self.is_voter and offset is not None and high_watermark is not None and offset < high_watermark",
        "return False",
    ),
    Mutation(
        "a leader that has no vote counts itself",
        LEADING,
        "    if not offsets:\n        return None\n    offset",
        "    offsets += [] if local_id in voters else [leader.synced_offset]\n    offset",
    ),
    # Snapshots
    Mutation(
        "snapshot stands for a record that it lacks",
        SNAPSHOT_WRITER,
        "snapshot = SnapshotId(image.next_offset, image.epoch)",
        "snapshot = SnapshotId(image.next_offset + 1, image.epoch)",
    ),
    Mutation(
        "snapshot has its name before it is synced",
        SNAPSHOT,
        "        self._descriptor.fsync()\n        self._file.release()\n",
        "        self._file.release()\n",
    ),
    Mutation(
        "no node is asked to take a snapshot",
        LOG_VIEW,
        "        if self.snapshot is None or (offset == 0 and self.snapshot.offset == 0):\n            return False\n",
        "        if self.snapshot is None or offset >= 0:\n            return False\n",
    ),
    Mutation(
        "snapshot takes everybody for in sync",
        "kpybroker/machines/metadata/topic.py",
        "            isr=list(self.isr),\n            removing_replicas=list(self.removing_replicas),\n",
        "            isr=list(self.replicas),\n            removing_replicas=list(self.removing_replicas),\n",
    ),
    Mutation(
        "metadata stay as they were when a snapshot comes",
        COMMITTED,
        "        self._loader.replace(image)\n",
        "",
    ),
    # The controller
    Mutation(
        "fenced replica may be in the in-sync set",
        PARTITIONS,
        "if broker is None or not broker.is_active or member.broker_epoch not in (ANY_EPOCH, broker.epoch):",
        "if broker is None:",
    ),
    Mutation(
        "an earlier life may be in the in-sync set",
        PARTITIONS,
        "not broker.is_active or member.broker_epoch not in (ANY_EPOCH, broker.epoch):",
        "not broker.is_active:",
    ),
    Mutation(
        "in-sync set of an older partition epoch is taken",
        PARTITIONS,
        "if wanted.partition_epoch < partition.partition_epoch:",
        "if wanted.partition_epoch < 0:",
    ),
    Mutation(
        "in-sync set of a deposed leader is taken",
        PARTITIONS,
        "    if wanted.leader_epoch < partition.leader_epoch:\n"
        "        return error_codes.FENCED_LEADER_EPOCH\n    if broker_id != partition.leader:\n"
        "        return error_codes.INVALID_REQUEST\n"
        "    if wanted.partition_epoch < partition.partition_epoch:",
        "    if wanted.partition_epoch < 0:",
    ),
    Mutation(
        "any living replica may be elected",
        CHANGE,
        "eligible = replica in self.isr or (not self.isr and replica in self._elr)",
        "eligible = True",
    ),
    Mutation(
        "a fenced broker stays in in-sync sets",
        BROKERS,
        "lambda _topic, _id, partition: broker_id in partition.isr, most=most)",
        "lambda _topic, _id, partition: False, most=most)",
    ),
    Mutation(
        "a silent broker is never fenced",
        BROKERS,
        "session = state.heartbeats.expired(now_ms)",
        "session = None",
    ),
    Mutation(
        "a new incarnation stays in in-sync sets",
        BROKERS,
        "        records += _leave_in_sync_sets(state, message.broker_id, clean=clean)\n",
        "        pass\n",
    ),
    Mutation(
        "answers leave before they are committed",
        JOURNAL,
        "        if next_offset <= self.committed_offset:\n            return None\n        gate = _Gate(next_offset)",
        "        if next_offset <= self.committed_offset or key != ():\n            return None\n"
        "        gate = _Gate(next_offset)",
    ),
    # Leaders and followers
    Mutation(
        "acknowledged before the high watermark",
        WAIT,
        "if leader.high_watermark.offset < each.next_offset:",
        "if leader.high_watermark.offset < each.next_offset - 1:",
    ),
    Mutation(
        "acks=all answered at once",
        "kpybroker/requests/handlers/produce.py",
        "if acks_all and next_offset > leader.high_watermark.offset:",
        "if acks_all and next_offset < 0:",
    ),
    Mutation(
        "acknowledged by who leads no more",
        WAIT,
        "    if leader is None or leader.term != each.term:\n        return error_codes.NOT_LEADER_OR_FOLLOWER",
        "    if leader is None or leader.term != each.term:\n        return error_codes.NONE",
    ),
    Mutation(
        "high watermark counts the leader alone",
        LEADER,
        "self._alone = not self._bounds and not in_sync.is_under_min_isr",
        "self._alone = True",
    ),
    Mutation(
        "in-sync set that was proposed does not count",
        IN_SYNC,
        "return self.isr if pending is None or pending.added is None else pending.isr",
        "return self.isr",
    ),
    Mutation(
        "a shrinking in-sync set counts before it is granted",
        IN_SYNC,
        "return self.isr if pending is None or pending.added is None else pending.isr",
        "return self.isr if pending is None else pending.isr",
    ),
    Mutation(
        "joins the in-sync set without having everything",
        IN_SYNC,
        "if follower is None or follower.log_end.offset < needed_offset:",
        "if follower is None:",
    ),
    Mutation(
        "never leaves the in-sync set",
        IN_SYNC,
        "        if not removed:\n            return None\n        isr",
        "        if removed or not removed:\n            return None\n        isr",
    ),
    Mutation(
        "min.insync.replicas does not matter",
        LEADER,
        "        count = len(in_sync.isr)\n"
        "        return count >= min_insync_replicas or count >= len(in_sync.replicas)",
        "        count = len(in_sync.isr)\n        return count >= 0",
    ),
    Mutation(
        "a fetch's end counts one too many",
        "kpybroker/machines/partition/leader.py",
        "end = log.end if fetch_offset == log.end.offset else LogOffset(fetch_offset)",
        "end = log.end",
    ),
    Mutation(
        "truncate to the high watermark",
        FOLLOWER,
        "        self._truncate(self.agrees_up_to(leader_epoch, end_offset), now_ms)",
        "        self._truncate(self.high_watermark.offset, now_ms)",
    ),
    Mutation(
        "no truncation where logs part",
        "kpybroker/hosts/replicas/feed.py",
        "following.follower.truncate(diverging.epoch, diverging.end_offset, self._parts.scheduler.now_ms())",
        "pass",
    ),
    Mutation(
        "leaders do not see that logs part",
        "kpybroker/machines/replica_fetcher.py",
        "return Reaction.TRUNCATE if answer.diverging_epoch.epoch >= 0 else Reaction.APPEND",
        "return Reaction.APPEND",
    ),
    Mutation(
        "follower asks for one too many",
        FOLLOWER,
        "return _new(NextFetch, (found.end.offset, found.epochs.latest, found.log_start_offset))",
        "return _new(NextFetch, (found.end.offset + 1, found.epochs.latest, found.log_start_offset))",
    ),
    Mutation(
        "follower takes over the high watermark beyond its log",
        FOLLOWER,
        "reached = min(high_watermark, end.offset)",
        "reached = end.offset",
    ),
    Mutation(
        "high watermark forgotten between roles",
        "kpybroker/hosts/replicas/replica.py",
        "            self.checkpointed_high_watermark = role.high_watermark.offset\n",
        "            self.checkpointed_high_watermark = 0\n",
    ),
    Mutation(
        "readers see what is not committed",
        ROLE,
        "        if offset >= end.offset:\n            if offset > log.end.offset:",
        "        end = log.end\n        if offset >= end.offset:\n            if offset > log.end.offset:",
    ),
    Mutation(
        "leader epochs are not fenced",
        ROLE,
        "if epoch == -1 or epoch == self.epoch:",
        "if epoch >= -1:",
    ),
    # Producers and transactions
    Mutation(
        "duplicates are appended",
        PRODUCERS,
        "                if batch.first_sequence == first_sequence and batch.last_sequence == header.last_sequence:\n"
        "                    return batch\n",
        "                continue\n",
    ),
    Mutation(
        "gaps in sequences are taken",
        PRODUCERS,
        "                self._refuse_sequence(state, header)\n        elif epoch != state.epoch:",
        "                return None\n        elif epoch != state.epoch:",
    ),
    Mutation(
        "producers' old epochs are not fenced",
        PRODUCERS,
        "        if header.producer_epoch < state.epoch:\n            raise InvalidProducerEpoch(",
        "        if header.producer_epoch < -5:\n            raise InvalidProducerEpoch(",
    ),
    Mutation(
        "producers are forgotten with a restart",
        PRODUCERS,
        "            state.coordinator_epoch = entry.coordinator_epoch\n",
        "            del self.producers[entry.producer_id]\n"
        "            state.coordinator_epoch = entry.coordinator_epoch\n",
    ),
    Mutation(
        "last stable offset ignores open transactions",
        LOG,
        "if unstable is None or unstable.offset >= high_watermark.offset:",
        "if unstable is None or unstable.offset >= 0:",
    ),
    Mutation(
        "last stable offset off by one",
        LOG,
        "        return unstable if known else self.position_of(max(unstable.offset, start))",
        "        return self.position_of(min(unstable.offset + 1, high_watermark.offset))",
    ),
    Mutation(
        "markers count before they are replicated",
        PRODUCERS,
        "            self._unreplicated[ended.first_offset] = (ended.last_offset, opened[1])\n",
        "            pass\n",
    ),
    Mutation(
        "aborted transactions are not told",
        CLIENT_READ,
        "answer.aborted_transactions = _aborted(role, entry.fetch_offset, records) if records else []",
        "answer.aborted_transactions = []",
    ),
    Mutation(
        "aborts are commits",
        END_TRANSACTION,
        "return TransactionState.PREPARE_COMMIT if message.committed else TransactionState.PREPARE_ABORT",
        "return TransactionState.PREPARE_COMMIT",
    ),
    Mutation(
        "what a load sets off is lost where too few are in sync",
        "kpybroker/hosts/coordinators/hosted_shard.py",
        "                self._miss(event)\n",
        "                pass\n",
    ),
    Mutation(
        "transaction complete before all markers are there",
        MARKERS,
        "    if not unmarked:\n        complete(",
        "    if partitions:\n        complete(",
    ),
    Mutation(
        "markers are not written again after a restart",
        MARKERS,
        "        decision.send_markers(transactional_id, prepared, shard.unmarked[transactional_id])\n",
        "        pass\n",
    ),
    Mutation(
        "end of a transaction by a fenced producer",
        END_TRANSACTION,
        "    if transaction.producer_epoch != message.producer_epoch:\n"
        "        return error_codes.PRODUCER_FENCED\n"
        "    if transaction.state is not TransactionState.ONGOING and message.committed:",
        "    if transaction.state is not TransactionState.ONGOING and message.committed:",
    ),
    # Storage and serving
    Mutation(
        "files are replaced without fsync",
        CHECKPOINT,
        "disk.write(path + TEMPORARY, data, synchronize=True)",
        "disk.write(path + TEMPORARY, data, synchronize=False)",
    ),
    Mutation(
        "flush.messages beside a flush does nothing",
        "storage/kpystorage/flush.py",
        "    under_way, log.flushing = log.flushing, None\n",
        "    under_way, log.flushing = None, log.flushing\n",
        nodes=1,
    ),
    Mutation(
        "what a dead process wrote is not flushed",
        "storage/kpystorage/directory.py",
        "        if log.end.offset - log.recovery_point >= log.config.flush_messages:\n",
        "        if log.end.offset < 0:\n",
        nodes=1,
    ),
    Mutation(
        "a file system that was down is trusted",
        "storage/kpystorage/session.py",
        '"mount": self._disk.mount_id(self._directory),',
        '"mount": "",',
    ),
    Mutation(
        "fetch sessions go on after an answer that was lost",
        SESSIONS,
        "if session.epoch != request.session_epoch:",
        "if session.epoch < 0:",
    ),
    Mutation(
        "fetch sessions do not notice where readers are",
        SESSION,
        "= CachedPartition(self, topic, partition.partition)\n                entry.update(",
        "= CachedPartition(self, topic, partition.partition)\n                    entry.update(",
    ),
    Mutation(
        "the coordinator's no to a partition of a transaction is not heard",
        "kpybroker/requests/serving/transaction_verification.py",
        "            if code:\n                errors[partition] = code\n",
        "            if code < -1:\n                errors[partition] = code\n",
    ),
    Mutation(
        "fetch sessions are not told of changes",
        "kpybroker/machines/fetch/session.py",
        "        session.changed[self] = None\n        if session.wake is not None:\n",
        "        if session.wake is not None:\n",
    ),
    # The brokers that clients see
    Mutation(
        "Metadata forget a broker as soon as it is fenced",
        "kpybroker/requests/handlers/metadata.py",
        "            if broker.is_listed(node.id) and ",
        "            if node.id in broker.alive_brokers and ",
    ),
    Mutation(
        "a node that starts lists only those who are alive",
        "kpybroker/machines/metadata/absences.py",
        "            elif before is not None or is_all_new:\n",
        "            elif before is not None:\n",
    ),
    *GUARDED_MUTATIONS,
    *LENDING_MUTATIONS,
    *BEATING_MUTATIONS,
    *STREAMING_MUTATIONS,
    *SHARING_MUTATIONS,
    *FLUSHING_MUTATIONS,
    *LEVELLING_MUTATIONS,
    *TIERING_MUTATIONS,
    *COMPACTED_TIER_MUTATIONS,
    *SUSPICION_MUTATIONS,
    *ZOOKEEPER_MUTATIONS,
]
