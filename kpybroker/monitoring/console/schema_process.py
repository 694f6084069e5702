"""The process that decodes values by their schemas: ``python -m kpybroker.monitoring.console.schema_process
PARENT``."""

import resource
from contextlib import suppress
from typing import Final

from kpybroker.monitoring.console.schema_tasks import DecodingEnded, SchemaDecoder
from kpybroker.runtime.io.worker_process import run

MOST_MEMORY_BYTES: Final = 1024**3
"""A few hostile bytes can describe an array of any length."""


def main() -> None:
    """Do tasks until there are no more."""
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    run(SchemaDecoder().work, DecodingEnded)


if __name__ == "__main__":
    main()
