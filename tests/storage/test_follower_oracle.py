"""The same records from a leader into Apache Kafka's own log and into a follower of ours: both take or refuse them."""

from base64 import b64encode
from pathlib import Path
from random import Random

import pytest
from log_making import make_batch
from test_log_oracle import Oracle, Pair, oracle

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.follower import PartitionFollower
from kpystorage.log_config import LogConfig
from kpywire import error_codes
from kpywire.batch import parse_header, stamp_offset_and_epoch

pytestmark = pytest.mark.java
__all__ = ["oracle"]


def _spoilt(rng: Random, batches: list[bytes], epoch: int) -> list[bytes]:
    """The batches that a leader should not send, or cannot send yet."""
    how = rng.choice(["well", "well", "well", "crc", "back", "twice", "cut", "newer", "gap", "short"])
    last = bytearray(batches[-1])
    if how == "crc":
        last[-1] ^= 1
    elif how == "back" and parse_header(last).base_offset >= 6:
        # Overlapping the one before by less, Kafka takes it.
        stamp_offset_and_epoch(last, 0, parse_header(last).base_offset - 6, epoch)
    elif how == "twice":
        return [*batches, batches[-1]]
    elif how == "cut":
        del last[rng.randint(1, len(last) - 1) :]
    elif how == "newer":
        stamp_offset_and_epoch(last, 0, parse_header(last).base_offset, epoch + 1)
    elif how == "gap":
        stamp_offset_and_epoch(last, 0, parse_header(last).base_offset + 5, epoch)
    elif how == "short":
        last[8:12] = (20).to_bytes(4, "big")
    return [*batches[:-1], bytes(last)]


@pytest.mark.parametrize("seed", [1, 2])
def test_a_follower_takes_and_refuses_what_kafkas_takes_and_refuses(tmp_path: Path, oracle: Oracle, seed: int) -> None:
    # Gaps in a log that is not compacted are losses to us; Kafka's followers take them over.
    pair = Pair(oracle, tmp_path, LogConfig(segment_bytes=10_000_000, cleanup_compact=True), seed)
    refused = 0
    for _ in range(150):
        rng = pair.rng
        if rng.random() < 0.1:
            pair.epoch += 1
        follower = PartitionFollower(pair.log, pair.epoch, 0)
        offset, batches = pair.log.end.offset, []
        for _ in range(rng.randint(1, 3)):
            batches.append(make_batch(offset, rng.randint(1, 4), leader_epoch=pair.epoch, value_bytes=20))
            offset = parse_header(batches[-1]).next_offset
        sent = b"".join(_spoilt(rng, batches, pair.epoch))
        answer = oracle.ask("append", pair.epoch, b64encode(sent).decode())
        try:
            assert follower.append(memoryview(sent), 0, pair.now_ms) == len(sent)
        except KafkaError as error:
            refused += 1
            corrupt = error.code == error_codes.CORRUPT_MESSAGE
            assert answer.split()[:2] in (
                [["error", "CorruptRecordException"]]
                if corrupt
                else [["error", "OffsetsOutOfOrderException"], ["error", "UnexpectedAppendOffsetException"]]
            )
        else:
            assert answer == "ok"
        pair.check_state()
        if rng.random() < 0.1:
            to = rng.randint(0, pair.log.end.offset)
            whole = pair.log.position_of(to).position == pair.log.active.size or (
                (piece := pair.log.read(to, 1, pair.log.end, min_one_batch=True)) is not None
                and parse_header(piece.read()).base_offset == to
            )
            if whole:  # within a batch Kafka's log ends where nothing is
                oracle.tell("truncate", to)
                pair.log.truncate_to(to, pair.now_ms)
                pair.check_state()
    assert refused > 20
