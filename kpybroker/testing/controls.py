"""The broker's clock, which a test moves, and the faults that it causes. Both forms: awaited, and blocking.

The blocking form calls the awaited one in the loop of the broker's thread. Neither knows where the broker runs.
"""

from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Protocol

from kpybroker.testing.faults import ANY_API, DELAY, DISCONNECT, DROP, FAIL, FaultSpec
from kpywire import api, error_codes

EVERY_API = "*"
P = ParamSpec("P")
Command = Callable[..., Coroutine[Any, Any, Any]]
"""``EmbeddedNode.command``, wherever the node runs."""


class Runs(Protocol):
    """Runs a coroutine in the broker's loop and waits for it."""

    def __call__(self, coroutine: Coroutine[Any, Any, Any], /) -> Any: ...


class AsyncClock:
    """The broker's clock. It runs as real time does, and can be moved further."""

    def __init__(self, command: Command) -> None:
        self._command = command

    async def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(await self._command("now"))

    async def now(self) -> datetime:
        """The same as a datetime in UTC."""
        return datetime.fromtimestamp(await self.now_ms() / 1000, UTC)

    async def advance(
        self,
        delta: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Let time pass for the broker, with everything that becomes due in it: retention, sessions, timeouts. Return
        the new time.

        ValueError for a time that would go back.
        """
        total = (delta or timedelta()) + timedelta(
            days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        if total < timedelta():
            raise ValueError(f"a clock never goes back: {total}")
        now_ms = await self._command("advance", delta_ms=total / timedelta(milliseconds=1))
        return datetime.fromtimestamp(now_ms / 1000, UTC)


class Clock:
    """The blocking form of `AsyncClock`."""

    def __init__(self, clock: AsyncClock, run: Runs) -> None:
        self._clock = clock
        self._run = run

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return int(self._run(self._clock.now_ms()))

    def now(self) -> datetime:
        """The same as a datetime in UTC."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def advance(
        self,
        delta: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """The blocking form of `AsyncClock.advance`."""
        more = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds)
        moved: datetime = self._run(self._clock.advance((delta or timedelta()) + more))
        return moved


def specify(  # noqa: PLR0913
    action: str,
    api_name: str,
    *,
    topic: str | None,
    client_id: str | None,
    times: int | None,
    skip: int,
    error: str | int = error_codes.NONE,
    seconds: float = 0.0,
    served: bool = False,
) -> FaultSpec:
    """Check the arguments of a test. ValueError describes what is wrong."""
    if times is not None and times < 1:
        raise ValueError(f"a fault happens at least once, not {times} times; None is for ever")
    return FaultSpec(
        action, api_key(api_name), topic, client_id, times, skip, error_code(error), seconds * 1000, served
    )


def api_key(name: str) -> int:
    """The key of an API by Kafka's name for it, in any case; ``*`` is every API."""
    if name == EVERY_API:
        return ANY_API
    names = {one.name.lower(): one for one in api.API_KEYS.values()}
    found = names.get(name.lower().replace("_", ""))
    if found is None:
        as_kafka_names_them = {lower: one.name for lower, one in names.items()}
        raise ValueError(f"Kafka has no API {name!r}{_did_you_mean(name.lower(), as_kafka_names_them)}")
    return found.key


def error_code(error: str | int) -> int:
    """The code of an error, given as its code or by Kafka's name for it."""
    if isinstance(error, int):
        return error
    names = {error_codes.name(code): code for code in range(-1, 200)}
    if error.upper() not in names:
        raise ValueError(f"Kafka has no error {error!r}{_did_you_mean(error.upper(), {each: each for each in names})}")
    return names[error.upper()]


def _did_you_mean(name: str, names: Mapping[str, str]) -> str:
    """The question for a name that was not found. ``names`` maps comparable spellings to the names as they are
    written."""
    close = get_close_matches(name, names, 1)
    return f"; did you mean {names[close[0]]}?" if close else ""


class AsyncFault:
    """A fault that was added. With ``async with`` it ends with the block."""

    def __init__(self, command: Command, number: int) -> None:
        self._command = command
        self._number = number

    async def hits(self) -> int:
        """The number of requests that it has affected."""
        return int(await self._command("hits", number=self._number))

    async def remove(self) -> None:
        """End the fault."""
        await self._command("remove_fault", number=self._number)

    async def __aenter__(self) -> "AsyncFault":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.remove()


class AsyncFaults:
    """Faults on purpose, each for the requests of one API, or for every request if that is ``*``.

    ``topic`` and ``client_id`` narrow it further, ``times`` ends it after that many requests, ``skip`` lets that many
    pass first. Where several faults match a request, the first counts.
    """

    def __init__(self, command: Command) -> None:
        self._command = command

    async def fail(
        self,
        api: str,
        error: str | int,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> AsyncFault:
        """Answer with an error (Kafka's name, or a code), without doing what was asked."""
        return await self.add(specify(FAIL, api, topic=topic, client_id=client_id, times=times, skip=skip, error=error))

    async def delay(
        self,
        api: str,
        seconds: float,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> AsyncFault:
        """Do what was asked at once, and answer ``seconds`` later, by the broker's clock."""
        return await self.add(
            specify(DELAY, api, topic=topic, client_id=client_id, times=times, skip=skip, seconds=seconds)
        )

    async def disconnect(
        self,
        api: str,
        *,
        served: bool = False,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> AsyncFault:
        """Close the connection instead of answering; with ``served`` after doing what was asked."""
        return await self.add(
            specify(DISCONNECT, api, topic=topic, client_id=client_id, times=times, skip=skip, served=served)
        )

    async def drop_answer(
        self,
        api: str,
        *,
        topic: str | None = None,
        client_id: str | None = None,
        times: int | None = None,
        skip: int = 0,
    ) -> AsyncFault:
        """Do what was asked and never answer: the client waits until its timeout."""
        return await self.add(specify(DROP, api, topic=topic, client_id=client_id, times=times, skip=skip))

    async def add(self, spec: FaultSpec) -> AsyncFault:
        """Add any of the faults above."""
        return AsyncFault(self._command, await self._command("add_fault", spec=list(spec)))

    async def clear(self) -> None:
        """End all faults."""
        await self._command("clear_faults")


class Fault:
    """The blocking form of `AsyncFault`."""

    def __init__(self, fault: AsyncFault, run: Runs) -> None:
        self._fault = fault
        self._run = run

    @property
    def hits(self) -> int:
        """The number of requests that it has affected."""
        return int(self._run(self._fault.hits()))

    def remove(self) -> None:
        """End the fault."""
        self._run(self._fault.remove())

    def __enter__(self) -> "Fault":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


def _blocking(
    method: Callable[Concatenate[AsyncFaults, P], Coroutine[Any, Any, AsyncFault]],
) -> Callable[Concatenate["Faults", P], Fault]:
    """The blocking form of a method that adds a fault."""

    @wraps(method)
    def blocking(self: "Faults", /, *arguments: P.args, **named: P.kwargs) -> Fault:
        return Fault(self._run(method(self._faults, *arguments, **named)), self._run)

    return blocking


class Faults:
    """The blocking form of `AsyncFaults`."""

    def __init__(self, faults: AsyncFaults, run: Runs) -> None:
        self._faults = faults
        self._run = run

    fail = _blocking(AsyncFaults.fail)
    delay = _blocking(AsyncFaults.delay)
    disconnect = _blocking(AsyncFaults.disconnect)
    drop_answer = _blocking(AsyncFaults.drop_answer)

    def clear(self) -> None:
        """End all faults."""
        self._run(self._faults.clear())
