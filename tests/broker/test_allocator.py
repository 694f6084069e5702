"""Memory that is taken and given back again and again stays with a process that asked for it."""

import platform
import subprocess
import sys

import pytest

PAGES = """
import resource, sys
from kpybroker.runtime.io.allocator import KEPT_BYTES, keep_freed_memory

if sys.argv[1] == "kept":
    keep_freed_memory()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(100):
    request = bytearray(KEPT_BYTES // 4)
    inflated = bytes(request)
    del request, inflated
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def made_pages(how: str) -> int:
    return int(subprocess.run([sys.executable, "-c", PAGES, how], capture_output=True, check=True, timeout=60).stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc returns such pieces each time")
def test_pages_of_what_was_given_back_are_not_made_anew() -> None:
    assert made_pages("kept") * 10 < made_pages("returned")
