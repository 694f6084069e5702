"""kafka-storage and kafka-server-start: these become the commands of kpybroker with the same meaning."""

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from kpybroker.cli.kafka_tools.options import Found, ToolOptions, ToolRefusal

ACTIONS: Final = ("format", "random-uuid")


def _run(*words: str) -> int:
    """Run a command of kpybroker. Return its exit code."""
    return subprocess.call([sys.executable, "-m", "kpybroker", *words])


def storage(words: Sequence[str]) -> None:
    """kafka-storage format and random-uuid, with the options of ``kpybroker format``. Raises Refusal for others."""
    action, *rest = words or ("",)
    if action == "random-uuid" and not rest:
        raise SystemExit(_run("format", "random-uuid"))
    if action != "format":
        raise ToolRefusal(f"kafka-storage: choose one of {', '.join(ACTIONS)}, not {action!r}")
    raise SystemExit(_run("format", *rest))


def server_start_options() -> ToolOptions:
    """The options of kafka-server-start."""
    options = ToolOptions("kafka-server-start", "Starts a broker.")
    options.add_argument("properties")
    options.lists("override")
    return options


def server_start(_options: ToolOptions, found: Found) -> None:
    """kafka-server-start: starts a broker with a server.properties."""
    overrides = [word for each in found.override for word in ("--override", each)]
    # signals go to the broker itself
    os.execv(sys.executable, [sys.executable, "-m", "kpybroker", "start", found.properties, *overrides])
