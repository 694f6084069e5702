"""Pools of threads with figures: how many of them work, and how many tasks wait."""

from collections.abc import Callable
from typing import Any

from kpybroker.hosts.remote_log.figures import PoolFigures
from kpybroker.runtime.io.scheduler import Submit


def counted(submit: Submit, figures: PoolFigures) -> Submit:
    """The pool, which notes in ``figures`` what is under way."""
    under_way = 0

    def changed(by: int) -> None:
        nonlocal under_way
        under_way += by
        figures.busy = min(under_way, figures.threads)
        figures.waiting = under_way - figures.busy

    def submit_counted(work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        def is_done(result: Any, error: BaseException | None) -> None:
            changed(-1)
            done(result, error)

        changed(1)
        submit(work, is_done)

    return submit_counted
