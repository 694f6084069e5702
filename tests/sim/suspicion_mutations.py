"""Bugs of suspicion: brokers that are fenced although they answer, or are not although nobody hears them."""

from .mutation import Mutation

SUSPICION = "kpybroker/machines/controller/suspicion.py"
WATCH = "kpybroker/hosts/quorum/suspects.py"
SILENCE = "kpybroker/machines/silence.py"


def _suspected(name: str, path: str, old: str, new: str) -> Mutation:
    return Mutation(name, path, old, new, world="suspicion")


SUSPICION_MUTATIONS = [
    _suspected(
        "a controller that stood still goes on as if it had not",
        SUSPICION,
        "        if now_ms - self._looked_ms > LOOK_MS + LATE_MS:\n",
        "        if now_ms < self._looked_ms:\n",
    ),
    _suspected(
        "a broker that no peer misses is fenced",
        SUSPICION,
        "        if len(reporters) * 2 <= len(asked):\n",
        "        if not asked:\n",
    ),
    _suspected(
        "fetches of the metadata log are no sign of life",
        WATCH,
        "max(fetched_ms.get(broker.id, -1.0), -1.0 if contact_ms is None else contact_ms)",
        "-1.0 if contact_ms is None else contact_ms",
    ),
    _suspected(
        "a leader that its followers lost is kept because the controller hears it",
        SUSPICION,
        "        if now_ms - heard_ms < self._wait_ms(LOST_MS, now_ms):\n",
        "        if now_ms >= heard_ms:\n",
    ),
    _suspected(
        "a follower that lost its leader does not say so",
        SILENCE,
        "        overdue_ms = now_ms - max(awaited.due_ms, self._woke_ms)\n",
        "        overdue_ms = -1.0 if awaited.is_answer else now_ms - max(awaited.due_ms, self._woke_ms)\n",
    ),
    _suspected(
        "a new controller believes nobody about a broker that it never heard",
        SUSPICION,
        "is_quiet = session in quiet or (reporters > 0 and self._is_unknown(session, sign))",
        "is_quiet = session in quiet and not self._is_unknown(session, sign)",
    ),
]
