"""The logs of the tests of storage are made here too."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "storage"))
