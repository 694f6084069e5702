"""The records of share partitions, ``__share_group_state``, one module for each type.

The declarations are written by `kpywire.generator`, the framing is `kpywire.coordinator_record`'s.
"""

from kpywire.coordinator_record import RecordFormat
from kpywire.share_records.table import MODULES

_FORMAT = RecordFormat(__name__, MODULES)

classes = _FORMAT.classes
record_type = _FORMAT.record_type
encode_key = _FORMAT.encode_key
encode_value = _FORMAT.encode_value
decode_key = _FORMAT.decode_key
decode_value = _FORMAT.decode_value
