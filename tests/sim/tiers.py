"""The simulations that tiered storage has of its own, by seeds, without clients and controllers, so a history takes
little time: three nodes of one partition (`tests/remote_log/tier_chaos.py`), and two replicas of a compacted one whose
cleaners, copies and passes come in any order (`tests/remote_log/compacted_world.py`)."""

from collections.abc import Callable


def failure(seed: int) -> str:
    """The rule that does not hold, in a line; nothing if all do."""
    from tier_chaos import play

    return _failure_of(play, seed)


def compacted_failure(seed: int) -> str:
    """The same of a compacted partition."""
    from compacted_world import play

    return _failure_of(play, seed)


def _failure_of(play: Callable[[int], object], seed: int) -> str:
    try:
        play(seed)
    except Exception as error:
        lines: list[str] = repr(error).splitlines()
        return lines[0]
    return ""
