"""The records of remote log segments, ``__remote_log_metadata``, one module for each type.

The declarations are written by `kpywire.generator`, the framing is `kpywire.remote_log_record`'s.
"""
