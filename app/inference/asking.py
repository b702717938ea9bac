"""What is asked of an OpenAI-compatible server, as JSON, and what some servers want otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from app.domain.inference import ChatRequest, EmbedRequest

NEGOTIABLE: Mapping[str, str | None] = {
    "encoding_format": None,
    "stream_options": None,
    "priority": None,  # vLLM refuses it unless it schedules by priority.
    "max_tokens": "max_completion_tokens",  # OpenAI's reasoning models.
}
"""Fields that some servers refuse, and by which name they want them (None: not at all)."""


def chat_body(request: ChatRequest) -> dict[str, Any]:
    """The request for a completion that streams."""
    body: dict[str, Any] = {
        "model": request.model,
        "messages": [{"role": one.role, "content": one.content} for one in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    for field in ("max_tokens", "temperature", "seed", "response_format", "priority"):
        value = getattr(request, field)
        if value is not None:
            body[field] = value
    if request.counts:
        body["stream_options"]["continuous_usage_stats"] = True
    if request.goes_on:  # vLLM and llama.cpp want both.
        body |= {"continue_final_message": True, "add_generation_prompt": False}
    return body


def embed_body(request: EmbedRequest) -> dict[str, Any]:
    """The request for vectors, as base64 where the server can."""
    body: dict[str, Any] = {
        "model": request.model,
        "input": request.texts,
        "encoding_format": "base64",
    }
    if request.priority is not None:
        body["priority"] = request.priority
    return body


def without(body: Mapping[str, Any], refused: Set[str]) -> dict[str, Any]:
    """`body` without the fields in `refused`, or with them by their other names."""
    fields = dict(body)
    for field in refused & fields.keys():
        value, substitute = fields.pop(field), NEGOTIABLE[field]
        if substitute is not None:
            fields[substitute] = value
    return fields
