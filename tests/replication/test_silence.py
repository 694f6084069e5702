"""A broker reports the peers that owe it something for too long, and never because it stood still itself."""

from kpybroker.machines.silence import LATE_MS, LONGEST_MS, LOOK_MS, OVERDUE_MS, Awaited, Silence

WAIT_MS = 500


class Watcher:
    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.silence = Silence(self.now_ms)
        self.news = 0

    def look_until(self, end_ms: float, awaited: dict[int, Awaited]) -> list[tuple[int, int, bool]]:
        while self.now_ms < end_ms:
            self.now_ms += LOOK_MS
            self.news += self.silence.look(self.now_ms, awaited)
        return [(each.broker_id, each.silent_ms, each.is_unanswered) for each in self.silence.report(self.now_ms)]


def asked_at(since_ms: float, *, is_answer: bool = True) -> Awaited:
    return Awaited(since_ms, since_ms + WAIT_MS, is_answer)


def test_a_leader_whose_answer_is_overdue_is_reported_once() -> None:
    watcher = Watcher()
    assert watcher.look_until(1_000 + WAIT_MS + OVERDUE_MS - LOOK_MS, {2: asked_at(1_000)}) == []
    assert watcher.look_until(1_000 + WAIT_MS + OVERDUE_MS, {2: asked_at(1_000)}) == [(2, 1_000, True)]
    watcher.look_until(5_000, {2: asked_at(1_000)})
    assert watcher.news == 1


def test_a_peer_that_answers_again_is_news() -> None:
    watcher = Watcher()
    watcher.look_until(3_000, {2: asked_at(1_000)})
    assert watcher.look_until(3_250, {2: asked_at(3_000)}) == []
    assert watcher.news == 2


def test_a_follower_that_does_not_fetch_is_reported_as_one_that_owes_no_answer() -> None:
    assert Watcher().look_until(3_000, {2: asked_at(1_000, is_answer=False)}) == [(2, 2_000, False)]


def test_a_node_that_stood_still_reports_no_peer_for_that_time() -> None:
    watcher = Watcher()
    watcher.now_ms += 8_000
    assert watcher.look_until(watcher.now_ms + LATE_MS, {2: asked_at(1_000)}) == []
    assert watcher.look_until(watcher.now_ms + OVERDUE_MS, {2: asked_at(1_000)}) == [(2, OVERDUE_MS, True)]


def test_a_silence_that_lasts_very_long_is_not_reported_any_more() -> None:
    watcher = Watcher()
    assert watcher.look_until(1_000 + LONGEST_MS, {2: asked_at(1_000)}) != []
    assert watcher.look_until(1_500 + LONGEST_MS, {2: asked_at(1_000)}) == []


def test_a_look_that_is_no_later_than_usual_counts_the_time_before_it() -> None:
    for late_ms, is_silent in ((LATE_MS, True), (LATE_MS + 1, False)):
        silence = Silence(0)
        silence.look(LOOK_MS + late_ms, {2: asked_at(-3_000)})
        assert bool(silence.report(LOOK_MS + late_ms)) is is_silent
