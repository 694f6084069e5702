"""Bugs to plant where levels of features change while nodes run different programs."""

from .kind import LEVELLING
from .mutation import Mutation

FEATURES = "kpybroker/machines/controller/features.py"


def _levelling(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, path, old, new, world=LEVELLING)


LEVELLING_MUTATIONS = [
    _levelling(
        "a level is raised although a node does not know it",
        FEATURES,
        "        if level not in levels:\n            if levels.highest == 0:\n",
        "        if level < levels.lowest:\n            if levels.highest == 0:\n",
    ),
    _levelling(
        "only the active controller's program decides which levels can be raised",
        FEATURES,
        "    for node, supported in nodes:\n",
        "    for node, supported in nodes[:1]:\n",
    ),
    _levelling(
        "a level is lowered although records have changed",
        FEATURES,
        "    if level >= current or not metadata_version.metadata_changes_between(current, level):\n",
        "    if level >= current or upgrade_type == SAFE_DOWNGRADE:\n",
    ),
]
