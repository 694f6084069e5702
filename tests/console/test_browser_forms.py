"""Every form of the console is filled and sent once, in a real browser, as a person would do it."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from console_node import console_node
from degraded import degrade
from running_search import running_search
from stage import Stage
from test_transactions_page import open_transaction

from kpybroker.monitoring.console import rendering
from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.page import match
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.monitoring.console.protection import HEADERS
from kpywire.record import Record
from support.browser import NAMED, Browser
from support.waiting import eventually

TEMPLATES = Path(rendering.__file__).with_name("templates")


class Kind(NamedTuple):
    """A form and the button that sends it."""

    method: str
    action: str
    button: str


class Expected(NamedTuple):
    """The texts for the fields of a form, and the page that follows: a part of its path, and of its text."""

    texts: dict[str, str]
    path: str
    text: str
    page: str = ""
    """The page that has the form, if not the first one with such a form."""


UNWANTED = "/topics/unwanted"
"""A topic that no other form needs."""
SETS_A_MODE = "/balance"
"""The page whose form adds a config that is no period: the forms of configs are sent before."""
FORMS = {
    Kind("get", "/find", "Find"): Expected({"q": "flig"}, "/find", "flights"),
    Kind("get", "/topics", "Find"): Expected({"q": "flig"}, "/topics", "flights"),
    Kind("get", "/records", "Show"): Expected({"partition": "0", "most": "3"}, "/records", "3 records"),
    Kind("get", "/records", "Filter"): Expected(
        {"text": "LX2", "json": '$.from == "LHR"', "header": "source=gate"}, "/records", "that were compared has"
    ),
    Kind("get", "/groups", "Find"): Expected({"q": "read"}, "/groups", "readers"),
    Kind("get", "/connections", "Find"): Expected({"q": "watched"}, "/connections", "watched"),
    Kind("get", "/configs", "Find"): Expected({"q": "write.enable"}, "/configs", "kpybroker.console.write.enable"),
    Kind("get", "/transactions", "Find"): Expected({"q": "pay"}, "/transactions", "payments"),
    Kind("get", "/group/reset", "Preview"): Expected({"value": "13"}, "/group/reset", "13"),
    Kind("post", "/group/reset", "Set 1 position"): Expected({}, "/group", "Group readers"),
    Kind("post", "/group/members/remove", "Remove"): Expected({}, "/group", "It has no member."),
    Kind("post", "/group/members/remove", "Remove all members"): Expected({}, "/group", "It has no member."),
    Kind("post", "/group/positions/delete", "Delete these positions"): Expected(
        {}, "/group", "It has committed nothing"
    ),
    Kind("post", "/group/delete", "Delete the group"): Expected({"typed": "readers"}, "/groups", "joined"),
    Kind("post", "/topics", "Create"): Expected(
        {"name": "made", "partitions": "2", "configs": "retention.ms=1000"}, "/topics/made", "Topic made"
    ),
    Kind("post", "/topics/{topic}/configs", "Change"): Expected({"value": "2 hours"}, "/topics/flights", "7200000"),
    Kind("post", "/configs", "Change"): Expected({"value": "2 days"}, "/configs", "172800000"),
    Kind("post", "/configs", "Remove"): Expected({}, "/configs", "Configs of node 1"),
    Kind("post", "/configs", "Set"): Expected({"name": "log.retention.ms", "value": "3 days"}, "/configs", "259200000"),
    Kind("post", "/topics/{topic}/configs", "Set"): Expected(
        {"name": "max.message.bytes", "value": "2 MiB"}, "/topics/flights", "2097152"
    ),
    Kind("post", "/topics/{topic}/configs", "Remove"): Expected({}, "/topics/flights", "Topic flights"),
    Kind("post", "/topics/{topic}/partitions", "Add partitions"): Expected(
        {"count": "5"}, "/topics/flights", "Partitions\n5"
    ),
    Kind("post", "/topics/{topic}/records/delete", "Delete records"): Expected(
        {"partition": "0", "before": "2"}, "/topics/flights", "Topic flights"
    ),
    Kind("post", "/topics/{topic}/delete", "Delete the topic"): Expected(
        {"confirm": "unwanted"}, "/topics", "topic", UNWANTED
    ),
    Kind("post", "/topics/{topic}/records", "Produce"): Expected(
        {"key": "k", "value": "by hand", "headers": "a=b"}, "/records", "by hand"
    ),
    Kind("post", "/searches", "Search all records"): Expected({}, "/searches/", "Search of flights"),
    Kind("post", "/searches/{search}/more", "Search on"): Expected({}, "/searches/", "Search of crowded"),
    Kind("post", "/searches/{search}/cancel", "Cancel"): Expected({}, "/searches/", "Cancelled"),
    Kind("post", "/brokers/unregister", "Unregister"): Expected({"typed": "7"}, "/", "Nodes"),
    Kind("post", "/moves/cancel", "Cancel the move"): Expected({}, "/", "Nodes"),
    Kind("post", "/throttles/remove", "Remove the throttle"): Expected({}, "/", "Nodes"),
    Kind("post", "/elections", "Elect"): Expected({}, "/", "Nodes"),
    Kind("post", "/features", "Set the level"): Expected({"level": "1"}, "/quorum", "Quorum"),
    Kind("post", "/transactions/abort", "Abort, and fence the producer"): Expected({}, "/transactions", "payments"),
    Kind("post", "/balance/stop", "Stop, and cancel its moves"): Expected({}, "/balance", "Mode\nadvise"),
    Kind("post", "/balance", "Set the mode"): Expected({"mode": "off"}, "/balance", "Mode\noff"),
}
"""Every form, with the values that a person types."""

FOUND = """[...document.forms].flatMap((form) => [...form.querySelectorAll("button, input[type=submit]")]
  .map((button) => [form.method, new URL(form.action).pathname, button.textContent]))"""
PRESSED = """(() => {
  const [method, path, button, texts] = %s;
  for (const form of document.forms) {
    if (form.method !== method || new URL(form.action).pathname !== path) continue;
    const pressed = [...form.querySelectorAll("button")].find((each) => each.textContent === button);
    if (!pressed) continue;
    for (const [name, text] of Object.entries(texts)) form.querySelector(`[name="${name}"]`).value = text;
    if (!form.checkValidity()) return false;
    pressed.click();
    return true;
  }
  return false;
})()"""


def action_of(path: str) -> str:
    """The address in the tables of the console that a form is sent to."""
    patterns = [*(action.path for action in ACTIONS), *(page.path for page in PAGES)]
    return next(each for each in patterns if match(each, path) is not None)


def kinds_in_templates() -> set[tuple[str, str]]:
    """The method and address of each form that templates contain, under whatever condition."""
    found = set()
    for template in TEMPLATES.iterdir():
        for attributes in re.findall(r"<form\b([^>]*)>", template.read_text(encoding="utf-8")):
            method = re.search(r'method="(\w+)"', attributes)
            action = re.search(r'action="([^"]+)"', attributes)
            assert action is not None, (template.name, attributes)
            path = re.sub(r"{{.*?}}", "x", action[1])
            found.add(("get" if method is None else method[1], action_of(path)))
    return found


@pytest.fixture
def stage() -> Iterator[Stage]:
    with console_node(kpybroker_console_write_enable="true", kpybroker_console_hosts=NAMED) as node:
        made = Stage(node)
        node.create("unwanted")
        node.create("moving")
        degrade(node, "moving")
        lower = {"feature": "eligible.leader.replicas.version", "level": 0, "lower": True}  # the first on its page
        assert node.post("/features", **lower).status == 200
        assert node.post("/topics/flights/configs", name="retention.ms", value="123456789").status == 200
        assert node.post("/configs", name="log.retention.ms", value="123456789").status == 200
        yield made
        made.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as made:
        yield made


@pytest.fixture
def running(stage: Stage) -> Iterator[str]:
    """The address of a search that does not end by itself."""
    with running_search(stage.node, "flights") as see:
        yield see


def full(stage: Stage) -> str:
    """The address of a search that has found enough."""
    stage.node.create("crowded")
    stage.node.produce("crowded", [Record(value=b"same", timestamp=1)] * 500)
    see: str = stage.node.post("/searches", topic="crowded", text="same").json["see"]
    eventually(lambda: stage.node.get(f"/api{see}").json["may_go_on"], "the search has found enough")
    return see


@pytest.mark.parametrize("has_script", [True, False], ids=["with script", "without script"])
def test_a_browser_can_send_every_form(stage: Stage, browser: Browser, running: str, has_script: bool) -> None:
    open_transaction(stage.node, "payments", "flights")
    browser.call("Emulation.setScriptExecutionDisabled", value=not has_script)
    here = f"http://127.0.0.1:{stage.node.node.http_port}"
    filtered = "/records?topic=flights&text=LX2"
    pages = [
        running,  # first: a search that is not looked at for a while ends
        *(stage.address(page, page.path) for page in PAGES if page.template and page.path != SETS_A_MODE),
        filtered,
        "/group?id=joined",
        full(stage),
        SETS_A_MODE,
    ]
    sent: set[Kind] = set()
    for page in pages:
        restore_groups(stage)
        if page == SETS_A_MODE:
            assert stage.node.post(page, mode="auto").status == 200, "only then it can be stopped"
        browser.open(here + page, theme="light")
        for method, path, button in browser.run(FOUND):
            kind = Kind(method, action_of(path), button)
            assert kind in FORMS, f"{page} has a form that this test does not send: {kind}"
            if kind not in sent:
                restore_groups(stage)
                where = FORMS[kind].page or page
                send(browser, here + where, kind, path.replace(page, where))
                sent.add(kind)
    assert sent == set(FORMS)
    assert kinds_in_templates() == {(kind.method, kind.action) for kind in sent}
    browser.call("Emulation.setScriptExecutionDisabled", value=False)


def restore_groups(stage: Stage) -> None:
    """Let the groups have the position and the member that a form may have taken."""
    stage.node.commit("readers", "flights", 5)
    if not stage.node.get("/api/group", id="joined").json["members"]:
        stage.node.join(stage.connected, "joined")


def test_a_form_works_where_browsers_send_only_the_origin(stage: Stage, browser: Browser) -> None:
    page = f"http://{NAMED}:{stage.node.node.http_port}/records?topic=flights&key=LX2"
    send(browser, page, Kind("post", "/searches", "Search all records"), "/searches")


def test_a_form_that_browsers_cannot_send_is_found(
    stage: Stage, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: a policy by which browsers hide the origin of the console's own forms."""
    page, kind = f"http://{NAMED}:{stage.node.node.http_port}/topics", Kind("post", "/topics", "Create")
    monkeypatch.setitem(HEADERS, "Referrer-Policy", "no-referrer")
    with pytest.raises(AssertionError, match="is answered 403"):
        send(browser, page, kind, "/topics")
    monkeypatch.undo()
    send(browser, page, kind, "/topics")


@pytest.mark.parametrize("host", ["127.0.0.1", NAMED])
def test_a_form_of_another_site_is_refused(stage: Stage, browser: Browser, host: str) -> None:
    token = re.search(r'name="token" value="(\w+)"', stage.node.get("/topics").text)
    assert token is not None
    action = f"http://{host}:{stage.node.node.http_port}/topics"
    fields = f"<input name=name value=forged><input name=token value={token[1]}>"
    browser.open(f"data:text/html,<form method=post action={action}>{fields}</form>", theme="light")
    status, _ = browser.follow("document.forms[0].submit() || true")
    assert status == 403
    assert stage.node.get("/api/topics/forged").status == 404


def send(browser: Browser, page: str, kind: Kind, path: str) -> None:
    """Fill a form of a page, press its button, and check the page that follows."""

    expected = FORMS[kind]
    browser.open(page, theme="light")
    arguments = json.dumps([kind.method, path, kind.button, expected.texts])
    status, address = browser.follow(PRESSED % arguments)
    shown = browser.run("document.getElementById('main').innerText")
    assert status == 200, f"{kind} is answered {status}: {shown}"
    assert urlsplit(address).path.startswith(expected.path), (kind, address)
    values = browser.run("[...document.querySelectorAll('input')].map((each) => each.value).join(' ')")
    assert expected.text in shown + values, (kind, shown)
