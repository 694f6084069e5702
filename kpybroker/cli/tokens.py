"""``kpybroker tokens``: delegation tokens, with which programs log in as their owner without knowing its password."""

from base64 import b64encode
from typing import Any

import click

from kpybroker.cli import Commands
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.periods import PERIOD
from kpybroker.cli.tables import columns, show_json, time_text
from kpybroker.client import token_requests
from kpybroker.client.client import Client
from kpybroker.client.token_requests import DelegationToken, TokenPrincipal
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes


class PrincipalType(click.ParamType[TokenPrincipal]):
    """``User:alice``; the type User may be left out."""

    name = "principal"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> Any:
        kind, colon, name = str(value).partition(":")
        if not colon:
            kind, name = "User", kind
        if not (kind and name):
            self.fail(f"{value!r} is not a principal such as User:alice", param, context)
        return TokenPrincipal(kind, name)


PRINCIPAL = PrincipalType()


@click.group(name="tokens", cls=Commands)
def command() -> None:
    """Create, renew, expire and list delegation tokens.

    Only a user that has logged in, and not by a token, may ask about them: give --command-config.
    """


@command.command()
@click.option("--owner", type=PRINCIPAL, metavar="USER", help="Create a token of this user. By default, your own.")
@click.option(
    "--renewer", "renewers", type=PRINCIPAL, multiple=True, metavar="USER", help="Who else may renew it. Repeatable."
)
@click.option(
    "--max-lifetime",
    "max_lifetime_ms",
    type=PERIOD,
    metavar="PERIOD",
    help="How long it can live, such as 7d or 12h. By default, as long as the cluster allows.",
)
@json_output
@bootstrap_server
def create(
    owner: TokenPrincipal | None,
    renewers: tuple[TokenPrincipal, ...],
    max_lifetime_ms: int | None,
    as_json: bool,
    server: str,
) -> None:
    """Create a token, and print it with its HMAC.

    Log in by SCRAM with the token's id as the user and the HMAC as the password, and tokenauth=true.
    """
    with connected(server) as client:
        token = token_requests.create(client, owner, renewers, max_lifetime_ms)
    if as_json:
        show_json(_as_dict(token, with_hmac=True))
        return
    expires, ends = time_text(token.expires_ms), time_text(token.ends_ms)
    click.echo(f"Token {token.token_id} of {token.owner}, expires {expires}, ends {ends}")
    click.echo(f"HMAC {_hmac(token)}")


@command.command()
@click.argument("token_id", metavar="TOKEN")
@click.option(
    "--period",
    "period_ms",
    type=PERIOD,
    metavar="PERIOD",
    help="Let it expire so long from now. By default, as long as the cluster allows.",
)
@bootstrap_server
def renew(token_id: str, period_ms: int | None, server: str) -> None:
    """Put off the expiry of a token."""
    with connected(server) as client:
        expires_ms = token_requests.renew(client, _named(client, token_id).hmac, period_ms)
    click.echo(f"Token {token_id} expires {time_text(expires_ms)}")


@command.command()
@click.argument("token_id", metavar="TOKEN")
@click.option(
    "--period", "period_ms", type=PERIOD, metavar="PERIOD", help="Let it expire so long from now, not at once."
)
@bootstrap_server
def expire(token_id: str, period_ms: int | None, server: str) -> None:
    """End a token. Connections that are open stay open until their session ends."""
    with connected(server) as client:
        expires_ms = token_requests.expire(client, _named(client, token_id).hmac, period_ms)
    click.echo(
        f"Removed token {token_id}" if period_ms is None else f"Token {token_id} expires {time_text(expires_ms)}"
    )


@command.command("list")
@click.option(
    "--owner",
    "owners",
    type=PRINCIPAL,
    multiple=True,
    metavar="USER",
    help="List only tokens of this user. Repeatable.",
)
@click.option("--show-hmac", is_flag=True, help="Print the HMACs, which are secrets.")
@json_output
@bootstrap_server
def list_(owners: tuple[TokenPrincipal, ...], show_hmac: bool, as_json: bool, server: str) -> None:
    """List the tokens that you may see."""
    with connected(server) as client:
        found = token_requests.tokens(client, owners or None)
    if as_json:
        show_json([_as_dict(each, with_hmac=show_hmac) for each in found])
        return
    if not found:
        click.echo("No tokens.", err=True)
        return
    headings = ["TOKEN", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "ENDS"]
    rows = [
        [
            each.token_id,
            each.owner,
            each.requester,
            ",".join(each.renewers) or "-",
            *map(time_text, (each.issued_ms, each.expires_ms, each.ends_ms)),
            *([_hmac(each)] if show_hmac else ()),
        ]
        for each in found
    ]
    click.echo(columns([*headings, "HMAC"] if show_hmac else headings, rows))


def _named(client: Client, token_id: str) -> DelegationToken:
    """The token with this id. A secret on the command line would be shown in the list of processes."""
    for token in token_requests.tokens(client):
        if token.token_id == token_id:
            return token
    raise KafkaError(error_codes.DELEGATION_TOKEN_NOT_FOUND, f"you see no token {token_id}")


def _hmac(token: DelegationToken) -> str:
    return b64encode(token.hmac).decode()


def _as_dict(token: DelegationToken, *, with_hmac: bool) -> dict[str, Any]:
    shown = token._asdict()
    del shown["hmac"]
    return {**shown, "hmac": _hmac(token)} if with_hmac else shown
