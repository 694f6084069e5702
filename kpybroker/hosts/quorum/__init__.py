"""The shell around the quorum and the controller: the metadata log on disk, messages, elections, the active controller.

Decisions are made elsewhere, in pure code: `kpybroker.machines.raft` for the quorum, `kpybroker.machines.controller`
for the metadata.
"""
