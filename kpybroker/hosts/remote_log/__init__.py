"""Tiered storage (KIP-405), the part that does: stores, copies, reads, and the records of ``__remote_log_metadata``.

The decisions are in `kpybroker.machines.remote_log`, the bytes of objects in ``kpystorage.remote``.
"""
