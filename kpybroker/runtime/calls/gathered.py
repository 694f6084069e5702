"""One response made of several answers, some of which come later."""

from collections.abc import Callable, Sequence
from typing import Any

from kpybroker.runtime.calls.pending import Pending


def gathered(answers: Sequence[Any], combine: Callable[[list[Any]], Any]) -> Any:
    """Combine all answers, in their order, into one response; a `Pending` of it if one of the answers is `Pending`."""
    late = [place for place, answer in enumerate(answers) if isinstance(answer, Pending)]
    if not late:
        return combine(list(answers))
    results = list(answers)
    missing = len(late)
    whole = Pending()

    def arrived(place: int, result: Any) -> None:
        nonlocal missing
        results[place] = result
        missing -= 1
        if not missing:
            whole.resolve(combine(results))

    def forget() -> None:
        for place in late:
            answers[place].cancel()

    whole.when_cancelled(forget)
    for place in late:
        answers[place].when_resolved(lambda result, place=place: arrived(place, result))
    return whole
