"""The simulation that tiered storage has of its own (`tests/remote_log/tier_chaos.py`), by seeds: three nodes of one
partition, without clients and controllers, so a history takes little time."""


def failure(seed: int) -> str:
    """The rule that does not hold, in a line; nothing if all do."""
    from tier_chaos import play

    try:
        play(seed)
    except Exception as error:
        lines: list[str] = repr(error).splitlines()
        return lines[0]
    return ""
