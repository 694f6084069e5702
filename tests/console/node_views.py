"""Nodes for the values of the cluster's page."""

from kpybroker.machines.console.nodes import NodeView


def broker_view(number: int, state: str, **changes: object) -> NodeView:
    """A broker in a state."""
    values: dict[str, object] = {
        "id": number,
        "roles": ("broker",),
        "state": state,
        "away_s": None,
        "is_away_longer": False,
        "advice": "",
        "addresses": (),
        "rack": None,
        "leaders": 0,
        "replicas": 0,
        "leads_quorum": False,
        "is_here": False,
        "console": None,
        "console_note": "",
    }
    return NodeView(**{**values, **changes})  # type: ignore[arg-type]
