"""Plain: what a model wrote in LaTeX, Markdown or HTML, as the plain text that a reader sees."""

from __future__ import annotations

import re

_CHARACTERS = str.maketrans(
    {
        **dict.fromkeys("\u2212\u2010\u2011\u207b\ufe63\uff0d", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad", ""),
        **{chr(0xFF10 + digit): str(digit) for digit in range(10)},
        "\uff0c": ",",
        "\uff0e": ".",
        "\uff05": "%",
        "\uff04": "$",
        "\u066c": ",",
        "\u066b": ".",
        "\u066a": "%",
        "\u2215": "/",
        "\u2044": "/",
        "\u22c5": "·",
        "\u2009": "\u202f",
    }
)
_HIGH = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True))
_HIGH_RUN = re.compile("-?[⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = {
    "½": "1/2",
    "⅓": "1/3",
    "⅔": "2/3",
    "¼": "1/4",
    "¾": "3/4",
    "⅕": "1/5",
    "⅖": "2/5",
    "⅗": "3/5",
    "⅘": "4/5",
    "⅙": "1/6",
    "⅚": "5/6",
    "⅛": "1/8",
    "⅜": "3/8",
    "⅝": "5/8",
    "⅞": "7/8",
    "⅐": "1/7",
    "⅑": "1/9",
    "⅒": "1/10",
}
_VULGAR_ONE = re.compile(f"(\\d?)\\s*([{''.join(_VULGAR)}])")

_COMMANDS = {
    **dict.fromkeys(("$", "%", "#", "&", "_"), None),
    "!": "",
    ",": "\u202f",
    ";": " ",
    ":": " ",
    " ": " ",
    "quad": " ",
    "qquad": " ",
    "(": " ",
    ")": " ",
    "[": "\n",
    "]": "\n",
    "\\": "\n",
    "{": "{",
    "}": "}",
    "thinspace": "\u202f",
    **dict.fromkeys(("left", "right", "big", "Big", "displaystyle", "mathstrut", "limits"), ""),
    "times": "×",
    "cdot": "·",
    "ast": "*",
    "div": "÷",
    "pm": "±",
    "mp": "±",
    "pi": "π",
    "sqrt": "√",
    "infty": "∞",
    "circ": "°",
    "degree": "°",
    "percent": "%",
    "approx": "≈",
    "equiv": "=",
    "cong": "≈",
    "simeq": "≈",
    "sim": "~",
    **dict.fromkeys(("rightarrow", "to", "Rightarrow", "implies", "therefore", "iff"), "⇒"),
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "lt": "<",
    "gt": ">",
    "ne": "≠",
    "neq": "≠",
    "textdollar": "$",
    "pounds": "£",
    "euro": "€",
    "yen": "¥",
    "cents": "¢",
    "minus": "-",
    "ldots": "…",
    "dots": "…",
    "cdots": "…",
    "overline": "‾",
    "bar": "‾",
}
_COMMAND = re.compile(r"\\([A-Za-z]+|.|\n)\s?", re.DOTALL)
_BOX = re.compile(r"\\f?boxed\b\s*")
_FRACTION = re.compile(r"\\[dtc]?frac(?![A-Za-z])")
_SIMPLE = re.compile(r"\s*-?\d+(?:\.\d+)?\s*")
_MOST_NESTED = 20
_LONGEST = 2_000
"""Characters of a command's argument that are looked at: where braces never close, that many."""

_BOXED = ("\u2e28", "\u2e29")
"""Marks of our own around what stands in a box, since its braces are taken away."""

_ANNOTATION = re.compile(r"<<[^<>\n]*>>(?=\s*[-$]?[\d.])|<<[^<>\n]*\Z")
_HIGH_TAG = re.compile(r"<sup>\s*(-?\w+)\s*</sup>", re.IGNORECASE)
_ANSWER_TAG = re.compile(r"<(?:final[_ ]?)?answer>", re.IGNORECASE)
_BREAK_TAG = re.compile(r"<(?:br|/p|/div|/li|/answer|/think)\s*/?>", re.IGNORECASE)
_TAG = re.compile(r"</?[A-Za-z][^<>\n]{0,80}>")
_BLANKS = re.compile(r"[ \t]{2,}")
_STRUCK = re.compile(r"~~[^~\n]+~~")
_POWER = re.compile(r"(?<=\d)\*\*(?=-?\d)(?!\d+\*\*)")
_BOLD = re.compile(r"\*\*|(?<!\w)__|__(?!\w)|`+")
_STARS = re.compile(r"(?<![\w*)])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![\w*(])")
_LINES = re.compile(r"(?<!\w)_(?=[^\s_])([^_\n]*[^\s_])_(?!\w)")


def plain(text: str) -> str:
    """`text` as it reads once set: fractions as a/b, powers as ^, minus signs as -, no emphasis,
    nothing struck out; boxes stand between marks that `boxes` knows."""
    text = _VULGAR_ONE.sub(_vulgar, text.translate(_CHARACTERS))
    text = _HIGH_RUN.sub(_high, text)
    text = _ANNOTATION.sub("", text).replace("...", "…")
    text = _HIGH_TAG.sub(r"^\1", _ANSWER_TAG.sub("\nanswer: ", text))
    text = _STRUCK.sub(" ", _TAG.sub("", _BREAK_TAG.sub("\n", text)))
    if "\\" in text or "{" in text:
        text = _set(text)
    text = _BLANKS.sub(" ", text)
    text = _BOLD.sub("", _POWER.sub("^", text))
    return _LINES.sub(r"\1", _STARS.sub(r"\1", text))


def boxes(text: str) -> list[str]:
    """What stands in the boxes of a plain text, in order."""
    before, after = _BOXED
    return [part.partition(after)[0] for part in text.split(before)[1:]]


def unboxed(text: str) -> str:
    """A plain text without the marks of its boxes."""
    before, after = _BOXED
    return text.replace(before, " ").replace(after, " ")


def _vulgar(found: re.Match[str]) -> str:
    return f"{found[1]} {_VULGAR[found[2]]}" if found[1] else _VULGAR[found[2]]


def _high(found: re.Match[str]) -> str:
    before = found.string[: found.start()]
    raised = "".join(_HIGH.get(one, one) for one in found[0])
    # A minus before it may be its own (10⁻⁵) only where something is raised.
    return f"^{raised}" if before[-1:].isalnum() or before[-1:] == ")" else raised


def _set(text: str, depth: int = 0) -> str:
    """LaTeX set as plain text; braces go, what they held stays."""
    if depth > _MOST_NESTED:
        return text
    text = text.replace("{,}", ",").replace("{.}", ".").replace("^{\\circ}", "°")
    text = text.replace("^\\circ", "°")
    made: list[str] = []
    at = 0
    while at < len(text):
        if (box := _BOX.match(text, at)) is not None:
            inner, at = _argument(text, box.end())
            made.append(f"{_BOXED[0]}{_set(inner, depth + 1)}{_BOXED[1]}")
        elif (fraction := _FRACTION.match(text, at)) is not None:
            above, at = _argument(text, fraction.end())
            below, at = _argument(text, at)
            made.append(_fraction(made, _set(above, depth + 1), _set(below, depth + 1)))
        elif (command := _COMMAND.match(text, at)) is not None:
            made.append(_command(command[1]))
            at = command.end()
        else:
            if text[at] not in "{}":
                made.append(text[at])
            elif text[at] == "{" and made and made[-1].endswith("√"):
                inner, at = _argument(text, at)
                made.append(f"({_set(inner, depth + 1)})")
                continue
            at += 1
    return "".join(made)


def _command(name: str) -> str:
    known = _COMMANDS.get(name, "")
    return name if known is None else known


def _fraction(made: list[str], above: str, below: str) -> str:
    before = "".join(made[-3:]).rstrip()[-1:]
    if _SIMPLE.fullmatch(above) and _SIMPLE.fullmatch(below):
        # 2\frac{1}{2} is two and a half.
        return f"{' ' if before.isdigit() else ''}{above.strip()}/{below.strip()}"
    return f"(({above})/({below}))"


def _argument(text: str, at: int) -> tuple[str, int]:
    """What a command takes at `at`, and where it ends: what the braces there hold, or one
    character, or what is left where braces do not close."""
    while at < len(text) and text[at] == " ":
        at += 1
    if at >= len(text):
        return "", at
    if text[at] != "{":
        end = at + 1
        if text[at] == "\\" and (command := _COMMAND.match(text, at)) is not None:
            end = command.end()
        return text[at:end], end
    depth = 0
    for place in range(at, min(len(text), at + _LONGEST)):
        depth += {"{": 1, "}": -1}.get(text[place], 0)
        if depth == 0:
            return text[at + 1 : place], place + 1
    end = min(len(text), at + _LONGEST)
    return text[at + 1 : end], end
