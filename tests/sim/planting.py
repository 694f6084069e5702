"""Plants a bug in this process: one module is imported with a piece of its text replaced. No file is changed.

Has to be done before anything of kpybroker is imported. Which bug it is, the environment says, by its name.
"""

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from .mutations import MUTATIONS, Mutation

VARIABLE = "KPYSIM_BUG"
ROOTS = ("wire", "storage")


class PlantedLoader(SourceFileLoader):
    """Loads the one module that has the bug."""

    def __init__(self, fullname: str, path: str, mutation: Mutation) -> None:
        super().__init__(fullname, path)
        self._mutation = mutation

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002
        text = Path(self.path).read_text()
        return compile(text.replace(self._mutation.old, self._mutation.new), self.path, "exec", dont_inherit=True)


class PlantedFinder(MetaPathFinder):
    """Finds that module before everybody else does."""

    def __init__(self, mutation: Mutation) -> None:
        self._mutation = mutation
        parts = Path(mutation.path).with_suffix("").parts
        self.module = ".".join(parts[1:] if parts[0] in ROOTS else parts)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = PlantedLoader(fullname, spec.origin, self._mutation)
        return spec


def plant_what_is_asked_for() -> None:
    """Plant the bugs that the environment names; nothing if it names nothing."""
    name = os.environ.get(VARIABLE, "")
    if not name:
        return
    (mutation,) = [each for each in MUTATIONS if each.name == name]
    finder = PlantedFinder(mutation)
    assert finder.module not in sys.modules, f"{finder.module} was imported before its bug could be planted"
    sys.meta_path.insert(0, finder)
