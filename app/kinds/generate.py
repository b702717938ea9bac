"""generate: an answer for each text, from a prompt template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, field_validator

from app.domain.cleaning import cleaned, is_blank
from app.domain.fingerprint import ContentHash
from app.domain.inference import ChatReply, ChatRequest, EmbedReply, Message, rough_tokens
from app.domain.results import Item, ItemResult, Status
from app.errors import BadReply
from app.kinds.base import Params, Prepared, Read, Unit
from app.kinds.templating import checked_template, fields_of, names_no_field, rendered


class GenerateParams(Params):
    """`prompt` is a Jinja template over the item's fields, its text among them: {{ text }}."""

    prompt: str = "{{ text }}"
    """Template of what is asked about an item."""
    system: str | None = None
    """What the model is told before every prompt."""
    max_tokens: Annotated[int, Field(ge=1)] = 256
    """Longest answer, in tokens."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """Chance in the answers, from 0 to 2; 0 is the likeliest answer each time."""

    @field_validator("prompt")
    @classmethod
    def _is_a_template(cls, prompt: str) -> str:
        return checked_template(prompt)


@dataclass(frozen=True, slots=True)
class Generate:
    """The kind."""

    name: str = "generate"
    params: type[Params] = GenerateParams
    together: bool = False

    def collection(self, params: GenerateParams) -> None:  # noqa: ARG002
        """It makes no vectors."""
        return

    def fields(self, params: GenerateParams) -> dict[str, bool]:
        """Those that the prompt names."""
        return dict.fromkeys(sorted(fields_of(params.prompt) - {"text"}), True)

    def warning(self, params: GenerateParams) -> str | None:
        """A prompt that is the same for all items."""
        return names_no_field(params.prompt)

    def prepare(self, items: Sequence[Item], params: GenerateParams) -> Prepared:
        """Each item's prompt; one that fails its template fails alone, before any call."""
        hashes = ContentHash(params.model_dump(mode="json"))
        units: list[Unit] = []
        results: list[ItemResult] = []
        for item in items:
            if is_blank(str(item.payload.get("text", ""))):
                results.append(ItemResult(item.seq, Status.EMPTY, code="empty"))
                continue
            try:
                text = rendered(params.prompt, item.payload)
            except ValueError as error:
                failed = ItemResult(item.seq, Status.FAILED, code="template", error=str(error))
                results.append(failed)
                continue
            units.append(Unit(item, text, rough_tokens(text), hashes.of(text)))
        return Prepared(units, results)

    def request(self, units: Sequence[Unit], params: GenerateParams) -> ChatRequest:
        """One chat an item."""
        system = (Message("system", params.system),) if params.system else ()
        messages = (*system, Message("user", units[0].text))
        return ChatRequest(params.model, messages, params.max_tokens, params.temperature)

    def read(
        self, units: Sequence[Unit], reply: EmbedReply | ChatReply, params: GenerateParams
    ) -> Read:
        """The answer's text, cleaned of what Postgres refuses, and why it ended."""
        if not isinstance(reply, ChatReply):
            raise BadReply(f"model {params.model} answered with vectors, not with text")
        text = cleaned(reply.text)
        output: dict[str, Any] = {"text": text.text, "finish_reason": reply.finish_reason}
        if text.flags:
            output["cleaned"] = ",".join(sorted(text.flags))
        if reply.tool_calls:
            output["tool_calls"] = [dict(call) for call in reply.tool_calls]
        usage = reply.usage
        result = ItemResult(
            units[0].item.seq, Status.DONE, tokens=usage.total_tokens, output=output
        )
        return Read([result], None, usage.prompt_tokens, usage.completion_tokens)


KIND = Generate()
