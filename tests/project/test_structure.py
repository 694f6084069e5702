"""The structure of the packages: few rooms, few arrows between them, and circles of modules that are known."""

import pytest
from sources import ROOT

from release.structure import Structure, imports_below, structure_of

MOST_ENTRIES = 14
MOST_ARROWS = 80
MOST_FLOORS = 12
CIRCLES = 2
"""The circles of modules that are left, each within one room; ARCHITECTURE.md has their reasons."""
OF_EVERY_PACKAGE = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}


@pytest.fixture(scope="module")
def found() -> Structure:
    return structure_of(imports_below(ROOT))


def test_kpybroker_has_few_entries() -> None:
    entries = {path.name for path in (ROOT / "kpybroker").iterdir()} - OF_EVERY_PACKAGE
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_rooms_have_few_arrows_and_floors(found: Structure) -> None:
    assert sum(len(rooms) for rooms in found.arrows.values()) <= MOST_ARROWS, str(found)
    assert max(found.floors.values()) <= MOST_FLOORS, str(found)


def test_no_new_circle_of_modules(found: Structure) -> None:
    assert len(found.circles) <= CIRCLES, found.circles


def test_rooms_that_import_one_another_have_no_floors() -> None:
    with pytest.raises(RecursionError):
        structure_of({"a": frozenset({"b"}), "b": frozenset({"a"})})


def test_modules_of_one_room_that_import_one_another_are_a_circle() -> None:
    imports = {
        "kpybroker.x.a": frozenset({"kpybroker.x.b"}),
        "kpybroker.x.b": frozenset({"kpybroker.x.a", "kpywire.y"}),
        "kpywire.y": frozenset(),
    }
    found = structure_of(imports)
    assert found.circles == (("kpybroker.x.a", "kpybroker.x.b"),)
    assert found.arrows == {"kpybroker.x": {"kpywire"}, "kpywire": frozenset()}
    assert found.floors == {"kpywire": 1, "kpybroker.x": 2}
