"""Numbers as people and models write them, read exactly, or known to be no number."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

_MAX_DIGITS = 60
"""A longer whole number is no answer to anything, and reading it takes long."""
_MAX_DECIMALS = 1_000
"""Past so many decimals nothing is told apart."""
_MAX_EXPONENT = 300

_DIGITS = r"""
    (?:\d{1,3}(?:,\d{3})+(?:\.\d+)?        # 1,234,567.5
     |\d{1,2}(?:,\d{2})+,\d{3}(?:\.\d+)?  # 12,34,567.5
     |\d{1,3}(?:\.\d{3}){2,}(?:,\d+)?      # 1.234.567,5
     |\d{1,3}(?:\.\d{3})+,\d+              # 1.234,5
     |\d{1,3}(?:[ \u00a0\u202f'’_]\d{3})+(?:[.,]\d+)?  # 1 234 567,5
     |0,\d+|\d+,(?:\d{1,2}|\d{5,})         # 0,125 and 3,14159: no thousands
     |\d+(?:\.\d+)?|\.\d+)
"""
_THINGS_RAISED = r"\^\s?\(?(?P<power>[-+]?\d{1,4})\)?(?![\d.])"
_SCALES: dict[str, Fraction] = {
    "hundred": Fraction(100),
    **dict.fromkeys(
        ("thousand", "thousands", "k", "tausend", "mil", "mille", "тысяч", "тысячи"),
        Fraction(10**3),
    ),
    **dict.fromkeys(("lakh", "lakhs", "lac", "lacs"), Fraction(10**5)),
    **dict.fromkeys(
        (
            "million",
            "millions",
            "m",
            "mn",
            "mln",
            "mio",
            "millionen",
            "millones",
            "milioni",
            "milione",
            "milhões",
            "milhão",
            "millón",
            "miljoen",
            "miljoner",
            "миллион",
            "миллиона",
            "миллионов",
        ),
        Fraction(10**6),
    ),
    **dict.fromkeys(("crore", "crores"), Fraction(10**7)),
    **dict.fromkeys(
        (
            "billion",
            "billions",
            "b",
            "bn",
            "bln",
            "mrd",
            "milliarde",
            "milliarden",
            "milliard",
            "milliards",
        ),
        Fraction(10**9),
    ),
    **dict.fromkeys(("trillion", "trillions", "t", "tn"), Fraction(10**12)),
    **dict.fromkeys(("halves",), Fraction(1, 2)),
    **dict.fromkeys(("thirds",), Fraction(1, 3)),
    **dict.fromkeys(("fourths",), Fraction(1, 4)),
    **dict.fromkeys(("fifths",), Fraction(1, 5)),
    **dict.fromkeys(("sixths",), Fraction(1, 6)),
    **dict.fromkeys(("sevenths",), Fraction(1, 7)),
    **dict.fromkeys(("eighths",), Fraction(1, 8)),
    **dict.fromkeys(("ninths",), Fraction(1, 9)),
    **dict.fromkeys(("tenths",), Fraction(1, 10)),
    **dict.fromkeys(("hundredths",), Fraction(1, 100)),
    **dict.fromkeys(("thousandths",), Fraction(1, 1000)),
}
_MYRIADS = {"": 1, "万": 10**4, "萬": 10**4, "億": 10**8, "亿": 10**8, "兆": 10**12}
_SHORT = ("k", "m", "b", "t")
_LONG_SCALES = "|".join(sorted((one for one in _SCALES if one not in _SHORT), key=len)[::-1])
_MONEY = r"[$€£¥₹₽₩₺₫₦₱₪฿₴]"
_ORDINALS = (
    *("zeroth", "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"),
    *("ninth", "tenth", "eleventh", "twelfth"),
)
_CARDINALS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
_TEN_TO = rf"""
    \s*(?:times|multiplied\sby)\s+(?:10|ten)\s+to\s+the\s+(?:power\s+(?:of\s+)?)?
    (?P<ten_to>[-+]?\d{{1,3}}|(?:(?:minus|negative)\s)?(?:{"|".join(_ORDINALS + _CARDINALS)}))
    (?:st|nd|rd|th)?\b(?:\s+power\b)?
"""
_NUMBER = re.compile(
    rf"""
    (?<![\w.^])
    (?:
     (?P<sign>[-+–]?)(?P<money>{_MONEY}\s?)?(?P<sign2>-)?
     (?:(?P<whole>\d+)[ ]+(?=\d+\s*/\s*\d))?
     (?P<digits>{_DIGITS})(?!\d|[.,:'’_]\d)
     (?:\s*/\s*(?P<over>\d+(?:\.\d+)?)(?!\d*[/.,]\d))?
     (?:{_THINGS_RAISED})?
     (?:[eE](?P<exponent>[-+]?\d{{1,3}})(?!\w|\.\d)
       |\s?[x×·*]\s?10\s?\^\s?\(?(?P<ten>[-+]?\d{{1,3}})\)?(?!\d)
       |{_TEN_TO})?
     (?P<scales>(?:[ \u00a0\u202f-]?(?:{_LONG_SCALES})\b\.?(?=\W|$))*)
     (?P<short>(?:(?-i:[kKM])|(?<=\d)[mbt](?=\W|$))(?![\w^/]))?
     (?P<myriad>\s?[万萬億亿兆])?
     (?P<more>\s+and\s+(?:(?:a|one)[\s-](?:half|third|quarter)|(?:two|three)[\s-](?:thirds|quarters))\b)?
     (?:[\s-]?(?P<percent>%|per[ ]?cent(?:age)?\b(?!\s+points?)|pct\b|prozent\b|procent\b)
       |(?P<mille>\s?‰))?
    |(?P<run>[-+]?{_MONEY}?\d+(?:[.,:'’_]\d+)*)
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_PIECES = {"half": Fraction(1, 2), "third": Fraction(1, 3), "quarter": Fraction(1, 4)}
_GROUPS = re.compile(r"[ \u00a0\u202f'’_]")
_LIST = re.compile(r"\d+(?:,\d+){2,}")
_BINDS_AFTER = re.compile(
    r"\s?[*·×]?\s?[√π∞∛]|\s?[*·×/]\s?(?:[\[({]|[a-z](?![a-z]))(?<!/h)|\^|\.?‾|\.\(\d|x\d|\s?/\s?\d",
    re.IGNORECASE,
)
_BINDS_BEFORE = re.compile(r"(?:[√π±∛]\s?\(?\s?|[\w)\]]\s?[/^]\s?\(?\s?-?)\Z")
_RANGE = re.compile(r"\s?[–—~]\s?|-|\.{2}|\s?…\s?|\s+(?:to|through|till|up\sto)\s+")
_LONGEST_JOINT = 10
_PAIR = re.compile(r"[\[({]\s?-?\d+,\d+\s?[\])}]")
_FROM = re.compile(r"\bfrom\s+\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Number:
    """`value` is what is written, 50 for `50 %`; `percent` says that it was written so."""

    value: Fraction
    percent: bool = False

    @property
    def readings(self) -> tuple[Fraction, ...]:
        """What it may mean: of 50 % both 50 and a half."""
        return (self.value, self.value / 100) if self.percent else (self.value,)

    def equals(self, other: Number, relative: float, absolute: float) -> bool:
        """Whether both may mean the same, as far apart as allowed from `other`.

        Two percentages are compared as written, so that 50 % is never half a percent.
        """
        mine = self.readings if self.percent != other.percent else (self.value,)
        theirs = other.readings if self.percent != other.percent else (other.value,)
        return any(
            abs(one - another) <= max(Fraction(absolute), Fraction(relative) * abs(another))
            for one in mine
            for another in theirs
        )


@dataclass(frozen=True, slots=True)
class Written:
    """Where in a text something stands that looks like a number. `number` None: it is none that
    can be read, such as a range, a date, a ratio or 2π."""

    start: int
    end: int
    number: Number | None


def written(text: str) -> Iterator[Written]:
    """Everything in a plain text that looks like a number, in order: signs, currencies, thousands
    separators, decimal commas, fractions, mixed numbers, powers of ten, percents, and words such as
    thousand and million after it. A range is one of them, and not its two ends."""
    before: Written | None = None
    for found in _NUMBER.finditer(text):
        one = Written(found.start(), found.end(), _read(found))
        if before is not None and _is_range(text, before, one):
            before = Written(before.start, one.end, None)
            continue
        if before is not None:
            yield before
        before = one
    if before is not None:
        yield before


def _is_range(text: str, before: Written, one: Written) -> bool:
    between = text[before.end : one.start]
    if len(between) > _LONGEST_JOINT:
        return False
    if between.isspace():
        return text[one.start] == "–"
    if _RANGE.fullmatch(between) is None:
        return False
    # What moved from 3 to 5 is 5.
    return "to" not in between or _FROM.search(text[: before.start][-10:]) is None


def _read(found: re.Match[str]) -> Number | None:
    text = found.string
    if _BINDS_AFTER.match(text, found.end()) or _binds_before(text, found):
        return None
    if found["run"] is not None:
        return _last_of_list(found["run"])
    digits = _plain(found["digits"])
    whole, _, decimals = digits.partition(".")
    if max(len(whole), len(found["whole"] or "")) > _MAX_DIGITS:
        return None
    if decimals and text.startswith("…", found.end()):
        return None
    value = Fraction(f"{whole or 0}.{decimals[:_MAX_DECIMALS]}" if decimals else whole)
    if (over := found["over"]) is not None:
        if Fraction(over) == 0 or len(over) > _MAX_DIGITS:
            return None
        value /= Fraction(over)
    value += int(found["whole"] or 0)
    if (power := found["power"]) is not None:
        raised = _raised(value, int(power))
        if raised is None:
            return None
        value = raised
    exponent = _exponent(found)
    if abs(exponent) > _MAX_EXPONENT:
        return None
    value *= Fraction(10) ** exponent
    for scale in re.findall(r"\w+", found["scales"].lower()):
        value *= _SCALES[scale]
    value *= _short(found) * _MYRIADS[(found["myriad"] or "").strip()]
    value += _piece(found["more"])
    if found["mille"]:
        value /= 1000
    minus = found["sign"] + (found["sign2"] or "")
    is_negative = "-" in minus or "–" in minus
    return Number(-value if is_negative else value, percent=found["percent"] is not None)


def _binds_before(text: str, found: re.Match[str]) -> bool:
    return (
        _BINDS_BEFORE.search(text, max(0, found.start() - 6), found.start()) is not None
        or _PAIR.match(text, max(0, found.start() - 1)) is not None
    )


def _last_of_list(run: str) -> Number | None:
    """Of `1,2,3` the 3; None: some other row of digits, such as a date or a time."""
    if _LIST.fullmatch(run) is None or any(len(part) >= 3 for part in run.split(",")):
        return None
    return Number(Fraction(run.rpartition(",")[2]))


def _raised(value: Fraction, power: int) -> Fraction | None:
    """None: out of bounds."""
    if abs(power) > _MAX_EXPONENT or value.numerator.bit_length() > 64 or (value == 0 > power):
        return None
    return value**power


def _exponent(found: re.Match[str]) -> int:
    said = found["exponent"] or found["ten"] or found["ten_to"] or "0"
    *minus, word = said.lower().split()
    for names in (_ORDINALS, _CARDINALS):
        if word in names:
            return -names.index(word) if minus else names.index(word)
    return int(said)


def _short(found: re.Match[str]) -> Fraction:
    """Of `5k` and `$5m` a thousand and a million; 5 m are metres, and no number at all."""
    short = found["short"]
    if short is None:
        return Fraction(1)
    if found["money"] is None and short not in ("k", "K", "M"):
        return Fraction(1)
    return _SCALES[short.lower()]


def _piece(more: str | None) -> Fraction:
    """Of `and three quarters` what it adds."""
    if not more:
        return Fraction(0)
    *_, count, piece = re.split(r"[\s-]+", more.lower())
    return {"two": 2, "three": 3}.get(count, 1) * _PIECES[piece.rstrip("s")]


def _plain(digits: str) -> str:
    """With a point for the decimals and nothing between thousands."""
    has_groups = _GROUPS.search(digits) is not None
    text = _GROUPS.sub("", digits)
    if "," in text and "." in text:
        decimal = max(text.rfind(","), text.rfind("."))
        return re.sub(r"[.,]", "", text[:decimal]) + "." + text[decimal + 1 :]
    if text.count(".") > 1:
        return text.replace(".", "")
    if text.count(",") == 1:
        head, _, tail = text.partition(",")
        is_decimal = has_groups or head == "0" or len(tail) != 3
        return f"{head}.{tail}" if is_decimal else head + tail
    return text.replace(",", "")
