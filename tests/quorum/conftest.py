"""The tests of the quorum use the world of the controller's tests."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "controller"))
