"""The calculator: arithmetic and the functions of ``math``, evaluated by ``simpleeval`` within bounds.

Three bounds keep it safe: the characters that may occur, the nodes of the syntax tree that are evaluated
(numbers, operators, names of constants, calls of ``math`` by name, lists of numbers in calls), and the size
of any number. The bounds on length, depth and size also limit the time.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, jsonify, request
from simpleeval import InvalidExpression, SimpleEval  # type: ignore[import-untyped]

from flask_tools.inputs import ToolError, json_object, query, required_text
from flask_tools.store import Service

_MAX_LENGTH = 500
_MAX_DEPTH = 100
_MAX_BITS = 1024  # of the largest float
_MAX_FACTORIAL = 170
_MAX_COMBINATORIC = 1000

_ALLOWED = re.compile(r"[0-9A-Za-z_.,()\[\]+\-*/% \t\r\n]*")
# refused before parsing: Python's parser writes a warning about `1or 2` to standard error
_GLUED_KEYWORD = re.compile(r"(?<![A-Za-z_])[0-9][0-9A-Za-z_.]*(?:and|else|for|if|in|is|or|not)")
_HINTS = {"^": "powers are written **", '"': "text is not a number", "'": "text is not a number"}


def blueprint(_: Service) -> Blueprint:
    """Return the route ``POST /calc``."""
    routes = Blueprint("calculator", __name__)

    @routes.post("/calc")
    def calc() -> Response:
        expression = required_text(json_object(request, "expression"), "expression", _MAX_LENGTH, lines=True)
        query(request)
        return jsonify({"expression": expression, "result": evaluate(expression)})

    return routes


def evaluate(expression: str) -> int | float:
    """Evaluate an arithmetic expression; the value is finite and real.

    Raises ``ToolError`` 400 ``bad_expression`` with the reason.
    """
    try:
        result: int | float = _Evaluator().eval(expression, _parse(expression))
        return _number(result)
    except InvalidExpression as error:
        raise _refused(str(error).removeprefix("Sorry, ")) from None
    except ZeroDivisionError:
        raise _refused("division by zero") from None
    except (ArithmeticError, ValueError, TypeError) as error:
        raise _refused(str(error)) from None


def _refused(reason: str) -> ToolError:
    return ToolError(
        400, "bad_expression", f"The expression cannot be evaluated: {reason[:200].rstrip('.')}."
    )


def _parse(expression: str) -> ast.expr:
    allowed = _ALLOWED.match(expression)
    if allowed and allowed.end() < len(expression):
        character = expression[allowed.end()]
        hint = f" ({_HINTS[character]})" if character in _HINTS else ""
        raise _refused(f"the character {character!a} is not allowed{hint}")
    if _GLUED_KEYWORD.search(expression):
        raise _refused("a number is followed by letters")
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "it is nested too deeply"
        raise _refused(f"it is not an expression: {reason}") from None
    _check_depth(tree)
    return tree


def _check_depth(tree: ast.expr) -> None:
    """Raise ``ToolError`` if the tree is too deep. Goes level by level, because recursion is limited."""
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return
    raise _refused(f"it is nested more than {_MAX_DEPTH} levels deep")


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidExpression(f"a part of it is {type(value).__name__}, not a real number")
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidExpression("a part of it is not finite")
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        raise InvalidExpression("a part of it is too large")
    return value


def _power(base: Any, exponent: Any) -> Any:
    whole = isinstance(base, int) and isinstance(exponent, int)
    if whole and abs(base) > 1 and abs(exponent) * (abs(base).bit_length() - 1) > _MAX_BITS:
        raise InvalidExpression("a power in it is too large")
    return base**exponent


def _bounded(function: Callable[..., Any], limit: int) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        if any(abs(argument) > limit for argument in arguments):
            raise InvalidExpression(f"{function.__name__} takes whole numbers up to {limit}")
        return function(*arguments)

    return call


def _functions() -> dict[str, Callable[..., Any]]:
    public = {name: getattr(math, name) for name in dir(math) if not name.startswith("_")}
    bounded = {
        "factorial": _bounded(math.factorial, _MAX_FACTORIAL),
        "comb": _bounded(math.comb, _MAX_COMBINATORIC),
        "perm": _bounded(math.perm, _MAX_COMBINATORIC),
    }
    return {name: value for name, value in public.items() if callable(value)} | bounded


_FUNCTIONS = _functions()
_CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau, "inf": math.inf, "nan": math.nan}
_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


class _Evaluator(SimpleEval):  # type: ignore[misc]  # simpleeval has no types
    def __init__(self) -> None:
        super().__init__(operators=_OPERATORS, functions=_FUNCTIONS, names=_CONSTANTS)
        self.nodes = {
            ast.Constant: lambda node: node.value,
            ast.BinOp: self._eval_binop,
            ast.UnaryOp: self._eval_unaryop,
            ast.Name: self._eval_name,
            ast.Call: self._eval_plain_call,
        }

    def _eval(self, node: ast.AST) -> Any:
        """Evaluate a part of the expression to a number of limited size."""
        return _number(super()._eval(node))

    def _eval_name(self, node: ast.Name) -> Any:
        if node.id not in _CONSTANTS:
            known = "is a function: call it" if node.id in _FUNCTIONS else "is not known"
            raise InvalidExpression(f"the name {node.id[:40]} {known}")
        return _CONSTANTS[node.id]

    def _eval_plain_call(self, node: ast.Call) -> Any:
        if not isinstance(node.func, ast.Name) or node.func.id not in _FUNCTIONS:
            raise InvalidExpression("only the functions of math can be called, by name, as in sqrt(2)")
        if node.keywords:
            raise InvalidExpression("arguments are given by position")
        return _FUNCTIONS[node.func.id](*(self._argument(argument) for argument in node.args))

    def _argument(self, node: ast.AST) -> Any:
        """Evaluate a number, or, for functions such as ``fsum`` and ``dist``, a list of numbers."""
        if isinstance(node, (ast.List, ast.Tuple)):
            return [self._eval(element) for element in node.elts]
        return self._eval(node)
