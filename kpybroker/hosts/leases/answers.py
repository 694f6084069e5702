"""The answers to requests for leases over the second port.

Bodies are JSON. The sender needs READ on a topic where an authorizer is configured, and it has to be able to open the
files itself: nothing of a record is in an answer.
"""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final

from kpybroker.hosts.leases.leases import DEFAULT_MS, TooManyLeases
from kpybroker.hosts.leases.lender import Lender
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.machines.lease_manifest import LeaseRequest, Manifest, to_json
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.http.request import JSON, HttpAnswer, HttpRefused, Request

MOST_PARTITIONS: Final = 10_000


class LeaseAnswers:
    """The answers of one lender."""

    def __init__(self, lender: Lender, authorizer: Authorizer | None) -> None:
        self.lender = lender
        self._authorizer = authorizer

    async def begin(self, request: Request) -> HttpAnswer:
        """Begin a lease. The answer is its manifest."""
        try:
            body = _body_of(request)
            wanted = [_partition(each) for each in _list_of(body, "partitions")]
            duration_ms = _number_of(body, "duration_ms", DEFAULT_MS)
        except HttpRefused as refused:
            return HttpAnswer(refused.status, [f"{refused}\n".encode()])
        if len(wanted) > MOST_PARTITIONS:
            return _refusal(f"a lease has at most {MOST_PARTITIONS} partitions")
        lent: asyncio.Future[Manifest] = asyncio.get_running_loop().create_future()

        def take(manifest: Manifest) -> None:
            if lent.cancelled():
                self.lender.give_back(manifest.lease)
            else:
                lent.set_result(manifest)

        try:
            self.lender.borrow(wanted, duration_ms, lambda topic: self._may_read(request, topic), take)
        except TooManyLeases as error:
            return HttpAnswer(HTTPStatus.TOO_MANY_REQUESTS, [f"{error}\n".encode()])
        return HttpAnswer(HTTPStatus.OK, [to_json(await lent)], JSON)

    async def renew(self, request: Request) -> HttpAnswer:
        """Let a lease last."""
        try:
            duration_ms = self.lender.renew(_lease_of(request))
        except HttpRefused as refused:
            return HttpAnswer(refused.status, [f"{refused}\n".encode()])
        if duration_ms is None:
            return HttpAnswer(HTTPStatus.NOT_FOUND, [b"there is no such lease, or it is over\n"])
        return HttpAnswer(HTTPStatus.OK, [json.dumps({"expires_in_ms": duration_ms}).encode()], JSON)

    async def end(self, request: Request) -> HttpAnswer:
        """End a lease."""
        try:
            ended = self.lender.give_back(_lease_of(request))
        except HttpRefused as refused:
            return HttpAnswer(refused.status, [f"{refused}\n".encode()])
        return HttpAnswer(HTTPStatus.OK, [json.dumps({"ended": ended}).encode()], JSON)

    def _may_read(self, request: Request, topic: str) -> bool:
        if self._authorizer is None:
            return True
        host = java_address(request.host)
        try:
            return self._authorizer.allows(request.principal, host, AclOperation.READ, ResourceType.TOPIC, topic)
        except AuthorizerNotReady:
            return False


def _refusal(line: str) -> HttpAnswer:
    return HttpAnswer(HTTPStatus.BAD_REQUEST, [f"{line}\n".encode()])


def _body_of(request: Request) -> dict[str, Any]:
    """The JSON object in a request. Raises Refused. Browsers send this type to other sites only after asking."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise HttpRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type has to be {JSON}")
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise HttpRefused(HTTPStatus.BAD_REQUEST, "the body is no JSON object")
    return body


def _list_of(body: dict[str, Any], name: str) -> list[Any]:
    value = body.get(name)
    if not isinstance(value, list):
        raise HttpRefused(HTTPStatus.BAD_REQUEST, f"{name} is no list")
    return value


def _number_of(body: dict[str, Any], name: str, default: int) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise HttpRefused(HTTPStatus.BAD_REQUEST, f"{name} is no whole number")
    return value


def _partition(value: Any) -> LeaseRequest:
    match value:
        case [str() as topic, int() as partition]:
            return LeaseRequest(topic, partition)
        case [str() as topic, int() as partition, int() as start_offset]:
            return LeaseRequest(topic, partition, start_offset)
    raise HttpRefused(HTTPStatus.BAD_REQUEST, "partitions are lists of a topic, a number and perhaps an offset")


def _lease_of(request: Request) -> str:
    value = _body_of(request).get("lease")
    if not isinstance(value, str):
        raise HttpRefused(HTTPStatus.BAD_REQUEST, "lease is no text")
    return value
