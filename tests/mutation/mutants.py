"""The mutants of a module: one small change each, inside a function.

Left alone are code that no test should hold in place: docstrings, log lines, asserts, ``__repr__``, and blocks for type
checkers. Text is never changed.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
NOT_CHANGED: Final = ("__repr__", "__str__")
LOGS: Final = ("log", "_log", "logging")


class Mutant(NamedTuple):
    """A place in a module, and the change that is made there."""

    path: Path
    index: int
    """Its number among the mutants of the module."""
    line: int
    change: str


class _Places(ast.NodeTransformer):
    """Counts the places of a tree, and changes the wanted one."""

    def __init__(self, wanted: int = -1) -> None:
        self.wanted = wanted
        self.found: list[tuple[int, str]] = []
        self._depth = 0
        self._same_at_equality: set[ast.expr] = set()

    def _here(self, node: ast.AST, change: str) -> bool:
        if not self._depth:
            return False
        self.found.append((getattr(node, "lineno", 0), change))
        return len(self.found) - 1 == self.wanted

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name in NOT_CHANGED:
            return node
        self._depth += 1
        node.body = [each for statement in node.body for each in self._statement(statement)]
        self._depth -= 1
        return node

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        changed = self.visit(node)
        return changed if isinstance(changed, list) else [changed]

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        if node.value is not None:
            node.value = self.visit(node.value)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg == "strict":
            return node  # of zip, which is given sequences of one length
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        return _removed(node) if self._here(node, "no raise") else node

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Constant):
            return node
        if isinstance(node.value, ast.Call):
            called = node.value.func
            if ast.unparse(called).split(".")[0] in LOGS or ast.unparse(called).startswith("self._log"):
                return node
            if self._here(node, f"without {ast.unparse(called)}(...)"):
                return _removed(node)
        return self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        target = node.targets[0]
        if isinstance(target, ast.Attribute | ast.Subscript) and self._here(
            node, f"without {ast.unparse(target)} = ..."
        ):
            return _removed(node)
        node.value = self.visit(node.value)
        return node

    def visit_Continue(self, node: ast.Continue) -> ast.AST:
        return ast.copy_location(ast.Break(), node) if self._here(node, "continue -> break") else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        for place, operator in enumerate(node.ops):
            other = COMPARISONS[type(operator)]
            if node in self._same_at_equality:
                continue
            if self._here(node, f"{type(operator).__name__} -> {other.__name__}: {ast.unparse(node)}"):
                node.ops[place] = other()
        return self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        if self._here(node, f"-> {other.__name__.lower()}: {ast.unparse(node)}"):
            node.op = other()
        return self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self._negative(node, node.operand.value)
        if isinstance(node.op, ast.Not) and self._here(node, f"without not: {ast.unparse(node)}"):
            return self.visit(node.operand)
        return self.generic_visit(node)

    def _negative(self, node: ast.UnaryOp, size: Any) -> ast.AST:
        """A number below zero comes closer to it: -1 becomes 0, since -2 would often stand for the same as -1."""
        if isinstance(size, int) and self._here(node, f"-{size} -> {1 - size}"):
            return ast.copy_location(ast.Constant(1 - size), node)
        return node

    def _arithmetic(self, node: Any) -> ast.AST:
        other = OPERATORS.get(type(node.op))
        is_text = any(isinstance(each, ast.JoinedStr) or _is_text(each) for each in ast.walk(node))
        if other is not None and not is_text and self._here(node, f"-> {other.__name__}: {ast.unparse(node)}"):
            node.op = other()
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        return self._arithmetic(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        return self._arithmetic(node)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> ast.AST:
        value = node.value
        if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Slice):
            return node  # the part of a text that a message quotes
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        value = node.value
        if isinstance(value, bool):
            if self._here(node, f"{value} -> {not value}"):
                return ast.copy_location(ast.Constant(not value), node)
        elif isinstance(value, int) and self._here(node, f"{value} -> {value + 1}"):
            return ast.copy_location(ast.Constant(value + 1), node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if ast.unparse(node.test) == "TYPE_CHECKING":
            return node
        if _keeps_the_larger(node) or _reads_again(node):
            self._same_at_equality.add(node.test)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if _orders(node.test, node.body, node.orelse):
            self._same_at_equality.add(node.test)
        return self.generic_visit(node)


def _keeps_the_larger(node: ast.If) -> bool:
    """Whether it is `if a > b: b = a`, or with `<`: nothing changes where both are equal. `elif a < c: c = a` may
    follow: where `a` is equal to `b`, it is not beyond `c`."""
    only = node.body[0]
    if len(node.body) != 1 or not isinstance(only, ast.Assign) or not _orders(node.test, only.targets[0], only.value):
        return False
    return not node.orelse or (isinstance(node.orelse[0], ast.If) and _keeps_the_larger(node.orelse[0]))


def _reads_again(node: ast.If) -> bool:
    """Whether it is `if n > 127: n, position = read(buffer, position - 1)`: the general way to read a number, which
    says the same of one that is short."""
    only = node.body[0]
    return (
        isinstance(node.test, ast.Compare)
        and isinstance(node.test.ops[0], ast.Gt)
        and isinstance(only, ast.Assign)
        and isinstance(only.targets[0], ast.Tuple)
        and isinstance(only.value, ast.Call)
        and ast.unparse(only.targets[0].elts[0]) == ast.unparse(node.test.left)
        and any(isinstance(each, ast.BinOp) for each in only.value.args)
    )


def _orders(test: ast.expr, *compared: ast.expr) -> bool:
    """Whether a condition asks which of two values is the larger one."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Gt | ast.GtE | ast.Lt | ast.LtE)
        and {ast.unparse(each) for each in (test.left, *test.comparators)} == {ast.unparse(each) for each in compared}
    )


def _removed(node: ast.stmt) -> ast.stmt:
    """A statement that is not reached: what it names outside its function stays named, `super()` for one."""
    return ast.copy_location(ast.If(ast.Constant(False), [node], []), node)


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def mutants_of(path: Path) -> Iterator[Mutant]:
    """All mutants of a module."""
    places = _Places()
    places.visit(ast.parse(path.read_text()))
    for index, (line, change) in enumerate(places.found):
        yield Mutant(path, index, line, change)


def tree_with(mutant: Mutant) -> ast.Module:
    """The module with the change."""
    tree = _Places(mutant.index).visit(ast.parse(mutant.path.read_text()))
    return ast.fix_missing_locations(tree)
