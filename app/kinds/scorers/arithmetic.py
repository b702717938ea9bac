"""Plain arithmetic worked out, such as 3 * 4 + 2; a difference may be a range, and is none."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

_ONLY = re.compile(r"[\d\s.()+*/·×÷^\-]+")
_RANGE = re.compile(r"\s*\(?\s*[\d.]+\s*-\s*[\d.]+\s*\)?\s*")
_LONGEST = 120
_LARGEST_POWER = 64


def worked_out(text: str) -> Fraction | None:
    """The value of all of `text`; None: it is no arithmetic, or may be a range."""
    text = text.strip().strip("$").rstrip(".").strip()
    if len(text) > _LONGEST or _ONLY.fullmatch(text) is None or _RANGE.fullmatch(text):
        return None
    said = re.sub("[·×]", "*", text).replace("÷", "/").replace("^", "**")
    try:
        tree = ast.parse(said, mode="eval")
        return _of(tree.body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _of(node: ast.expr) -> Fraction:
    match node:
        case ast.Constant(value=int() | float()):
            return Fraction(str(node.value))
        case ast.UnaryOp(op=ast.USub()):
            return -_of(node.operand)
        case ast.UnaryOp(op=ast.UAdd()):
            return _of(node.operand)
        case ast.BinOp():
            return _joined(node.op, _of(node.left), _of(node.right))
        case _:
            raise ValueError("not arithmetic")


def _joined(operator: ast.operator, left: Fraction, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            return left / right
        case ast.Pow() if right.denominator == 1 and abs(right) <= _LARGEST_POWER:
            return Fraction(left ** int(right))
        case _:
            raise ValueError("not arithmetic")
