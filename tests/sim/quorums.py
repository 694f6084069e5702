"""The simulations that the quorum's machine has of its own (`tests/raft`), by seeds: many lives in little time.

Of eight seeds four are lives of voters that stay, two of voters that come and go, and two are trials of leaders: one
that somebody cannot hear, and one whom nobody can.
"""

from collections.abc import Callable


def _trials() -> tuple[Callable[[int], None], ...]:
    from test_quorum_of_many import (
        test_a_node_that_was_cut_off_does_not_disturb_a_living_leader as keep_the_peace,
    )
    from test_quorum_of_many import test_whatever_happens_what_is_committed_stays as live
    from test_quorum_of_many import test_whatever_happens_while_voters_change_what_is_committed_stays as change
    from test_quorum_of_many import (
        test_without_a_majority_nothing_is_committed_and_the_leader_resigns as resign,
    )

    return live, live, change, keep_the_peace, live, live, change, resign


def failure(seed: int) -> str:
    """The rule that does not hold, in a line; nothing if all do."""
    trials = _trials()
    try:
        trials[seed % len(trials)](seed)
    except Exception as error:
        return repr(error).splitlines()[0]
    return ""
