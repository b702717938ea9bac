"""Answers of the simulated chat model: sentences of the prompt, the same for the same prompt."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

_SENTENCE = re.compile(r"[^.!?\n]+[.!?]*")
_WORD = re.compile(r"\w+")
_LEAST_WORDS = 16
"""A shorter extract is said again up to here, so that `max_tokens` 16 always gives 16."""
DEFAULT_TOKENS = 256


def words(
    messages: Sequence[Mapping[str, Any]],
    max_tokens: int,
    *,
    ignore_eos: bool = False,
    response_format: Mapping[str, Any] | None = None,
) -> list[str]:
    """The answer, one entry a token, together the text; at most `max_tokens`.

    With `ignore_eos` there are exactly `max_tokens`, the extract going round. A `response_format`
    of JSON gives JSON of that shape.
    """
    prompt = next((text(one) for one in reversed(messages) if one.get("role") == "user"), "")
    extract = related(prompt)
    shaped = _shaped(extract, response_format)
    if shaped is not None:
        tokens = re.findall(r"\s*\S+", shaped)
        return tokens[:max_tokens]
    plain = extract.split() or ["Yes."]
    least = max_tokens if ignore_eos else min(max_tokens, _LEAST_WORDS)
    count = max(least, min(len(plain), max_tokens))
    said = itertools.islice(itertools.cycle(plain), count)
    return [word if at == 0 else f" {word}" for at, word in enumerate(said)]


def rest(
    messages: Sequence[Mapping[str, Any]],
    max_tokens: int,
    *,
    ignore_eos: bool = False,
    response_format: Mapping[str, Any] | None = None,
) -> list[str]:
    """What is left of the answer after its beginning, the last message; at most `max_tokens`."""
    given = len(text(messages[-1]).split())
    whole = words(
        messages[:-1],
        given + max_tokens,
        ignore_eos=ignore_eos,
        response_format=response_format,
    )
    return whole[given:]


def text(message: Mapping[str, Any]) -> str:
    """The text of a message, whose content may be a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def related(prompt: str) -> str:
    """The two sentences of `prompt` that share most words with its last one, in their order."""
    sentences = [found.strip() for found in _SENTENCE.findall(prompt) if found.strip()]
    if len(sentences) < 2:
        return prompt
    question = next((one for one in reversed(sentences) if one.endswith("?")), sentences[-1])
    asked = _long_words(question)
    others = [one for one in sentences if one is not question]
    scores = [len(asked & _long_words(one)) / (1 + len(one.split())) ** 0.5 for one in others]
    best = sorted(range(len(others)), key=lambda at: (-scores[at], at))[:2]
    return " ".join(others[at] for at in sorted(best))


def _long_words(sentence: str) -> set[str]:
    return {word for word in _WORD.findall(sentence.lower()) if len(word) > 3}


def _shaped(extract: str, response_format: Mapping[str, Any] | None) -> str | None:
    match response_format:
        case {"type": "json_object"}:
            return orjson.dumps({"answer": extract}).decode()
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return orjson.dumps(_value(schema, extract)).decode()
        case _:
            return None


def _value(schema: Mapping[str, Any], extract: str) -> object:
    """The simplest value that fits `schema`."""
    match schema:
        case {"enum": [first, *_]}:
            return first
        case {"type": "object"}:
            fields = schema.get("properties", {})
            return {name: _value(inner, extract) for name, inner in fields.items()}
        case {"type": "array"}:
            return [_value(schema.get("items", {}), extract)]
        case {"type": "integer" | "number"}:
            return schema.get("minimum", 1)
        case {"type": "boolean"}:
            return True
        case {"type": "null"}:
            return None
        case _:
            return extract
