"""The requests that are served: for each API key and version its decoder, its handler and its encoder.

They are compiled, in steps, when a (key, version) is first used.
"""

from collections.abc import Callable, Generator
from inspect import isgeneratorfunction
from typing import Any, Final

from kpybroker.machines.answered_errors import Errors, errors_in
from kpybroker.machines.apis import TRAITS
from kpybroker.runtime.calls.call import Call, Handle
from kpybroker.runtime.calls.steps import Work
from kpybroker.runtime.counters import ApiCounters
from kpywire import api
from kpywire.codec import decoder, encoder
from kpywire.header import response_header_version

Intercept = Callable[[int, Handle], Handle]
"""(api key, its handler) -> the function that is called in place of the handler."""
_SENDING_FILES: Final = frozenset({api.FETCH, api.SHARE_FETCH})
"""The API keys whose responses have slices of files."""


class ServedVersion:
    """One served (api key, version)."""

    __slots__ = (
        "answers_long", "counters", "decode", "decode_in_steps", "encode", "errors_in", "handle", "header_v1",
        "is_whole", "requests", "sends_files", "shares", "work",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913
        self,
        decode: Callable[[memoryview, int], tuple[Any, int]],
        handle: Handle,
        encode: Callable[[Any, list[Any]], None],
        counters: ApiCounters,
        errors: Errors | None,
        work: Callable[..., Work] | None,
        *,
        header_v1: bool,
        is_whole: bool,
        sends_files: bool,
    ) -> None:
        """``errors`` finds Kafka's errors in answers; it is None if the handler counts them itself. ``work`` is the
        handler that works in steps; it is None if there is none, or if the handler is intercepted. ``sends_files``:
        answers may hold slices of files.
        """
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.header_v1 = header_v1
        self.counters = counters
        self.errors_in = errors
        self.work = work
        self.is_whole = is_whole
        self.sends_files = sends_files
        self.shares = False
        """Whether ``handle`` does all of ``work``, in steps."""
        self.answers_long = False
        """Whether late answers to small requests may be long, and are encoded in steps."""
        self.decode_in_steps: Callable[[memoryview, int], Generator[None, None, tuple[Any, int]]] | None = None
        """The decoder of requests of which ``decode`` raises `ManyElements`."""
        self.requests = 0


def serve(
    module: Any,
    api_key: int,
    api_version: int,
    counters: ApiCounters,
    intercept: Intercept | None,
    node: Any,
) -> Generator[None, None, ServedVersion]:
    """Compile the `ServedVersion` of this key and version with the handler of ``module``, in steps. If ``node`` has an
    authorizer, the handler is behind a guard."""
    if hasattr(module, "codec"):
        codec = module.codec(api_version)
        decode, encode, errors = codec.decode, codec.encode, None
    else:
        errors = errors_in(api.response_class(api_key)) if api_key != api.FETCH else None
        yield
        decode = _decoder_of(module, api_key, api_version)
        yield
        encode = encoder(api.response_class(api_key), api_version)
        yield
    shares = isgeneratorfunction(module.handle)
    handle = _sharing(module.handle) if shares else module.handle
    work = _work_of(module) if intercept is None else None
    if getattr(node, "authorizer", None) is not None:
        from kpybroker.requests.guards.stage import guarded  # not of a plain start

        handle, work = guarded(node, api_key, handle, work)
        if intercept is not None:
            work = None
        yield
    served = ServedVersion(
        decode,
        handle if intercept is None else intercept(api_key, handle),
        encode,
        counters.prepare(),
        errors,
        work,
        header_v1=response_header_version(api_key, api_version) == 1,
        is_whole=TRAITS[api_key].is_whole and hasattr(module, "codec"),
        sends_files=api_key in _SENDING_FILES,
    )
    served.shares = shares and intercept is None
    if hasattr(module, "codec"):
        served.decode_in_steps = codec.decode_in_steps
    served.answers_long = errors is not None and (shares or hasattr(module, "FORWARDED"))
    return served


def _decoder_of(module: Any, api_key: int, api_version: int) -> Callable[[memoryview, int], tuple[Any, int]]:
    """The decoder of requests that are decoded as a whole: the module's own, if it has one, or the compiled one."""
    if hasattr(module, "request_decoder"):
        decode: Callable[[memoryview, int], tuple[Any, int]] = module.request_decoder(api_version).decode
        return decode
    return decoder(api.request_class(api_key), api_version)


def _sharing(handle: Callable[[Any, Any, Call], Work]) -> Handle:
    """Wrap a handler that works in steps into one that returns its answer or a `Pending`."""
    return lambda broker, request, call: call.peer.share(handle(broker, request, call))


def _work_of(module: Any) -> Callable[..., Work] | None:
    """A module's handler that works in steps: the only one, or the one for large requests; None without one."""
    work: Callable[..., Work] | None = getattr(module, "handle_in_steps", None)
    return module.handle if isgeneratorfunction(module.handle) else work
