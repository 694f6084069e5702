"""``kpybroker audit``: whether all data of a cluster is there, whole, in order, and the same on every replica."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kpybroker.audit.findings import DAMAGE, Finding
from kpybroker.cli import checking, command_config, completion
from kpybroker.cli.options import json_output, quiet_end
from kpybroker.cli.progress import Progress
from kpybroker.cli.tables import bytes_text, plural, printable, show_json

if TYPE_CHECKING:
    from kpybroker.audit.kept import Summary
    from kpybroker.audit.running import Result
    from kpybroker.audit.sources import Source
    from kpybroker.audit.tables import Range

DAMAGED = 1
MARKS = {DAMAGE: ("DAMAGE", "red")}
MIB = 1 << 20
