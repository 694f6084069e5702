"""For kafka-python 3's own integration tests: the one module that they import and its package leaves out.

Their fixtures take a running broker by KAFKA_URI and then only hold on to a service that is somebody else's.
"""

import sys
import types
from pathlib import Path


class ExternalService:
    """A broker that runs anyway; the fixtures open, stop and dump it."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None: ...

    def stop(self) -> None: ...

    def dump_logs(self) -> None: ...


class SpawnedService:
    """The service that the fixtures would start with Kafka's scripts."""

    def __init__(self, *command: object) -> None:
        raise RuntimeError(f"no Kafka of its own: {command}")


def _own_modules() -> None:
    """Without an ``__init__.py`` beside them, ``test`` would be the standard library's package."""
    package = types.ModuleType("test")
    package.__path__ = [str(Path("test").resolve())]
    service = types.ModuleType("test.service")
    service.__dict__.update(ExternalService=ExternalService, SpawnedService=SpawnedService)
    sys.modules.update({"test": package, "test.service": service})


_own_modules()
