"""kpybroker: an Apache Kafka broker in Python."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

__version__ = "0.2.0.dev3"

MOVED = {"kpybroker.audit": "kpybroker.pipeline.audit", "kpybroker.lake": "kpybroker.pipeline.lake"}
"""Import paths that earlier documents show, and where their packages are now. Both import the same modules."""
_OLD_PLACES = tuple(MOVED)


class _Moved:
    """Finds and loads the modules of `MOVED`. It stands before the other finders, which would load them twice."""

    def __init__(self, name: str) -> None:
        self._name = name

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> "ModuleSpec | None":
        """The module at its new place; None for other names."""
        if not name.startswith(_OLD_PLACES):
            return None
        old = next((old for old in MOVED if name == old or name.startswith(f"{old}.")), None)
        if old is None:
            return None
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, cls(MOVED[old] + name.removeprefix(old)))  # type: ignore[arg-type]

    def create_module(self, _spec: object) -> None:
        """Leave it to the import system; `exec_module` replaces the module."""

    def exec_module(self, module: object) -> None:
        """Put the module of the new name in its place."""
        from importlib import import_module

        sys.modules[getattr(module, "__name__", "")] = import_module(self._name)


sys.meta_path.insert(0, _Moved)
