"""Bugs to plant in leases, in the lending of segments, in manifests, and in readers of lent files."""

from .kind import LENDING
from .mutation import Mutation

LENDER = "kpybroker/hosts/leases/lender.py"
LEASES = "kpybroker/hosts/leases/leases.py"
MANIFEST = "kpybroker/machines/lease_manifest.py"
SEGMENTS = "storage/kpystorage/lending.py"
FILES = "kpybroker/pipeline/scan/files.py"
ABORTED = "wire/kpywire/aborted.py"


def _lending(name: str, path: str, old: str, new: str, nodes: int = 1) -> Mutation:
    return Mutation(name, path, old, new, nodes, world=LENDING)


LENDING_MUTATIONS = [
    # The bounds in a manifest
    _lending(
        "a manifest has the end of the log for the high watermark",
        LENDER,
        "        high_watermark=end_offset,\n",
        "        high_watermark=log.log_end_offset,\n",
        nodes=3,
    ),
    _lending(
        "a manifest has the high watermark for the last stable offset",
        LENDER,
        "last_stable_offset=leader.last_stable_offset().offset,",
        "last_stable_offset=end_offset,",
    ),
    _lending(
        "a manifest begins where its first segment does",
        LENDER,
        "log_start_offset=log.log_start_offset,",
        "log_start_offset=segments[0].base_offset if segments else log.log_start_offset,",
    ),
    _lending(
        "a manifest does not name aborted transactions",
        LENDER,
        "aborted = log.aborted_transactions(min(start_offset, end_offset), end_offset)",
        "aborted = log.aborted_transactions(end_offset, end_offset)",
    ),
    _lending(
        "aborted transactions lose their last offset on their way",
        MANIFEST,
        'aborted=[AbortedSpan(**span) for span in part["aborted"]],',
        'aborted=[AbortedSpan(**span | {"last_offset": span["first_offset"]}) for span in part["aborted"]],',
    ),
    # What is lent
    _lending(
        "a lent segment has its own name alone",
        SEGMENTS,
        '    disk.link(f"{log.path}/{names.segment_file(base_offset, suffix)}", path)\n    return path\n',
        '    return f"{log.path}/{names.segment_file(base_offset, suffix)}"\n',
    ),
    _lending(
        "the segment that holds the first offset is not lent",
        SEGMENTS,
        "first = max(bisect_right(log.base_offsets, start_offset) - 1, 0)",
        "first = max(bisect_right(log.base_offsets, start_offset), 0)",
    ),
    _lending(
        "of the active segment only what is on the disk is lent",
        SEGMENTS,
        "end_position = end.position if segment.base_offset == end.segment_base_offset else segment.size",
        "end_position = min(end.position if segment.base_offset == end.segment_base_offset else segment.size, 500)",
    ),
    _lending(
        "names of indexes stay behind a lease",
        SEGMENTS,
        "for path in (segment.path, segment.index_path):",
        "for path in (segment.path,):",
    ),
    # How long it is lent
    _lending(
        "leases end as soon as the first of them does",
        LEASES,
        "for lease_id, ends_ms in ends if ends_ms is not None and ends_ms <= now_ms]",
        "for lease_id, ends_ms in ends if ends_ms is not None and ends_ms >= now_ms]",
    ),
    _lending(
        "a renewal does not last",
        LEASES,
        "        lease.ends_ms = now_ms + lease.duration_ms\n        return lease.duration_ms\n",
        "        return lease.duration_ms\n",
    ),
    _lending(
        "a lease that is over is kept",
        LENDER,
        "        for lease_id in self.leases.due(self._now_ms()):\n            self._scheduler",
        "        for lease_id in self.leases.due(0):\n            self._scheduler",
    ),
    # Readers
    _lending(
        "readers of committed records go beyond the last stable offset",
        FILES,
        "end_offset = manifest.last_stable_offset if wanted.committed_only else manifest.high_watermark",
        "end_offset = manifest.high_watermark",
    ),
    _lending(
        "a transaction that aborts in a task's range, and began before it, is read",
        FILES,
        "            if each.last_offset >= part.start_offset\n",
        "            if each.first_offset >= part.start_offset\n",
    ),
    _lending(
        "records that were deleted are read",
        FILES,
        "        first_offset = manifest.log_start_offset\n",
        "        first_offset = min(manifest.log_start_offset, part.start_offset)\n",
    ),
    _lending(
        "a batch that is cut off at the end of a piece is left out",
        "kpybroker/pipeline/scan/whole_batches.py",
        "position, length = position + whole, piece_bytes if whole else 2 * length",
        "position, length = position + len(data), piece_bytes if whole else 2 * length",
    ),
    _lending(
        "a reader that begins at the marker of an abort leaves out what follows",
        ABORTED,
        "            self._begin(header)  # the reader may have begun at the very marker\n",
        "",
    ),
]
