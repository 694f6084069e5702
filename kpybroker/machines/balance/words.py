"""Sizes in the words of reasons: ``3.1 GB``, as disks and networks are sold, in powers of ten."""


def size_words(count: int) -> str:
    """``512 B``, ``3.1 GB``: two digits at least."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.2g} {unit}"
