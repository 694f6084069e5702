"""The running node of the broker's tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "broker"))
