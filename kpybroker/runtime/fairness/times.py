"""Every constant of fairness: how long work may keep the event loop. docs/fairness.md shows them as a table.

Times are nanoseconds of CPU or of the clock, as each says.
"""

from typing import Final

# Pieces of work.

PIECE_NS: Final = 500_000
"""CPU that one request may use at a stretch. A connection that uses more owes the rest."""
SLICE_NS: Final = 250_000
"""Length of one slice of work that can be cut."""
BRIEF_SLICE_NS: Final = 100_000
"""Length of a slice while cheap connections are being served: each of their requests may wait for one."""
CROWDED_NS: Final = 50_000
"""Length of a first slice in a turn that serves many connections: each of them waits for all the others' slices."""
NOTICED_NS: Final = 10_000_000
"""Slices stay brief for this long after the last event of a connection."""

# The queue of expensive connections.

SHORT_NS: Final = 150_000
"""Queued pieces that together take less than this share one turn of the loop."""
PART_OF_LINE: Final = 8
"""Queued pieces may also share a turn up to 1/8 of the time that cheap requests took since the last turn."""
PART_OF_NEWCOMERS: Final = 1
"""The same part for connections that are new: 1/1, so that a thousand clients that connect at once all begin soon."""
MOMENT_NS: Final = 150_000
"""After a cheap request the queue waits this long for the client's next one, before it serves another piece."""
MOST_MOMENTS_NS: Final = 600_000
"""The queue never waits longer than this for such requests."""

# What a connection owes.

CREDIT_NS: Final = PIECE_NS // 8
"""Debt that each short piece pays back."""
NEWCOMER_OWES_NS: Final = 2 * CREDIT_NS
"""Debt of a new connection: its first requests show what it costs."""
MOST_OWED_NS: Final = 16 * CREDIT_NS
"""Largest debt. It is small, since a process that loses the CPU for a moment looks like an expensive request."""

# Work that cannot be cut.

LONG_NS: Final = 1_000_000
"""A piece that took longer could not be cut, and is charged to the account."""
LONG_WHOLE_NS: Final = 50_000_000
"""The same bound for Produce and Fetch, which honest clients make large."""
SHARE: Final = 0.02
"""Part of busy time that flows into the account."""
SAVED_NS: Final = 250_000_000
"""Most that the account holds."""
OVERDRAWN_NS: Final = 100_000_000
"""Most that the account can be overdrawn."""
LEAST_CHARGE_NS: Final = 5_000_000
"""Smallest charge, so that many pieces that are slightly too long count like a few that are far too long."""
PAUSE_NS: Final = 500_000_000
"""After a pause this long without long work, the account fills at the speed of time."""
LOOK_MS: Final = 20.0
"""Interval at which the account is read while connections wait for it."""
QUIET_EVENTS: Final = 3
"""With at most this number of events in `LOOK_MS` the broker counts as idle, and a long request may run at once."""
WORK_BYTES: Final = 4 << 20
"""Bytes of large requests that are worked on at the same time."""

# Gathered appends, and requests that end transactions.

MANY: Final = 4
"""If at least this number of connections are readable, their appends are written together."""
LONGEST_NS: Final = 1_000_000
"""After so long the replies of a shared turn are sent, although others are still to be served."""
LATE_NS: Final = 4_000_000
"""After so much CPU only short requests, other than Produce and Fetch, are still served in a turn; others queue."""
ASIDE_PIECE_NS: Final = 1_000_000
"""Time in which requests that were put aside are served, before the loop goes on."""
LOOK_EVERY_NS: Final = 50_000
"""Interval at which the poller is asked for an EndTxn. Asking costs about a microsecond."""
ASIDE_REQUEST_BYTES: Final = 16 * 1024
"""Largest request that is put aside. Copying a larger one would cost as much as serving many small ones."""
ASIDE_BYTES: Final = 1024 * 1024
"""Bytes of all requests that are put aside."""

# Clients that come again.

DEBT_LASTS_MS: Final = 10_000.0
"""Long work of a connection is also that of the next one from its address, if that comes within this time."""
MOST_ADDRESSES: Final = 1024
"""Addresses whose long work is remembered."""
MOST_DEBTS: Final = 64
"""Pieces of long work that are remembered of one address."""
MOST_PARTIES: Final = 1024
"""Clients whose use of the process for long work is remembered while they want nothing."""
