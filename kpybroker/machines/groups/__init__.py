"""Groups: their members, what each member reads, and the offsets they committed. Pure: one machine for each partition
of ``__consumer_offsets``, fed by `kpybroker.hosts.coordinators` through a journal.

At the top is what groups of all kinds have in common. Each kind has a package with its members (a `group.Membership`),
its requests and its records; `kpybroker.machines.groups.coordinator` has the tables that lead to them.
"""
