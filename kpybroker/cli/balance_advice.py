"""``kpybroker balance advice``: the plan of the cluster's own balancer, from the console of the active controller."""

import json
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import click

from kpybroker.cli.options import json_output
from kpybroker.cli.tables import printable, show_json
from kpybroker.machines.balance.words import size_words

TIMEOUT_S: Final = 10.0
MOST_BYTES: Final = 16 * 1024 * 1024
SHOWN_MOVES: Final = 20


@click.command()
@click.argument("url", metavar="URL")
@click.option(
    "-o",
    "--output",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the plan to this file, for kpybroker balance apply.",
)
@json_output
def advice(url: str, path: Path | None, as_json: bool) -> None:
    """Show what the cluster's own balancer does and advises, with the reason of each move.

    URL is the address of the console of the node whose controller is active, such as http://HOST:9404.
    """
    page = _page(url)
    try:
        line, mode, controller = page["standing"]["line"], page["mode"], page["controller"]
        found, is_here = page["standing"]["advice"] or {}, page["is_here"]
        moves = [(str(each["reason"]), each) for each in found.get("moves", ())]
        left_out, copied = int(found.get("moves_left_out", 0)), int(found.get("copied_bytes", 0))
    except (AttributeError, KeyError, TypeError, ValueError):
        raise click.ClickException(f"{url} is not the console of kpybroker") from None
    if not is_here:
        raise click.ClickException(f"the plan is at the node of the active controller: node {controller}")
    document = _document([each for _, each in moves])
    if path is not None:
        try:
            path.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
    if as_json:
        show_json(document)
        return
    click.echo(f"The balancer's mode is {mode}. {line}".rstrip())
    for text, _ in moves[:SHOWN_MOVES]:
        click.echo(printable(text))
    hidden = max(0, len(moves) - SHOWN_MOVES) + left_out
    if hidden:
        click.echo(f"... and {hidden} more")
    for name in found.get("hot", ()):
        click.echo(printable(f"HOT {name}: no placement helps; give the topic more partitions."))
    if moves:
        click.echo(f"{size_words(copied)} are copied in all.")


def _document(moves: list[Any]) -> dict[str, Any]:
    keys = {"copied_bytes": "bytes"}
    return {"version": 1, "partitions": [{keys.get(name, name): each[name] for name in each} for each in moves]}


def _page(url: str) -> Any:
    """The value of the page of the balancer. Raises ClickException."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.path not in ("", "/"):
        raise click.BadParameter(f"{url!r} is not such as http://HOST:9404", param_hint="URL")
    try:
        with urlopen(f"{parts.scheme}://{parts.netloc}/api/balance", timeout=TIMEOUT_S) as answer:
            data = answer.read(MOST_BYTES)
        return json.loads(data)
    except HTTPError as error:
        raise click.ClickException(f"{url} refuses the plan: {error.code} {error.reason}") from None
    except (URLError, HTTPException, OSError) as error:
        raise click.ClickException(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from None
    except (ValueError, RecursionError):
        raise click.ClickException(f"{url} is not the console of kpybroker") from None
