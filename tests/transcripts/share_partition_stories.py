"""A share partition, as stories play it: the records that the members of one group get, and what they make of them.

Its log has ten batches of ten records. A write of the state ends where a story says ``stored`` or ``not-stored``.
"""

from collections.abc import Mapping
from typing import Any

from rendering import Changes, Input, Play, StoryError
from share_coordinator_stories import DELIVERY_STATES
from share_partition_world import SharePartitionWorld

from kpybroker.machines.share.acknowledging import ACCEPT, GAP, REJECT, RELEASE, RENEW, Acknowledgement
from kpybroker.machines.share.acquiring import AcquireRequest, LogBatch
from kpybroker.machines.share.partition import ShareSettings, StateWrite, StoredStateBatch
from kpywire import error_codes

BATCH_RECORDS = 10
TYPES = {"gap": GAP, "accept": ACCEPT, "release": RELEASE, "reject": REJECT, "renew": RENEW}
READ_BATCHES = 3


class SharePartitionStory:
    """One group at one partition that it begins to read at offset 0."""

    def __init__(self) -> None:
        self.changes = Changes()
        log = [LogBatch(first, first + BATCH_RECORDS - 1) for first in range(0, 10 * BATCH_RECORDS, BATCH_RECORDS)]
        self.world = SharePartitionWorld(ShareSettings(), log)
        self.world.load(0, [])
        self._written = 0
        self.changes.lines(self._states())

    @property
    def inputs(self) -> Mapping[str, Play]:
        return {
            "settings": self.set,
            "load": self.load,
            "acquire": self.acquire,
            "acknowledge": self.acknowledge,
            "release-all": self.release_all,
            "stored": self.stored,
            "not-stored": self.not_stored,
            "locks": self.locks,
            "log-starts-at": self.log_starts_at,
        }

    # Inputs.

    def set(self, given: Input) -> list[str]:
        values: dict[str, Any] = {name: given.number(name, 0) for name in list(given.fields)}
        self.world.partition.settings = self.world.partition.settings._replace(**values)
        return []

    def load(self, given: Input) -> list[str]:
        """Another leader takes over the stored state: ``batches=0-4:ARCHIVED:1``."""
        stored = []
        for text in given.texts("batches"):
            offsets, state, count = text.split(":")
            first, last = map(int, offsets.split("-"))
            number = next(number for number, name in DELIVERY_STATES.items() if name == state)
            stored.append(StoredStateBatch(first, last, number, int(count)))
        self.world = SharePartitionWorld(self.world.partition.settings, self.world.log)
        self.world.load(given.number("start_offset", 0), stored)
        self._written = 0
        return self._outcome()

    def acquire(self, given: Input) -> list[str]:
        """A ShareFetch of a member. ``strict=true`` is ``share.acquire.mode=record_limit`` (KIP-1206)."""
        self.world.now_ms = given.now_ms
        wanted = AcquireRequest(
            given.text("member"), given.number("max_records", 500), 500, is_limit=given.flag("strict")
        )
        offset, read, acquired = self.world.acquire(wanted, READ_BATCHES)
        found = f"[{read[0].base_offset}, {read[-1].last_offset + 1})" if read else "nothing"
        lines = [f"* reads {found} from {offset} on"]
        lines += [
            f"= AcquiredRecords to {wanted.member_id}: first_offset={each.first_offset} last_offset={each.last_offset} "
            f"delivery_count={each.delivery_count}"
            for each in acquired
        ]
        return lines + self._outcome()

    def acknowledge(self, given: Input) -> list[str]:
        """``offsets=0-9 as=accept``, or one type for each offset: ``as=accept,reject``."""
        self.world.now_ms = given.now_ms
        member, offsets = given.text("member"), given.text("offsets")
        first, _, last = offsets.partition("-")
        types = given.texts("as", "accept")
        if not TYPES.keys() >= set(types):
            raise StoryError(f"{given.line!r}: an acknowledgement is {', '.join(TYPES)}")
        batch = Acknowledgement(int(first), int(last or first), [TYPES[each] for each in types])
        code = self.world.acknowledge(member, batch)
        return [f"= ShareAcknowledge to {member}: error_code={error_codes.name(code)}", *self._outcome()]

    def release_all(self, given: Input) -> list[str]:
        """The session of a member ends."""
        self.world.release(given.text("member"))
        return self._outcome()

    def stored(self, _: Input) -> list[str]:
        """The share coordinator has the oldest state."""
        self.world.store(is_stored=True)
        return self._outcome()

    def not_stored(self, _: Input) -> list[str]:
        """The oldest state could not be written."""
        self.world.store(is_stored=False)
        return self._outcome()

    def locks(self, given: Input) -> list[str]:
        """Acquisitions whose time is over end."""
        self.world.wait(given.now_ms)
        return self._outcome()

    def log_starts_at(self, given: Input) -> list[str]:
        """Retention or DeleteRecords cut the log."""
        self.world.log_starts_at(int(given.word()))
        return self._outcome()

    # What comes out.

    def _outcome(self) -> list[str]:
        lines = [line for write in self.world.written[self._written :] for line in written(write)]
        self._written = len(self.world.written)
        return lines + self.changes.lines(self._states())

    def _states(self) -> dict[Any, str]:
        """The records in flight, those that are alike in one line, and the offsets that bound them."""
        alike: list[tuple[int, int, str]] = []
        for batch in self.world.partition:
            for first, last, state in batch.all_ranges:
                words = [DELIVERY_STATES[state.state], f"{state.delivery_count}x"]
                words += [f"by {state.member_id}"] if state.member_id else []
                words += ["until it is stored"] if state.is_changing else []
                text = " ".join(words)
                if alike and alike[-1][1:] == (first - 1, text):
                    first, _, _ = alike.pop()
                alike.append((first, last, text))
        states: dict[Any, str] = {(first, last): f"offsets {first}-{last}: {text}" for first, last, text in alike}
        deadline_ms = self.world.partition.next_deadline_ms()
        states["start"] = f"start_offset={self.world.partition.start_offset}"
        states["locks"] = "no locks" if deadline_ms is None else f"locks at {deadline_ms} ms"
        return states


def written(write: StateWrite) -> list[str]:
    """A state that is sent to the share coordinator."""
    head = (
        f"+ WriteShareGroupState state_epoch={write.state_epoch} leader_epoch={write.leader_epoch} "
        f"start_offset={write.start_offset} delivery_complete_count={write.delivery_complete_count}"
    )
    batches = [
        f"    state_batches: first_offset={each.first_offset} last_offset={each.last_offset} "
        f"delivery_state={DELIVERY_STATES[each.delivery_state]} delivery_count={each.delivery_count}"
        for each in write.batches
    ]
    return [head, *batches]
