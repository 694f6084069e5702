"""Everything that decides, without clock, loop, file or network: it is given bytes, times and random numbers."""
