"""The check of an index that was kept or fetched: whether its entries have their order."""

from array import array
from collections.abc import Sequence
from itertools import islice
from operator import le, lt
from struct import Struct
from sys import byteorder
from typing import Any, Final

from kpystorage.errors import CorruptObject
from kpystorage.offset_index import ENTRY_BYTES as OFFSET_BYTES
from kpystorage.remote.indexes import IndexType
from kpystorage.time_index import ENTRY_BYTES as TIME_BYTES
from kpystorage.transaction_index import ENTRY_BYTES as TRANSACTION_BYTES
from kpystorage.transaction_index import VERSION

_TIME: Final = Struct(">qi")
_TRANSACTION: Final = Struct(">hqqqq")


def check_index(index: IndexType, data: bytes) -> None:
    """CorruptObject if the bytes are no index of the type. Snapshots and leader epochs are checked by their readers."""
    match index:
        case IndexType.OFFSET:
            _check_size(index, data, OFFSET_BYTES)
            numbers = array("i", data)
            if byteorder == "little":
                numbers.byteswap()
            _check_order(index, numbers[::2], lt)
            _check_order(index, numbers[1::2], lt)
        case IndexType.TIMESTAMP:
            _check_size(index, data, TIME_BYTES)
            entries = list(_TIME.iter_unpack(data))
            _check_order(index, [timestamp for timestamp, _ in entries], lt)
            _check_order(index, [offset for _, offset in entries], le)
        case IndexType.TRANSACTION:
            _check_size(index, data, TRANSACTION_BYTES)
            transactions = list(_TRANSACTION.iter_unpack(data))
            if any(each[0] != VERSION for each in transactions):
                raise CorruptObject(f"a {index.value} index with an entry of a version that is not known")
            _check_order(index, [last_offset for _, _, _, last_offset, _ in transactions], lt)
        case _:
            return


def _check_size(index: IndexType, data: bytes, entry_bytes: int) -> None:
    if len(data) % entry_bytes:
        raise CorruptObject(f"a {index.value} index of {len(data)} bytes, whose entries have {entry_bytes}")


def _check_order(index: IndexType, numbers: Sequence[int], in_order: Any) -> None:
    if (numbers and numbers[0] < 0) or not all(map(in_order, numbers, islice(numbers, 1, None))):
        raise CorruptObject(f"a {index.value} index whose entries are not in order")
