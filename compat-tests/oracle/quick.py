"""Options of JVMs that live for seconds."""

from pathlib import Path
from typing import Final

QUICK: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""With one quick compiler and a plain collector they take half the CPU time."""
LOGGING: Final = f"-Dlog4j2.configurationFile={Path(__file__).resolve().with_name('log4j2.xml')}"
