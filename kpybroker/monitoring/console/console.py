"""The console of one node: it checks a request, finds its page and answers it as HTML or JSON.

At most a few requests are worked on at once; further ones are refused and can be sent again.
"""

import json
import logging
import secrets
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.answers.peers import consoles_of
from kpybroker.monitoring.console.asking import Asking, OtherNodeNeeded
from kpybroker.monitoring.console.decoding import Decoding
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.json_form import json_pieces
from kpybroker.monitoring.console.lag_history import LagHistory
from kpybroker.monitoring.console.move_rates import MoveRates
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.overviews import Overviews
from kpybroker.monitoring.console.pace import give_way, paced
from kpybroker.monitoring.console.page import Action, ConsolePage, Download, match
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.monitoring.console.protection import FORM, HEADERS, JSON, SAFE, check_site, check_token, token_of
from kpybroker.monitoring.console.query import Query, RefusedQuery, check_parts, from_json, parsed, read_form, token_in
from kpybroker.monitoring.console.rendering import (
    HTML,
    MENU,
    NOTHING_REFUSED,
    RefusedForm,
    environment,
    page_of,
    static_file,
)
from kpybroker.monitoring.console.schema_tasks import RegistryAddress
from kpybroker.monitoring.console.searches import Searches
from kpybroker.monitoring.console.source_looks import SourceLooks
from kpybroker.monitoring.console.sources import ConsoleSources
from kpybroker.monitoring.console.taps import Taps
from kpybroker.monitoring.console.topic_rates import TopicRates
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.history.recorder import HistoryRecorder
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.http.gate import credentials_in
from kpybroker.runtime.http.request import HttpAnswer, HttpRefused, Request
from kpybroker.runtime.io.scheduler import Scheduler

log = logging.getLogger("kpybroker.console")

MOST_AT_ONCE: Final = 8
"""The requests that are answered at once."""
API: Final = "/api"
NO_WRITES: Final = "the console only reads; kpybroker.console.write.enable=true lets it change something"
TIERS: Final = "/tiers"
"""The page that the menu has only where tiered storage is configured."""
MIRRORS_PAGE: Final = "/mirrors"
"""The page that the menu has only where a mirror is named."""
ONLY_CONTROLLER: Final = "this node is only a controller; the console of a broker has this page"


def load() -> None:
    """Load what takes long. In a thread."""
    environment()


class Console:
    """Answers requests."""

    def __init__(
        self,
        sources: ConsoleSources,
        scheduler: Scheduler,
        history: HistoryRecorder,
        *,
        is_writable: bool,
        registry: RegistryAddress | None = None,
    ) -> None:
        """``registry``: the schema registry of the records, if there is one."""
        self._node = NodeParts(
            sources,
            Asking(sources.role),
            history,
            LagHistory(scheduler, history),
            Overviews(scheduler, history),
            TopicRates(sources, scheduler),
            MoveRates(scheduler),
            Elsewhere(sources.role, sources.account_at),
            Searches(scheduler),
            Decoding(scheduler, registry),
            Taps(sources.server),
            SourceLooks(scheduler),
            is_writable,
        )
        is_controller = sources.role.is_controller_role
        self._pages = tuple(page for page in PAGES if page.is_of_controllers or not is_controller)
        self._secret = secrets.token_bytes(32)
        self._working = 0

    def close(self) -> None:
        """End what runs in the background."""
        self._node.rates.close()
        self._node.searches.close()
        self._node.decoding.close()
        self._node.taps.close()
        self._node.source_looks.close()

    @property
    def _menu(self) -> tuple[tuple[str, str], ...]:
        """The paths and names of the pages in the menu."""
        paths = {page.path for page in self._pages}
        role = self._node.role
        if role.is_controller_role or self._node.broker.remote_log is None:
            paths.discard(TIERS)
        if role.is_controller_role or not list(self._node.broker.mirrors or ()):
            paths.discard(MIRRORS_PAGE)
        return tuple((path, name) for path, name in MENU if path in paths)

    @property
    def _authorizer(self) -> Authorizer | None:
        return self._node.role.authorizer

    async def answer(self, request: Request) -> HttpAnswer:
        """The answer to a request, with the headers that every answer has."""
        as_json = request.path.startswith(API + "/")
        viewer = self._viewer(request)
        try:
            check_site(request.method, request.headers)
            if request.path.startswith("/static/") and request.method in SAFE:
                return _with_headers(static_file(request.path))
            if self._working >= MOST_AT_ONCE:
                raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, "the console is busy; try again in a moment")
            self._working += 1
            try:
                answer = await self._answered(request, viewer)
            finally:
                self._working -= 1
        except HttpRefused as refused:
            answer = await self._refusal(refused, viewer, request.path, as_json=as_json)
        return _with_headers(answer)

    def _viewer(self, request: Request) -> Viewer:
        found = credentials_in(request.headers.get("authorization", ""))
        has_logged_in = found is not None and request.principal != ANONYMOUS
        password = found[1] if found is not None and has_logged_in else None
        return Viewer(request.principal, request.host, self._authorizer, password)

    async def _refusal(self, refused: HttpRefused, viewer: Viewer, path: str, *, as_json: bool) -> HttpAnswer:
        """A refusal as a line of JSON, or as a page of its own."""
        if as_json:
            return _json(refused.status, {"error": str(refused)}, refused.headers)
        if environment() is not None:
            values = {
                "line": str(refused),
                "title": refused.status.phrase,
                "menu": self._menu,
                "refused": NOTHING_REFUSED,
                "way_on": self._way_on(viewer, path),
                "elsewhere": await self._elsewhere(refused, viewer),
            }
            return HttpAnswer(
                refused.status, await page_of("refused.html", "/refused", viewer, values), HTML, refused.headers
            )
        return HttpAnswer(refused.status, [f"{refused}\n".encode()], headers=refused.headers)

    async def _elsewhere(self, refused: HttpRefused, viewer: Viewer) -> str | None:
        """The address on the console of the node that does what was refused here, if the viewer's browser can reach
        it."""
        if not isinstance(refused, OtherNodeNeeded):
            return None
        url = (await consoles_of(self._node, viewer, {refused.node_id})).get(refused.node_id)
        return None if url is None else url.rstrip("/") + refused.path

    def _way_on(self, viewer: Viewer, path: str) -> tuple[str, str]:
        """The page of the menu that a refused page belongs to, or the first one that the viewer may see."""
        above = [each for each in self._menu if each[0] != "/" and each[0] != path and path.startswith(each[0][:-1])]
        may_see_node = viewer.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
        return (above or self._menu[0 if may_see_node else 1 :])[0]

    async def _answered(self, request: Request, viewer: Viewer) -> HttpAnswer:
        self._node.rates.look()
        if request.path == "/api/openapi.json":
            return static_file("/static/openapi.json")
        path = request.path.rstrip("/") or "/"
        if request.method in SAFE:
            return await self._shown(path, request, viewer)
        return await self._changed(path, request, viewer)

    async def _shown(self, path: str, request: Request, viewer: Viewer) -> HttpAnswer:
        for page in self._pages:
            for is_api, pattern in ((True, page.api_path), (False, page.path)):
                found = match(pattern, path)
                if found is not None:
                    query = parsed(request.query)
                    try:
                        value = await page.view(self._node, viewer, _with_path(query, found))
                    except RefusedQuery as refused:
                        if is_api or not page.template:
                            raise
                        form = RefusedForm(refused.status, str(refused), page.path, query.values)
                        return await self._page(page, viewer, refused.shown, query, form)
                    if isinstance(value, Download):
                        return _download(value)
                    if is_api:
                        pieces = [piece async for piece in paced(json_pieces(value))]
                        return HttpAnswer(HTTPStatus.OK, ["".join(pieces).encode()], JSON)
                    return await self._page(page, viewer, value, query)
        raise HttpRefused(
            HTTPStatus.NOT_FOUND, ONLY_CONTROLLER if self._is_on_brokers(path) else "there is no such page"
        )

    def _is_on_brokers(self, path: str) -> bool:
        """Whether brokers have this page and this node, a controller alone, does not."""
        others = (page for page in PAGES if page not in self._pages)
        return any(match(pattern, path) is not None for page in others for pattern in (page.path, page.api_path))

    async def _page(
        self, page: ConsolePage, viewer: Viewer, value: Any, query: Query, refused: RefusedForm = NOTHING_REFUSED
    ) -> HttpAnswer:
        values = {
            "menu": self._menu,
            "page": page,
            "query": query,
            "refused": refused,
            "title": page.title,
            "token": token_of(self._secret, str(viewer.principal)),
            "value": value,
            "writable": self._node.is_writable,
        }
        return HttpAnswer(refused.status, await page_of(page.template, page.path, viewer, values), HTML)

    async def _changed(self, path: str, request: Request, viewer: Viewer) -> HttpAnswer:
        is_api = path.startswith(API + "/")
        action, found = _action(path.removeprefix(API), request.method)
        if self._node.role.is_controller_role:
            raise HttpRefused(HTTPStatus.NOT_FOUND, ONLY_CONTROLLER)
        if action.is_change and not self._node.is_writable:
            raise HttpRefused(HTTPStatus.FORBIDDEN, NO_WRITES)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != (JSON if is_api else FORM):
            wanted = JSON if is_api else FORM
            raise HttpRefused(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type has to be {wanted}")
        if is_api:
            body = await _json_body(request.body)
        else:
            check_token(token_in(request.body), token_of(self._secret, str(viewer.principal)))
            body = await _form(request.body)
        try:
            where = await action.change(self._node, viewer, _with_path(body, found))
        except HttpRefused as refusal:
            if is_api:
                raise
            return await self._typed_again(action, path, (body, found), viewer, refusal)
        if is_api:
            return _json(HTTPStatus.OK, {"see": where})
        return HttpAnswer(HTTPStatus.SEE_OTHER, [], headers={"Location": where})

    async def _typed_again(
        self, action: Action, path: str, sent: tuple[Query, dict[str, str]], viewer: Viewer, refusal: HttpRefused
    ) -> HttpAnswer:
        """The page of a form that was refused, with the reason and what was typed. Raises Refused without such a
        page."""
        form, found = sent
        page = next((each for each in self._pages if each.path == action.shown_on), None)
        if page is None or environment() is None:
            raise refusal
        query = Query({name: form.text(name) for name in action.kept})
        try:
            value = await page.view(self._node, viewer, _with_path(query, found))
        except RefusedQuery as refused:
            value = refused.shown
        except HttpRefused:
            raise refusal from None
        elsewhere = await self._elsewhere(refusal, viewer)
        return await self._page(
            page, viewer, value, query, RefusedForm(refusal.status, str(refusal), path, form.values, elsewhere)
        )


async def _json_body(body: bytes) -> Query:
    check_parts(body)
    await give_way()
    found = from_json(body)
    await give_way()
    return found


async def _form(body: bytes) -> Query:
    values: dict[str, str] = {}
    async for _ in paced(read_form(body, values)):
        pass
    return Query(values)


def _action(path: str, method: str) -> tuple[Action, dict[str, str]]:
    if method == "POST":
        for action in ACTIONS:
            found = match(action.path, path)
            if found is not None:
                return action, found
    raise HttpRefused(HTTPStatus.METHOD_NOT_ALLOWED, f"{method} does nothing here")


def _with_path(query: Query, found: dict[str, str]) -> Query:
    """The values of a query and those in the path, which count more."""
    return Query({**query.values, **{name: unquote(text, errors="replace") for name, text in found.items()}})


def _json(status: HTTPStatus, value: Any, headers: Any = None) -> HttpAnswer:
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return HttpAnswer(status, [text.encode(), b"\n"], JSON, headers or {})


def _download(found: Download) -> HttpAnswer:
    headers = {"Content-Disposition": f'attachment; filename="{found.name}"'}
    return HttpAnswer(HTTPStatus.OK, [found.data], "application/octet-stream", headers)


def _with_headers(answer: HttpAnswer) -> HttpAnswer:
    return answer._replace(headers={**HEADERS, "Cache-Control": "no-store", **answer.headers})
