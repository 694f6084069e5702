"""The store in ``kpybroker check``: whether it has the objects that the metadata in log directories know of, and the
beginnings of logs that the disks lack. No record is read, and no broker is asked.

Not here: the bytes of objects (``kpybroker audit``, ``kpybroker tiers check --read``).
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from kpybroker.cli.tier_check import DAMAGES, FOREIGN, compare
from kpybroker.cli.tier_store import opened_store
from kpybroker.pipeline.audit.tiered import TieredDirectories, TieredPartition
from kpybroker.pipeline.tiers.stores import BadStore, store_of_file
from kpystorage.checking.findings import DAMAGE, NOTE, Finding

LEFT_OUT: Final = (FOREIGN,)
"""Objects of partitions whose metadata other brokers may have."""


def stored_findings(paths: Sequence[str], config: Path) -> list[Finding]:
    """The findings about the store that a file names. Raises click's errors for a store that cannot be used."""
    with opened_store(config) as (storage, is_plain):
        listing = list(storage.listed())  # before the metadata, which then know of every segment in it
        try:
            source = TieredDirectories(paths, store_of_file(config))
        except BadStore as error:
            raise click.UsageError(str(error)) from None
        metadata, tiers = source.tiers()
        known = {(each.topic_id, each.partition): each for each in metadata.partitions()}
        found = [
            Finding(DAMAGE if each.kind in DAMAGES else NOTE, storage.name, f"{each.place}: {each.text}")
            for each in compare(listing, known, is_plain=is_plain).findings
            if each.kind not in LEFT_OUT
        ]
        for (topic, partition), tier in sorted(tiers.items()):
            found += _borders(f"{topic}-{partition}", tier, storage.name)
    return found


def _borders(partition: str, tier: TieredPartition, store: str) -> Iterator[Finding]:
    """The offsets that are neither in the store nor on the disk that has most."""
    if tier.log_start < tier.start:
        text = f"the offsets {tier.log_start} to {tier.start - 1} are not there, by retention or by a loss"
        yield Finding(NOTE, store, f"{partition}: {text}")
    if tier.end < tier.border:
        text = f"the offsets {tier.end} to {tier.border - 1} are neither there nor on a disk"
        yield Finding(DAMAGE, store, f"{partition}: {text}")
