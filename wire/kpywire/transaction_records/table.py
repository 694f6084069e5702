"""The types of records here, and the module that declares each. Written by `kpywire.generator`."""

from typing import Final

TRANSACTION_LOG: Final = 0

MODULES: dict[int, str] = {
    TRANSACTION_LOG: "transaction_log",
}
