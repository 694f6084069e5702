"""The controller that the tests of the controller drive is played here too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "controller"))
