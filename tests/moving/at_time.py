"""``python at_time.py SECONDS ...``: kpybroker's command line with a clock that is some seconds behind.

So a directory that was written long ago is opened soon after it was left: nothing in it has expired meanwhile.
"""

import sys
import time

behind_s = int(sys.argv[1])
real_ns = time.time_ns
time.time_ns = lambda: real_ns() - behind_s * 1_000_000_000

from kpybroker.__main__ import main  # noqa: E402  it finds the clock that is behind

sys.argv = ["kpybroker", *sys.argv[2:]]
main()
