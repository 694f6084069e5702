"""The hosts of the machines: they give them time, files and peers, and carry out their decisions."""
