"""ControllerRegistration (70), version 0: where a controller listens and what it supports (KIP-919)."""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.forwarded import forward
from kpybroker.server.pending import Pending
from kpywire.messages.controller_registration import ControllerRegistrationRequest


def handle(controller: Context, request: ControllerRegistrationRequest, call: Call) -> Pending:
    """The active controller notes it; see :mod:`kpybroker.controller.brokers`."""
    return forward(controller, request, call)
