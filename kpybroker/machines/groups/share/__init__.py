"""Share groups (KIP-932): members that read the same partitions together, as their group coordinator sees them.

Here are members, assignments, and the states of share partitions that have to be initialised or deleted. Records in
flight are in `kpybroker.machines.share`, and their stored state in `kpybroker.machines.share_coordinator`.
"""
