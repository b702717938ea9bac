"""What a call came to, where the server does not say it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.domain.inference import ChatReply, ChatRequest, EmbedReply, EmbedRequest, Usage
from app.domain.tokens import Counted

Answer = ChatReply | EmbedReply


def with_usage(
    reply: Answer,
    request: ChatRequest | EmbedRequest,
    count: Callable[[Sequence[str]], Counted],
) -> Answer:
    """`reply` with the server's usage or, where it told none, with what `count` makes of the texts.

    If that is a guess as well, the reply's own stays, which says that it is one.
    """
    if not reply.usage.rough:
        return reply
    if isinstance(request, EmbedRequest):
        sent = list(request.texts)
    else:
        sent = [message.content for message in request.messages]
    answer = [reply.text] if isinstance(reply, ChatReply) and reply.text else []
    counted = count([*sent, *answer])
    if counted.is_rough:
        return reply
    prompt = sum(counted.counts[: len(sent)])
    return replace(reply, usage=Usage(prompt, counted.total - prompt))
