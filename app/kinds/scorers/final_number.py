"""The number that an answer ends in, found where a reader would look for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum

from app.kinds.scorers import plain as texts
from app.kinds.scorers.arithmetic import worked_out
from app.kinds.scorers.number_words import in_words
from app.kinds.scorers.numbers import Number, Written, written


class Missing(Enum):
    """Why there is no number: NOTHING gives none; UNREADABLE gives something that is not one
    number, such as a range, a symbol, or two values."""

    NOTHING = "nothing"
    UNREADABLE = "unreadable"


Found = Number | Missing

_MOST_PLACES = 50
"""Places looked at, from the end; a text of ten thousand `answer is` has no better one."""
_LONGEST = 4_000
"""Characters of one sentence that are looked at, the last ones."""

_HEADING = re.compile(r"^[ \t]*(#{1,6})[ \t]*(.*)$", re.MULTILINE)
_MARK = "####"
_ANSWER_LINE = re.compile(
    r"^[ \t#>]*(?:the[ \t]+)?(?:final[ \t]+)?(?:answer|result)s?[ \t:.]*\n\s*",
    re.IGNORECASE | re.MULTILINE,
)
_IS_THE_ANSWER = re.compile(
    r"([-$€£]?\d[^\n=:]{0,40}?)\s+is\s+(?:the|my|our)\s+(?:final\s+|correct\s+)?answer\b",
    re.IGNORECASE,
)
_BULLET = re.compile(r"[-*+•]\s+(?=\S)")
_DENIED = re.compile(
    r"(?:[,;]?\s*[—–-]?\s*)\b(?:not|rather\s+than|instead\s+of)\s+[$€£]?\d[\d.,]*(?<![.,])",
    re.IGNORECASE,
)
_GIVEN = re.compile(r"(?<![A-Za-z])([A-Za-z])\s*=")
_TUPLE = re.compile(r"[\[({]\s*-?\d+,\d+\s*[\])}]|[{}]")
_SAID = re.compile(
    r"""\banswers?\b["'*_]*(?:\s+to\s+[^.:\n]{0,80}?|\s+for\s+[^.:\n]{0,80}?)?\s*
    (?:(?:is|are|was|equals|(?:would|should|must|will)\s+be|comes\s+(?:out\s+)?to)\b(?!\s*n[o']t)|[:=→⇒])
    (?:\s*(?:therefore|thus|hence|simply|just|then|exactly|:|=))*[\s,]*""",
    re.IGNORECASE | re.VERBOSE,
)
_REMARK = re.compile(r"\s*[(\[][^()\[\]]*[)\]]")
_SENTENCE_END = re.compile(r"(?<![^\w\s]\b[A-Za-z])[.!?;](?=\s|$|[\"'”’)])|\n")
_CLAUSE_END = re.compile(
    r",\s+(?![-\s$€£]*[\d.])(?!and\s+[-$]?\d)(?!or\s+[-$]?\d)|\s[—–]\s+(?=[A-Za-z])"
    r"|\s+-\s+(?=[A-Za-z]{2})"
    r"|\b(?:because|since|where|when|if|given|assuming|which|after|before|so|while|but|as)\b",
    re.IGNORECASE,
)
_SIDES = re.compile(r"(?<![<>!])(?:=>|->|[:=]?=|[≈→⇒])")
_UNEQUAL = re.compile(r"[<>≤≥≠]|!=")
_MONEY_BEFORE = re.compile(
    r"\b(?:Rs\b\.?|(?:US|A|AU|C|CA|HK|NZ|S|R|CAD|AUD)\s?(?=\$)|kr\b\.?|Fr\b\.|Fr\b|"
    r"(?:USD|EUR|GBP|INR|CHF|JPY|CNY|RMB|CAD|AUD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|SGD|HKD|TRY|RUB)\b\.?)"
    r"\s*(?=[-+]?[$]?\d)|\bRs\.?(?=\d)|\b(?:US|A|C|R)(?=\$)"
)
_CODE_ATTACHED = re.compile(r"\b(?:USD|EUR|GBP|INR|CHF|JPY|CAD|AUD|Rs|RS)(?=\d)")
_SHORTENED = re.compile(r"\b(approx|ca|no|nr|est|avg|max|min|vs|vol|fig|eq)\.(?=\s*[\d$~-])", re.I)
_NEGATIVE = re.compile(r"\bnegative\s+(?=[$€£]?[\d.])", re.IGNORECASE)
_MINUS = re.compile(
    r"(?:(?<=\bis)|(?<=\bare)|(?<=\bbe)|(?<=\bwas)|(?<=\bto)|(?<=\bof)|(?<=[=:({])|^)"
    r"(\s*)minus\s+(?=[$€£]?[\d.])",
    re.IGNORECASE | re.MULTILINE,
)
_OWED = re.compile(r"(?:\(\s*[$€£¥₹]\s?(?P<in>[\d.,]+)\s*\)|[$€£¥₹]\s?\(\s*(?P<out>[\d.,]+)\s*\))")
_APART = re.compile(r"^(\W*?)-\s+(?=[$€£¥₹]?\s?[\d.(])")
_LABEL = re.compile(
    r"\b(?:step|part|case|equation|eq|method|problem|question|option|example|figure|table)\s+"
    r"#?\d+[a-z]?\b\s*[:.)]?|\[\^?\d{1,3}\](?!\()",
    re.IGNORECASE,
)
_ENUMERATED = re.compile(r"^[ \t]*(?:\d{1,2}[.)]|[-*+•])[ \t]+(?=\S)", re.MULTILINE)
_FIRST_OF_LIST = re.compile(r"^[ \t]*1[.)][ \t]+\S", re.MULTILINE)
_NUMBERED_HEADING = re.compile(r"\s*\d{1,2}[.):]\s+[A-Za-z]")
_WORDS_AFTER_VERB = re.compile(
    r"\b(?:is|are|has|have|gets?|makes?|costs?|needs?|total(?:\s+of)?|leaves|left\s+with|equals)\s+"
    r"(?=[A-Za-z-]+)",
    re.IGNORECASE,
)
_COMPOUND = re.compile(
    r"\s?(?:h|hrs?|hours?|feet|foot|ft|'|years?|yrs?|days?|weeks?|months?|dollars?|pounds?|lbs?|"
    r"euros?|min|minutes?|m|meters?|metres?|km|kg|degrees?|°),?\s?(?:and\s)?",
    re.IGNORECASE,
)
_SMALLER = re.compile(
    r"[\d.,]+\s?(?:m|min|minutes?|s|sec|seconds?|in|inch|inches|\"|cents?|months?|weeks?|days?|hours?|"
    r"ounces|oz|pence|p|cm|g|'|′)\b",
    re.IGNORECASE,
)
_UNIT_LETTERS = frozenset("mgshlLWVANJKCFdtw")
_UNITS = re.compile(r"[A-Za-z]{2,}|[$€£]|(?<=\s)per\s[a-z]+")
_SYMBOL = re.compile(r"[π√∞±]")
_ALGEBRA = re.compile(r"\d[a-z]\b|\b[a-z]\s*[-+*/^]|[-+*/^]\s*[a-z]\b")
_ATTACHED = re.compile(r"[A-Za-z]+")
_OPERATOR_BEFORE = re.compile(r"[-+*·×÷/^√±∛]\s*[$€£(]*\s*\Z|[A-Za-z)]\s*[-–]\s*\Z")
_OPERATOR_AFTER = re.compile(r"\s*\)*\s*(?:[+*·×÷√π∞±]|/\s*[(\d]|-\s*[\d(]|-\s*[A-Za-z]\b)|!")
_JOINED = re.compile(r"[,;]|\b(?:and|or|to)\b|[-+*·×÷/^]", re.IGNORECASE)


def final_number(text: str) -> Number | None:
    """The number that `text` gives as its answer; None: it gives none, or none that can be read."""
    found = answered(text)
    return found if isinstance(found, Number) else None


def answered(text: str) -> Found:
    """The number that `text` gives as its answer, or why there is none.

    What follows the last `####` counts, or stands in the last \\boxed{}, or follows the last
    `answer is` or a heading that says answer; without any of these it is the last number of all.
    A heading is no mark, and of an equation its result counts.
    """
    text = _cleaned(text)
    boxed = texts.boxes(text)
    text = texts.unboxed(text)
    if (marked := _after_mark(text)) is not None:
        return marked
    if boxed:
        return _must(_value(boxed[-1]))
    for said in _said(text):
        found = _value(_clause(said))
        if found is not Missing.NOTHING:
            return found
    return _last(text)


def _cleaned(text: str) -> str:
    text = texts.plain(text)
    text = _CODE_ATTACHED.sub("$", _MONEY_BEFORE.sub(_dollar, text))
    text = _SHORTENED.sub(r"\1", text)
    return _MINUS.sub(r"\1-", _NEGATIVE.sub("-", text))


def _dollar(found: re.Match[str]) -> str:
    return "" if found.string[found.end() : found.end() + 1] == "$" else "$"


def _must(found: Found) -> Found:
    """Of a place that is there for a number: without one it cannot be read."""
    return Missing.UNREADABLE if found is Missing.NOTHING else found


def _after_mark(text: str) -> Found | None:
    """What the last #### gives; None: every one of them begins a heading."""
    for heading in list(_HEADING.finditer(text))[: -_MOST_PLACES - 1 : -1]:
        said = heading[2].strip(" \t#*:")
        if heading[1] == _MARK and _NUMBERED_HEADING.match(said) is None and _begins(said):
            return _must(_value(_clause(said)))
    return _inline_mark(text)


def _inline_mark(text: str) -> Found | None:
    """A #### within a line, as in `so 6 * 7 = 42 #### 42`."""
    before, mark, after = text.rpartition(_MARK)
    line = after.partition("\n")[0].strip()
    is_inline = mark and before.rpartition("\n")[2].strip(" #")
    return _must(_value(_clause(line))) if is_inline and line else None


def _begins(said: str) -> bool:
    """Whether what follows a #### begins with a value, and not with the words of a heading."""
    if re.match(r"[-+–~≈(\[\s]*[$€£¥₹]?[-\s(]*[.\d√π±]|[A-Za-z]\s*=", said) is not None:
        return True
    numbers = in_words(said)
    words = re.sub(r"[^A-Za-z]+", " ", said).split()
    return len(numbers) == 1 and len(words) <= 4 and bool(in_words(words[0]))


def _said(text: str) -> Iterator[str]:
    """What follows where the answer is said, from the end."""
    places = [(found.end(), found.end() + _LONGEST) for found in _SAID.finditer(text)]
    places += [(found.end(), found.end() + _LONGEST) for found in _ANSWER_LINE.finditer(text)]
    places += [found.span(1) for found in _IS_THE_ANSWER.finditer(text)]
    for begin, end in sorted(places)[: -_MOST_PLACES - 1 : -1]:
        said = text[begin:end]
        is_new_line = text[:begin].rstrip(" \t").endswith("\n")
        yield _BULLET.sub("", said, count=1) if is_new_line and _BULLET.match(said) else said


def _clause(said: str) -> str:
    """The first clause, without what only explains it."""
    owed = _OWED.match(said)
    head = _SENTENCE_END.split(said, maxsplit=1)[0] if owed is None else owed[0]
    without = _REMARK.sub(" ", head) if re.match(r"\W*[(\[]", head) is None else head
    return _CLAUSE_END.split(without, maxsplit=1)[0] or without


def _value(said: str) -> Found:
    """The number that all of `said` is; of an equation, its result."""
    if _UNEQUAL.search(said):
        return Missing.UNREADABLE if next(written(said), None) is not None else Missing.NOTHING
    sides = _SIDES.split(said)
    if len(set(_GIVEN.findall(said))) > 1 and "," in said:
        return Missing.UNREADABLE  # x = 3, y = 4
    found = _side(sides[-1])
    if isinstance(found, Number):
        return found
    worked = _worked(sides[-1], found)
    if worked is Missing.UNREADABLE:
        return worked
    for side in reversed(sides[:-1]):  # 18 = 9 * 2, and 18 = x
        if isinstance(other := _side(side), Number):
            return other
    return worked


def _worked(side: str, found: Found) -> Found:
    """The value of plain arithmetic; else what was found."""
    value = worked_out(_UNITS.sub("", side))
    return found if value is None else Number(value)


def _side(side: str) -> Found:
    """The one number of a side of an equation, beside words and units; never a part of a term."""
    if (owed := _OWED.search(side)) is not None and not re.search(r"\d", _OWED.sub("", side)):
        number = next((one.number for one in written(owed["in"] or owed["out"])), None)
        return Missing.UNREADABLE if number is None else Number(-number.value)
    if _TUPLE.search(side) is not None:
        return Missing.UNREADABLE
    if "(" in side and _has_number(_REMARK.sub("", side)):
        side = _REMARK.sub("", side)
    side = _APART.sub(r"\1-", side)
    found = list(written(side))
    if not found:
        words = in_words(side)
        if not words:
            return Missing.NOTHING if _SYMBOL.search(side) is None else Missing.UNREADABLE
        return Number(words[0]) if len(words) == 1 and words[0] is not None else Missing.UNREADABLE
    one = found[0]
    if one.number is None or not _stands_alone(side, one) or _goes_on(side, found):
        return Missing.UNREADABLE
    return one.number


def _has_number(text: str) -> bool:
    return next(written(text), None) is not None


def _stands_alone(side: str, one: Written) -> bool:
    """Whether the number is no part of a term, as it is in x + 1, 3x and 5!."""
    before, after = side[: one.start], side[one.end :]
    if _OPERATOR_BEFORE.search(before) is not None or _OPERATOR_AFTER.match(after) is not None:
        return False
    unit = _ATTACHED.match(after)
    return unit is None or len(unit[0]) > 1 or unit[0] in _UNIT_LETTERS


def _goes_on(side: str, found: list[Written]) -> bool:
    """Whether a second number belongs to the first: a list, a range, 5 feet 6 inches."""
    if len(found) == 1:
        return False
    joint = side[found[0].end : found[1].start]
    if _JOINED.search(joint) is not None:
        return True
    return _is_compound(side, found[:2])


def _is_compound(text: str, found: list[Written]) -> bool:
    """Whether two numbers are one amount, as in 5 feet 6 inches."""
    if len(found) < 2:
        return False
    first, second = found
    joint = text[first.end : second.start]
    return bool(_COMPOUND.fullmatch(joint) and _SMALLER.match(text, second.start))


def _last(text: str) -> Found:
    """The last number of a text that does not say where its answer is."""
    if _OWED.fullmatch(text.strip(" \n.")) is not None:
        return _side(text)
    for one in (_without_labels(text), text):
        found = _last_of(one)
        if found is not Missing.NOTHING:
            return found
    return Missing.NOTHING


def _without_labels(text: str) -> str:
    """Without headings, marks of lists, `Step 3:` and citations."""
    text = _HEADING.sub("", text)
    if _FIRST_OF_LIST.search(text) is not None:
        text = _ENUMERATED.sub("", text)
    return _LABEL.sub(" ", text)


def _last_of(text: str) -> Found:
    for whole in reversed(_SENTENCE_END.split(text)):
        sentence = whole if len(whole) <= _LONGEST else whole[-_LONGEST:]
        bare = _DENIED.sub("", _REMARK.sub(" ", sentence))
        used = bare if _has_number(bare) else sentence
        found = list(written(used))
        if not found:
            if (words := _words_said(sentence)) is not None:
                return words
            continue
        return _of_sentence(used, found)
    return Missing.NOTHING


def _words_said(sentence: str) -> Found | None:
    """Of `So there are twelve left` the 12; None: no verb that a number in words follows."""
    for place in reversed(list(_WORDS_AFTER_VERB.finditer(sentence))[-_MOST_PLACES:]):
        after = sentence[place.end() :]
        words = in_words(" ".join(after.split()[:8]))
        if words and in_words(after.split()[0]) and not re.match(r"one\s+of\b", after):
            return Missing.UNREADABLE if words[0] is None else Number(words[0])
    return None


def _of_sentence(sentence: str, found: list[Written]) -> Found:
    last = found[-1]
    sides = list(_SIDES.finditer(sentence))
    if sides:
        # After an equation its result counts, and not the number of what it is shared among.
        begins = sides[-1].end()
        ends = _CLAUSE_END.search(sentence, begins)
        if ends is None or last.start < ends.start():
            said = sentence if ends is None else sentence[: ends.start()]
            value = _value(said)
            # A step of algebra says no answer: 33 + x = 2x + x.
            is_step = value is Missing.UNREADABLE and _ALGEBRA.search(said[begins:])
            return Missing.NOTHING if is_step and not _SYMBOL.search(said) else value
    if _is_compound(sentence, found[-2:]):
        return Missing.UNREADABLE
    return Missing.UNREADABLE if last.number is None else last.number
