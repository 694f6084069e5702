"""Secrets are compared in constant time: an ordinary comparison ends at the first difference (CVE-2021-38153)."""

import ast

from sources import ROOT, python_files, relative, tree_of

WATCHED = (
    "kpybroker/machines/sasl/",
    "kpybroker/client/login.py",
    "kpybroker/hosts/network/login.py",
    "kpybroker/runtime/http/",
)
SECRETS = ("password", "proof", "stored_key", "server_key", "hmac", "signature", "digest", "nonce", "credential")


def compared(tree: ast.Module) -> list[str]:
    """The comparisons whose operands are named like secrets. That of a length, or with None, tells nothing."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not any(isinstance(each, (ast.Eq, ast.NotEq)) for each in node.ops):
            continue
        for side in (node.left, *node.comparators):
            name = ast.unparse(side)
            is_call = isinstance(side, ast.Call)
            if not is_call and any(word in name.rpartition(".")[2] for word in SECRETS):
                found.append(f"line {node.lineno}: {ast.unparse(node)}")
    return found


def test_secrets_are_not_compared_by_equality() -> None:
    watched = [path for path in python_files() if relative(path).startswith(WATCHED)]
    assert len(watched) > 10
    wrong = {relative(path): found for path in watched if (found := compared(tree_of(path)))}
    assert not wrong
    assert compared(ast.parse("if login.stored_key == other: pass")), "the search finds what is there"
    text = (ROOT / "kpybroker/machines/sasl/scram_server.py").read_text() + (
        ROOT / "kpybroker/machines/sasl/plain.py"
    ).read_text()
    assert text.count("compare_digest") >= 3
