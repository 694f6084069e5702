"""The worlds that the tests of the machines drive are played here too."""

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
WORLDS = ("controller", "groups", "groups/streams", "share", "share_coordinator", "transactions", "zookeeper")
sys.path += [str(TESTS / each) for each in WORLDS]
