"""Groups: their members, what each member reads, and the offsets they committed. Pure: one machine for each partition
of ``__consumer_offsets``, fed by `kpybroker.hosts.coordinators` through a journal.

At the top is what groups of all kinds have in common. Each kind has a package with its members (a `group.Membership`),
its requests, its records and its tables (a `kind.GroupKind`); `kpybroker.machines.groups.kinds` lists them.
"""
