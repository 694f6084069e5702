"""CRC-32C (Castagnoli), the checksum of record batches. Not the CRC-32 of zlib, which message formats before v2 had.

When the package is imported, it reads its own metadata with half of the standard library, which takes a tenth of a
broker's start. So its extension module is loaded alone, if it is found in its usual place.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import cast

from kpywire.varint import Buffer


def _extension() -> Callable[[Buffer], int] | None:
    package = PathFinder.find_spec("crc32c")
    places = package and package.submodule_search_locations
    found = PathFinder.find_spec("crc32c._crc32c", places) if places else None
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    function: Callable[[Buffer], int] | None = getattr(module, "crc32c", None)
    return function


def _whole() -> Callable[[Buffer], int]:
    from crc32c import crc32c as function

    return function


crc32c: Callable[[Buffer], int] = _extension() or _whole()
"""The CRC-32C of a buffer; the name is the C function itself, and it releases the GIL on long input."""
continued_crc32c = cast(Callable[[Buffer, int], int], crc32c)
"""The CRC-32C of two buffers in a row: of the first argument behind a buffer whose CRC-32C is the second argument."""
