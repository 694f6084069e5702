"""The values of records: noise, or words of a small vocabulary where the records are to be compressed."""

import random

VOCABULARY = 2000
WORD_LETTERS = (3, 9)


def noise(rng: random.Random, sizes: list[int]) -> list[bytes]:
    """Values that no codec makes smaller."""
    return [rng.randbytes(size) for size in sizes]


def text(rng: random.Random, sizes: list[int]) -> list[bytes]:
    """Values that shrink to about a third."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(*WORD_LETTERS))) for _ in range(VOCABULARY)]
    longest = " ".join(rng.choices(words, k=max(sizes))).encode()
    values = []
    for size in sizes:
        start = rng.randrange(len(longest) - size)
        values.append(longest[start : start + size])
    return values
