"""Reading requests the way real servers do, refusals included."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from app.domain.inference import rough_tokens
from app.inference.simulated import chat
from app.inference.simulated.embeddings import DIM, SHORTER
from app.inference.simulated.settings import SimulatedSettings

MOST_INPUTS = 2_048
LONGEST_INPUT = 8_192


class Refusal(Exception):
    """An answer other than 200, in OpenAI's shape."""

    def __init__(
        self,
        status: int,
        message: str,
        code: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.retry_after = retry_after

    def body(self) -> bytes:
        """The JSON of the answer."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": None, "code": self.code}
        return orjson.dumps({"error": error})


@dataclass(frozen=True, slots=True)
class EmbeddingsAsked:
    """A request for vectors that will be answered."""

    model: str
    texts: tuple[str, ...]
    as_base64: bool
    dim: int
    tokens: int


@dataclass(frozen=True, slots=True)
class ChatAsked:
    """A request for a completion that will be answered with `words`, one a token."""

    model: str
    texts: tuple[str, ...]
    words: tuple[str, ...]
    finish_reason: str
    prompt_tokens: int
    stream: bool
    usage_in_stream: bool
    usage_in_events: bool
    priority: int


def json_object(body: bytes) -> Mapping[str, Any]:
    """The request as a JSON object, or a 400."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise Refusal(400, "We could not parse the JSON body of your request.") from None
    if not isinstance(value, dict):
        raise Refusal(400, "The body must be a JSON object.")
    return value


def embeddings_asked(value: Mapping[str, Any], settings: SimulatedSettings) -> EmbeddingsAsked:
    """Check a request to /v1/embeddings. Raises Refusal."""
    model = _model(value, settings)
    given = value.get("input")
    texts = (given,) if isinstance(given, str) else given
    if not isinstance(texts, list | tuple) or not texts:
        raise Refusal(400, "'input' must be a string or a list of strings that is not empty.")
    if len(texts) > MOST_INPUTS:
        raise Refusal(400, f"'input' has too many entries; at most {MOST_INPUTS} are allowed.")
    for at, text in enumerate(texts):
        if not isinstance(text, str) or not text.strip():
            raise Refusal(400, f"'input[{at}]' must be a string that is not blank.")
    tokens = [rough_tokens(text) for text in texts]
    if max(tokens) > LONGEST_INPUT:
        raise Refusal(
            400,
            f"This model's maximum context length is {LONGEST_INPUT} tokens; an input has more.",
            "context_length_exceeded",
        )
    encoding = value.get("encoding_format", "float")
    if encoding not in ("float", "base64"):
        raise Refusal(400, "'encoding_format' must be float or base64.")
    dim = value.get("dimensions") or DIM
    if dim not in (DIM, *SHORTER):
        raise Refusal(400, f"'dimensions' must be one of {SHORTER[0]}, {SHORTER[1]}, {DIM}.")
    return EmbeddingsAsked(model, tuple(texts), encoding == "base64", dim, sum(tokens))


def chat_asked(value: Mapping[str, Any], settings: SimulatedSettings) -> ChatAsked:
    """Check a request to /v1/chat/completions. Raises Refusal."""
    model = _model(value, settings)
    messages = _messages(value.get("messages"))
    texts = tuple(chat.text(message) for message in messages)
    prompt_tokens = sum(map(rough_tokens, texts))
    room = min(settings.max_model_tokens, settings.costs.kv_tokens) - prompt_tokens
    wanted = value.get("max_completion_tokens") or value.get("max_tokens")
    if wanted is None:
        wanted = max(1, min(chat.DEFAULT_TOKENS, room))
    if not isinstance(wanted, int) or wanted < 1:
        raise Refusal(400, "'max_tokens' must be a whole number of at least 1.")
    if wanted > room:
        raise Refusal(
            400,
            f"This model's maximum context length is {settings.max_model_tokens} tokens; "
            f"{prompt_tokens} in the messages and {wanted} to be made are more.",
            "context_length_exceeded",
        )
    ignore_eos = bool(value.get("ignore_eos"))
    answered = chat.rest if _goes_on(value, messages) else chat.words
    words = answered(
        messages, wanted, ignore_eos=ignore_eos, response_format=value.get("response_format")
    )
    options = value.get("stream_options")
    told = options if isinstance(options, dict) else {}
    priority = value.get("priority") or 0
    if not isinstance(priority, int):
        raise Refusal(400, "'priority' must be a whole number.")
    if priority and settings.scheduling != "priority":  # As vLLM does.
        raise Refusal(400, f"Got priority {priority} but priority scheduling is not enabled.")
    return ChatAsked(
        model=model,
        texts=texts,
        words=tuple(words),
        finish_reason="length" if len(words) == wanted else "stop",
        prompt_tokens=prompt_tokens,
        stream=bool(value.get("stream")),
        usage_in_stream=bool(told.get("include_usage")),
        usage_in_events=bool(told.get("include_usage") and told.get("continuous_usage_stats")),
        priority=priority,
    )


def _goes_on(value: Mapping[str, Any], messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the last message is the beginning of the answer: as vLLM has it, only when told."""
    if not value.get("continue_final_message"):
        return False
    if value.get("add_generation_prompt", True):
        raise Refusal(
            400, "Cannot set both 'continue_final_message' and 'add_generation_prompt' to True."
        )
    return messages[-1].get("role") == "assistant"


def _model(value: Mapping[str, Any], settings: SimulatedSettings) -> str:
    model = value.get("model")
    if not isinstance(model, str) or model not in settings.models:
        raise Refusal(404, f"The model {str(model)[:60]!r} does not exist.", "model_not_found")
    return model


def _messages(given: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(given, list) or not given:
        raise Refusal(400, "'messages' must be a list that is not empty.")
    for at, message in enumerate(given):
        if not isinstance(message, dict) or "role" not in message:
            raise Refusal(400, f"'messages[{at}]' must have a role and content.")
    return given
