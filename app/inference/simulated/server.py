"""The simulated endpoint as an ASGI application: its routes, and the life of one request."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import orjson
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from app import errors
from app.inference.simulated import answers, requests
from app.inference.simulated.embeddings import Embedder, cut
from app.inference.simulated.engine import Engine, Work
from app.inference.simulated.faults import Fault, Faults, Path, fault
from app.inference.simulated.ledger import Ledger
from app.inference.simulated.pages import load_page
from app.inference.simulated.requests import Refusal
from app.inference.simulated.runner import Runner
from app.inference.simulated.settings import SimulatedSettings
from app.inference.simulated.visit import HungUp, Visit

log = logging.getLogger(__name__)


class Endpoint:
    """The server's state and its routes."""

    def __init__(self, settings: SimulatedSettings, embedder: Embedder) -> None:
        self.settings = settings
        self.faults = Faults(settings.seed, settings.faults)
        self.ledger = Ledger(by_input=settings.ledger)
        by_priority = settings.scheduling == "priority"
        self.engine = Engine(settings.costs, settings.places, by_priority=by_priority)
        self._embedder = embedder
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self._numbers = itertools.count(1)
        self._in_flight = 0

    def application(self) -> Starlette:
        """The routes, with an engine that runs as long as the application."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/embeddings", self.embeddings, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/health", self.health),
                Route("/metrics", self.metrics),
                Route("/faults", self.change_faults, methods=["GET", "POST", "DELETE"]),
                Route("/ledger", self.show_ledger),
                Route("/ledger/reset", self.reset_ledger, methods=["POST"]),
            ],
            lifespan=self._running,
        )

    async def chat(self, request: Request) -> Response:
        """POST /v1/chat/completions."""
        return await self._visited(request, "chat", self._chat)

    async def embeddings(self, request: Request) -> Response:
        """POST /v1/embeddings."""
        return await self._visited(request, "embeddings", self._embeddings)

    async def models(self, request: Request) -> Response:
        """GET /v1/models."""
        try:
            self._let_in(request)
        except Refusal as refusal:
            return _refused(refusal)
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "giveway"}
            for name in self.settings.models
        ]
        return _json({"object": "list", "data": data})

    async def health(self, _request: Request) -> Response:
        """GET /health."""
        return Response()

    async def metrics(self, _request: Request) -> Response:
        """GET /metrics."""
        page = load_page(self.settings.models[0], self.engine, self.runner, self.ledger)
        return Response(page, media_type="text/plain; version=0.0.4")

    async def change_faults(self, request: Request) -> Response:
        """GET shows the faults in force, POST adds one or a list, DELETE clears them."""
        if request.method == "DELETE":
            self.faults.clear()
        if request.method == "POST":
            try:
                given = orjson.loads(await request.body())
                wanted = given if isinstance(given, list) else [given]
                self.faults.add([fault(one) for one in wanted])
            except (orjson.JSONDecodeError, errors.BadParams) as error:
                return _refused(Refusal(400, str(error)))
        return _json(self.faults.shown())

    async def show_ledger(self, _request: Request) -> Response:
        """GET /ledger."""
        return _json(self.ledger.shown(self.engine.most_running))

    async def reset_ledger(self, _request: Request) -> Response:
        """POST /ledger/reset."""
        self.ledger.reset()
        self.engine.most_running = len(self.engine.running)
        return await self.show_ledger(_request)

    @contextlib.asynccontextmanager
    async def _running(self, _app: Starlette) -> AsyncIterator[None]:
        self.runner = Runner(self.engine, self.settings.speed, self.faults.slowness)
        task = asyncio.create_task(self.runner.run())
        task.add_done_callback(_tell)
        try:
            yield
        finally:
            task.cancel()
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _visited(
        self,
        request: Request,
        path: Path,
        answer: Callable[[Request, Visit], Awaitable[Response]],
    ) -> Response:
        """`answer`, with the request counted and its refusals rendered."""
        visit = Visit(request, path)
        self._in_flight += 1
        self.ledger.asked(self._in_flight)
        outcome = "error"
        try:
            self._let_in(request)
            response = await answer(request, visit)
            outcome = "in pieces" if isinstance(response, answers.Pieces) else "ok"
        except Refusal as refusal:
            outcome = str(refusal.status)
            return _refused(refusal)
        except (HungUp, ClientDisconnect):
            outcome = "hung_up"
            return Response(status_code=499)
        finally:
            if outcome != "in pieces":  # Those are over when the last piece is sent.
                self._over(visit, outcome)
        return response

    def _over(self, visit: Visit, outcome: str) -> None:
        visit.stop()
        self._in_flight -= 1
        self.ledger.over(visit.timing(outcome))

    def _let_in(self, request: Request) -> None:
        key = self.settings.api_key
        if key is not None and request.headers.get("authorization") != f"Bearer {key}":
            raise Refusal(401, "Incorrect API key provided.", "invalid_api_key")

    async def _embeddings(self, request: Request, visit: Visit) -> Response:
        value = requests.json_object(await request.body())
        visit.watch()
        asked = requests.embeddings_asked(value, self.settings)
        visit.prompt_tokens = asked.tokens
        hits = self.faults.struck("embeddings", asked.texts)
        await _suffer(hits, visit)
        loop = asyncio.get_running_loop()
        computing = loop.run_in_executor(self._threads, self._embedder, asked.texts)
        work = Work(asked.tokens, 0, on_progress=visit.news.set)
        self.runner.submit(work)
        try:
            while not work.is_finished:
                await visit.wait()
        finally:
            self.engine.drop(work)
        self.ledger.embedded(asked.texts)
        vectors = cut(await computing, asked.dim)
        spoilt = next((one.mode for one in hits if one.kind == "vectors"), None)
        return self._sent(answers.embeddings_body(asked, vectors, spoilt), hits, visit)

    async def _chat(self, request: Request, visit: Visit) -> Response:
        value = requests.json_object(await request.body())
        visit.watch()
        asked = requests.chat_asked(value, self.settings)
        visit.prompt_tokens = asked.prompt_tokens
        hits = self.faults.struck("chat", asked.texts)
        await _suffer(hits, visit)
        number = next(self._numbers)
        work = Work(asked.prompt_tokens, len(asked.words), asked.priority, visit.news.set)
        self.runner.submit(work)
        if asked.stream:
            pieces = self._streamed(visit, work, number, asked, hits)
            owes = any(one.kind == "drop" for one in hits)
            return answers.Pieces(pieces, "text/event-stream", owes=owes)
        try:
            while not work.is_finished:
                await visit.wait()
                visit.progressed(work.made)
        finally:
            self.engine.drop(work)
        return self._sent(answers.chat_body(number, asked), hits, visit)

    async def _streamed(
        self,
        visit: Visit,
        work: Work,
        number: int,
        asked: requests.ChatAsked,
        hits: list[Fault],
    ) -> AsyncIterator[bytes]:
        """The events, each step's tokens as they are made. Ends early if the client hangs up."""
        outcome = "stopped"
        drip_s = next((one.delay_s for one in hits if one.kind == "drip"), None)
        drops_at = len(asked.words) // 2 if any(one.kind == "drop" for one in hits) else None
        sent = 0
        try:
            while not work.is_finished:
                await visit.wait()
                visit.progressed(work.made)
                if drops_at is not None and work.made > drops_at:
                    outcome = "drop"
                    return
                events = answers.token_events(number, asked, sent, work.made)
                sent = work.made
                if drip_s is None:
                    yield events
                    continue
                async for byte in answers.dripping(events, drip_s):
                    visit.check()
                    yield byte
            last = b"" if asked.words else answers.no_token_event(number, asked)
            if asked.usage_in_stream:
                last += answers.usage_event(number, asked)
            yield last + answers.END
            outcome = "ok"
        except HungUp:
            outcome = "hung_up"
        finally:
            self.engine.drop(work)
            self._over(visit, outcome)

    def _sent(self, body: bytes, hits: list[Fault], visit: Visit) -> Response:
        """`body`, in the way that the faults leave it."""
        for one in hits:
            match one.kind:
                case "bad_json":
                    return answers.Json(body[: len(body) // 2])
                case "drop":
                    return answers.CutOff(body)
                case "drip":
                    self._over(visit, "drip")
                    return answers.Pieces(answers.dripping(body, one.delay_s), "application/json")
        return answers.Json(body)


async def _suffer(hits: list[Fault], visit: Visit) -> None:
    """The faults that strike before the engine. Raises Refusal or HungUp."""
    for one in hits:
        match one.kind:
            case "delay":
                await visit.pause(one.delay_s)
            case "hang":
                await visit.pause(None)
            case "status":
                message = one.message or f"A fault was ordered: {one.status}."
                raise Refusal(one.status, message, one.code, one.retry_after)
            case "reject_text":
                raise Refusal(400, one.message or "The input was refused.", one.code)


def _refused(refusal: Refusal) -> Response:
    headers = {"retry-after": refusal.retry_after} if refusal.retry_after is not None else None
    return answers.Json(refusal.body(), refusal.status, headers)


def _json(value: object) -> Response:
    return answers.Json(orjson.dumps(value))


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception() is not None:
        log.critical("the engine has stopped; nothing will be answered", exc_info=task.exception())
