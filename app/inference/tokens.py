"""Counting tokens: a server's tokenize call, then a tokenizer file, then a guess.

What cannot be asked is not asked again for a while, and the next best counts instead. A tokenize
call is a request like others, so it is made only where the endpoint's rate budget has room for it.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from app import clock, errors
from app.domain.routing import EndpointSpec
from app.domain.tokens import Basis, Counted, Rough
from app.extras import need
from app.inference.wire import Wire
from app.inference.wires import Wires

log = logging.getLogger(__name__)

_DEADLINE_S = 5.0
_AGAIN_AFTER_S = 60.0
"""A server whose tokenize call failed is left out of counting for so long."""
_MOST_CALLS = 8
"""vLLM and llama.cpp take one text a call: more texts than this are counted in another way."""


Ask = Callable[[int, float], AbstractContextManager[None]]
"""Within it so many requests are made, in so many seconds. BudgetSpent, DatabaseUnavailable: not
now."""


def uncounted(requests: int, deadline_s: float) -> AbstractContextManager[None]:  # noqa: ARG001
    """As many as you like."""
    return nullcontext()


class FileTokens:
    """A tokenizer.json, read at the first count. Thread-safe.

    Raises MissingPart without the package `tokenizers`, ConfigError for a file it cannot read.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._tokenizer: Any = None
        self._lock = threading.Lock()

    def count(self, texts: Sequence[str]) -> Counted:
        """A count a text, with the special tokens that the file adds."""
        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        found = self._loaded().encode_batch(clean)
        return Counted(tuple(len(one.ids) for one in found), Basis.TOKENIZER)

    def _loaded(self) -> Any:
        with self._lock:
            if self._tokenizer is None:
                self._tokenizer = self._load()
            return self._tokenizer

    def _load(self) -> Any:
        # Its threads do not survive a fork, and a batch of texts is counted in no time without.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        need("counting with a tokenizer file needs the package", "tokens", ["tokenizers"])
        from tokenizers import Tokenizer

        try:
            made = Tokenizer.from_file(str(self._path))
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception
            raise errors.ConfigError(f"{self._path} is no tokenizer.json: {error}") from None
        made.no_truncation()  # Such files often cut at 512, and every long text would count 512.
        made.no_padding()
        return made


class ServerTokens:
    """A server's own tokenize call: vLLM, llama.cpp or TEI. Raises a leaf of EndpointError."""

    def __init__(self, wire: Wire, kind: str, model: str) -> None:
        self._wire = wire
        self._ask: Callable[[Sequence[str]], list[int]] = {
            "vllm": self._vllm,
            "llamacpp": self._llamacpp,
            "tei": self._tei,
        }[kind]
        self.many = kind == "tei"
        self._model = model

    KINDS = frozenset({"vllm", "llamacpp", "tei"})

    def count(self, texts: Sequence[str]) -> Counted:
        """A count a text."""
        return Counted(tuple(self._ask(texts)), Basis.SERVER)

    def _vllm(self, texts: Sequence[str]) -> list[int]:
        return [
            _number(self._post({"model": self._model, "prompt": text}, [text]), "count")
            for text in texts
        ]

    def _llamacpp(self, texts: Sequence[str]) -> list[int]:
        given = [self._post({"content": text, "add_special": True}, [text]) for text in texts]
        return [len(_list(one.get("tokens") if isinstance(one, dict) else None)) for one in given]

    def _tei(self, texts: Sequence[str]) -> list[int]:
        given = _list(self._post({"inputs": list(texts), "add_special_tokens": True}, texts))
        if len(given) != len(texts):
            raise errors.BadReply(f"{len(given)} token lists for {len(texts)} texts")
        return [len(_list(one)) for one in given]

    def _post(self, body: dict[str, Any], sent: Sequence[str]) -> Any:
        return self._wire.ask("/tokenize", body, deadline_s=_DEADLINE_S, sent=sent)


class Best:
    """The best count to be had now: each counter in turn until one answers; a guess in the end."""

    def __init__(
        self, server: ServerTokens | None, file: FileTokens | None, ask: Ask = uncounted
    ) -> None:
        self._server = server
        self._file = file
        self._ask = ask
        self._ask_at_s = 0.0

    def count(self, texts: Sequence[str]) -> Counted:
        """A count a text. Never raises."""
        if not texts:
            return Counted((), Basis.ROUGH)
        return self._by_server(texts) or self.count_here(texts)

    def count_here(self, texts: Sequence[str]) -> Counted:
        """The same without asking the server."""
        return self._by_file(texts) or Rough().count(texts)

    def _by_server(self, texts: Sequence[str]) -> Counted | None:
        if self._server is None or clock.monotonic_s() < self._ask_at_s:
            return None
        calls = 1 if self._server.many else len(texts)
        if calls > _MOST_CALLS:
            return None
        try:
            with self._ask(calls, calls * _DEADLINE_S):
                return self._server.count(texts)
        except (errors.BudgetSpent, errors.DatabaseUnavailable):
            return None
        except errors.ModelMissing:
            self._server = None  # It has no such call.
        except errors.EndpointError as error:
            self._ask_at_s = clock.monotonic_s() + _AGAIN_AFTER_S
            log.info("tokens are not counted by the server for a while: %s", error.code)
        return None

    def _by_file(self, texts: Sequence[str]) -> Counted | None:
        if self._file is None:
            return None
        try:
            return self._file.count(texts)
        except errors.GivewayError as error:
            self._file = None
            log.warning("tokens are counted roughly: %s", error)
        return None


class Counters:
    """A counter an endpoint and model, made on first use. Thread-safe."""

    def __init__(
        self, wires: Wires, ask: Callable[[EndpointSpec], Ask] = lambda _: uncounted
    ) -> None:
        self._wires = wires
        self._ask = ask
        self._made: dict[tuple[str, str], Best] = {}
        self._files: dict[str, FileTokens] = {}
        self._lock = threading.Lock()

    def of(self, spec: EndpointSpec, model: str) -> Best:
        """How `model` of that endpoint counts."""
        with self._lock:
            made = self._made.get((spec.name, model))
            if made is None:
                made = self._made[spec.name, model] = Best(
                    self._server(spec, model), self._file(spec), self._ask(spec)
                )
            return made

    def _server(self, spec: EndpointSpec, model: str) -> ServerTokens | None:
        if spec.kind not in ServerTokens.KINDS:
            return None
        try:
            return ServerTokens(self._wires.of(spec), spec.kind, model)
        except errors.ConfigError:
            return None  # Its key is not set here; the call itself will say so.

    def _file(self, spec: EndpointSpec) -> FileTokens | None:
        if spec.tokenizer is None:
            return None
        return self._files.setdefault(spec.tokenizer, FileTokens(spec.tokenizer))


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise errors.BadReply("the tokenize call did not answer with a list")
    return value


def _number(value: object, field: str) -> int:
    number = value.get(field) if isinstance(value, dict) else None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise errors.BadReply(f"the tokenize call did not answer with a {field}")
    return number
