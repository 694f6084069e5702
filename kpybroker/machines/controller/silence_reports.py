"""Heartbeats that report silent brokers. `kpybroker.machines.controller.suspicion` decides what follows from it."""

from kpybroker.machines.controller import brokers
from kpybroker.machines.controller.heartbeats import SilenceReport
from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision
from kpybroker.machines.reporting_heartbeat import ReportingHeartbeatRequest


def heartbeat(state: ControllerState, request: ControllerRequest, now_ms: int) -> Decision:
    """Decide as on any other heartbeat, and note which brokers the sender does not hear."""
    message: ReportingHeartbeatRequest = request.message
    decision = brokers.heartbeat(state, request, now_ms)
    silent = {
        each.broker_id: SilenceReport(now_ms - max(each.silent_ms, 0), each.is_unanswered)
        for each in message.silent_brokers
        if each.broker_id in state.image.brokers and each.broker_id != message.broker_id
    }
    state.heartbeats.note_silent(message.broker_id, silent)
    return decision
