"""An answer whose call is closed for people goes on from there, where its job asks for that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from app.errors import BadParams, UsageError
from app.inference.streaming import SoFar
from app.inference.wire import Wire
from app.services.submission import JobRequest
from app.services.templates import checked_template
from app.storage.begun_store import BegunStore
from app.storage.lease_store import LeaseStore
from app.storage.yield_store import YieldStore
from tests.rig import MakeRig, Rig, Texts
from tests.served import Served, serving
from tests.waiting import until

TOKENS = 320
SUBJECT = " ".join(f"word{n}" for n in range(TOKENS + 40))
"""The simulated model says a text without a full stop again, so far as it may: a word a token."""
WHOLE = " ".join(SUBJECT.split()[:TOKENS])
PARAMS = {"model": "fake-chat", "max_tokens": TOKENS}
FAR = 100
"""Tokens after which a call is closed."""


@pytest.fixture(scope="module")
def real_time() -> Iterator[Served]:
    """A token takes 12.5 ms, a whole answer four seconds."""
    with serving("--places", "8") as served:
        yield served


@pytest.fixture
def endpoint(real_time: Served) -> Iterator[Served]:
    real_time.calm()
    yield real_time
    real_time.calm()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[SoFar]:
    """What has come of each call, as it comes."""
    seen: list[SoFar] = []
    real = Wire.chat

    def chat(self: Wire, request: Any, *, so_far: SoFar, **more: Any) -> Any:
        seen.append(so_far)
        return real(self, request, so_far=so_far, **more)

    monkeypatch.setattr(Wire, "chat", chat)
    return seen


def wired(make: MakeRig, kind: str = "simulated", **settings: Any) -> Rig:
    one = make()
    sim = {"name": "sim", "kind": kind, "base_url": one.endpoint.url, "models": ["fake-chat"]}
    priced = {"input_price": 1.0, "output_price": 100.0, "max_concurrency": 32}
    return make(endpoints=[sim | priced], **settings)


def submit(one: Rig, kind: str = "generate", *, resumes: bool = True, **params: Any) -> int:
    request = JobRequest(kind, params or PARAMS, key="long", resume_streamed=resumes)
    return one.wiring.submission.submit(request, Texts([SUBJECT])).job.id


def closed(one: Rig, job_id: int, calls: list[SoFar], ask: Callable[[], object]) -> None:
    """A chunk whose call is closed by `ask` when it has given `FAR` tokens."""
    before = len(calls)
    ended: list[str] = []
    work = threading.Thread(target=lambda: ended.append(one.wiring.execution.run(job_id).ended))
    work.start()
    until(lambda: len(calls) > before and len(calls[-1].pieces) >= FAR, 20, "the answer")
    ask()
    work.join(20)
    assert ended == ["yielded"]


def asked_back(one: Rig) -> Callable[[], None]:
    return lambda: one.execute("UPDATE chunks SET yield_requested = true")


def made(one: Rig, closed: int = 0) -> int:
    """Tokens that the endpoint has made in all, for one answer and so many calls closed before."""

    def booked() -> list[str]:
        return [t["outcome"] for t in one.endpoint.ledger()["timings"]]

    until(lambda: (booked().count("ok"), booked().count("hung_up")) == (1, closed), 10, "the end")
    return sum(int(t["tokens"]) for t in one.endpoint.ledger()["timings"])


def counted(one: Rig) -> tuple[int, int, int, float]:
    row = one.rows("SELECT prompt_tokens, completion_tokens, wasted_tokens, money FROM chunks")[0]
    return tuple(row)


def test_an_answer_closed_twice_is_what_an_undisturbed_call_gives(
    rig: MakeRig, calls: list[SoFar]
) -> None:
    one = wired(rig)
    job_id = submit(one)
    closed(one, job_id, calls, asked_back(one))
    first = one.rows("SELECT output, tokens FROM begun_answers")[0]
    assert WHOLE.startswith(first.output)
    assert len(first.output.split()) == first.tokens >= FAR
    assert one.rows("SELECT state, attempt, crashes FROM chunks") == [("ready", 0, 0)]
    prompt, completion, wasted, _ = counted(one)
    assert (prompt, completion) == (0, first.tokens)
    assert 0 < wasted == one.one("SELECT prompt_tokens FROM batch_calls")  # It is read again.

    closed(one, job_id, calls, asked_back(one))
    second = one.one("SELECT tokens FROM begun_answers")
    assert second >= first.tokens + FAR
    job = one.work(job_id)

    assert job.state == "completed"
    output, tokens = one.rows("SELECT output, tokens FROM results")[0]
    assert output == {"text": WHOLE, "finish_reason": "length"}
    assert one.one("SELECT count(*) FROM begun_answers") == 0
    prompt, completion, wasted, money = counted(one)
    assert (completion, tokens) == (TOKENS, prompt + TOKENS)
    assert money == pytest.approx((prompt + wasted) / 1e6 + 100 * TOKENS / 1e6)
    called = "SELECT sum(prompt_tokens), sum(completion_tokens), CAST(sum(money) AS float8)"
    assert one.rows(f"{called} FROM batch_calls") == [
        (prompt + wasted, TOKENS, pytest.approx(money))
    ]
    assert TOKENS <= made(one, closed=2) < TOKENS + second


@pytest.mark.parametrize("resumes", [False, True], ids=["without the option", "mutant: not kept"])
def test_what_is_not_kept_is_paid_for_again(
    rig: MakeRig, calls: list[SoFar], monkeypatch: pytest.MonkeyPatch, resumes: bool
) -> None:
    monkeypatch.setattr(BegunStore, "keep", lambda self, lease, seq, begun: None)
    one = wired(rig)
    job_id = submit(one, resumes=resumes)
    closed(one, job_id, calls, asked_back(one))
    given = len(calls[-1].pieces)
    one.work(job_id)

    assert one.one("SELECT output->>'text' FROM results") == WHOLE
    assert made(one, closed=1) >= TOKENS + given
    assert resumes or counted(one)[2] >= given


def test_the_throttle_closes_it_for_somebody_who_waits(rig: MakeRig, calls: list[SoFar]) -> None:
    from tests.integration.services.test_yielding import done_before, someone_waits

    pool = {"name": "main", "total": 8, "policy": "static", "options": {"cap": 1}}
    one = wired(rig, pools=[pool])
    long = JobRequest("generate", {**PARAMS, "max_tokens": 400}, key="other")
    other = one.wiring.submission.submit(long, Texts([SUBJECT])).job.id
    done_before(one, other, tokens=1_000_000)
    older = threading.Thread(target=one.wiring.execution.run, args=(other,))
    older.start()
    until(lambda: calls and calls[-1].pieces, 20, "the older call")
    someone_waits(one, 2.0)
    job_id = submit(one)
    closed(one, job_id, calls, lambda: one.wiring.throttling.tick("main"))
    older.join(20)
    one.execute("DELETE FROM interactive_requests")
    one.limit(7)
    one.work(job_id)

    assert one.one(f"SELECT output->>'text' FROM results WHERE job_id = {job_id}") == WHOLE
    assert one.progress(job_id).completion_tokens == TOKENS


def test_a_step_goes_on_like_any_call(rig: MakeRig, calls: list[SoFar]) -> None:
    one = wired(rig)
    job_id = submit(one, "summarize", model="fake-chat", words=300)
    closed(one, job_id, calls, asked_back(one))
    one.work(job_id)

    output, tokens = one.rows("SELECT output, tokens FROM results")[0]
    prompt, completion, _, _ = counted(one)
    assert (output["text"], completion) == (SUBJECT, len(SUBJECT.split()))
    assert tokens == prompt + completion
    assert one.one("SELECT count(*) FROM begun_answers") == 0


@pytest.mark.parametrize("fenced", [True, False], ids=["", "mutant: no fence"])
def test_whose_lease_is_lost_keeps_nothing(
    rig: MakeRig, calls: list[SoFar], monkeypatch: pytest.MonkeyPatch, fenced: bool
) -> None:
    if not fenced:
        monkeypatch.setattr(LeaseStore, "hold", lambda self, lease: True)
    one = wired(rig)
    job_id = submit(one)
    held: list[Any] = []
    real = one.wiring.execution._work_through

    def through(work: Any) -> str:
        held.append(work.held)
        return real(work)

    one.wiring.execution._work_through = through  # type: ignore[method-assign]
    work = threading.Thread(target=one.wiring.execution.run, args=(job_id,))
    work.start()
    until(lambda: calls and len(calls[-1].pieces) >= FAR, 20, "the answer")
    one.execute("UPDATE chunks SET fence = fence + 1")
    held[0].close.set()
    work.join(20)

    assert one.one("SELECT count(*) FROM begun_answers") == (0 if fenced else 1)
    assert counted(one)[1] == 0


def keep(one: Rig, job_id: int, request: Any, text: str) -> None:
    """As a closed call left it."""
    from app.domain.resuming import Begun, hash_of

    lease = type("Lease", (), {"job_id": job_id})
    begun = Begun(hash_of(request), text, len(text.split()))
    with one.database.transaction() as tx:
        BegunStore(tx).keep(lease, 1, begun)  # type: ignore[arg-type]
    one.execute(f"UPDATE chunks SET completion_tokens = {begun.tokens}")


def the_request(**more: Any) -> Any:
    from app.domain.inference import ChatRequest, Message

    asked = (Message("user", SUBJECT),)
    return ChatRequest("fake-chat", asked, **{"max_tokens": 8, "temperature": 0.0, **more})


@pytest.fixture
def quick(quick_server: Served, rig: MakeRig) -> Iterator[Callable[..., Rig]]:
    """Rigs at an endpoint that costs no time."""
    quick_server.calm()

    def make(kind: str = "simulated") -> Rig:
        sim = {"name": "sim", "kind": kind, "base_url": quick_server.url, "models": ["fake-chat"]}
        one = rig(endpoints=[sim | {"max_concurrency": 8}])
        one.endpoint = quick_server
        return one

    yield make
    quick_server.calm()


def test_the_beginning_of_another_request_is_dropped_and_then_it_is_waste(
    quick: Callable[..., Rig],
) -> None:
    one = quick()
    job_id = submit(one, model="fake-chat", max_tokens=8)
    keep(one, job_id, the_request(temperature=1.0), "word0 word1 word2")
    one.work(job_id)

    assert one.one("SELECT output->>'text' FROM results") == " ".join(SUBJECT.split()[:8])
    assert counted(one)[1:3] == (8, 3)
    assert one.one("SELECT count(*) FROM begun_answers") == 0


def test_a_server_that_refuses_to_go_on_is_asked_from_the_start(quick: Callable[..., Rig]) -> None:
    one = quick()
    job_id = submit(one, model="fake-chat", max_tokens=8)
    keep(one, job_id, the_request(), "word0 word1 word2")
    one.endpoint.order({"kind": "status", "path": "chat", "status": 400, "remaining": 1})
    one.work(job_id)

    assert one.one("SELECT output->>'text' FROM results") == " ".join(SUBJECT.split()[:8])
    assert counted(one)[1:3] == (8, 3)


def test_a_server_that_begins_anew_gives_the_answer_and_not_a_half_and_a_whole(
    quick: Callable[..., Rig],
) -> None:
    """The simulated one goes on only when it is told to, and nobody tells an Ollama."""
    one = quick("ollama")
    job_id = submit(one, model="fake-chat", max_tokens=20)
    words = SUBJECT.split()
    keep(one, job_id, the_request(max_tokens=20), " ".join(words[:9]))
    one.work(job_id)

    assert one.one("SELECT output->>'text' FROM results") == " ".join(words[:20])
    assert counted(one)[1:3] == (11 + 20, 9)


def test_an_item_that_fails_leaves_no_beginning_to_its_retry(quick: Callable[..., Rig]) -> None:
    one = quick()
    job_id = submit(one, model="fake-chat", max_tokens=8)
    keep(one, job_id, the_request(), "word0 word1 word2")
    one.endpoint.order({"kind": "reject_text", "text": "word5"})
    one.work(job_id)
    assert one.progress(job_id).failed == 1
    assert one.one("SELECT count(*) FROM begun_answers") == 0

    one.endpoint.calm()
    one.wiring.steering.retry("long", None)
    one.work(job_id)
    assert (made(one), one.progress(job_id).completion_tokens) == (8, 8)


def test_retention_drops_it_and_so_does_a_buried_item(quick: Callable[..., Rig]) -> None:
    one = quick()
    job_id = submit(one, model="fake-chat", max_tokens=8)
    keep(one, job_id, the_request(), "word0")
    one.execute(
        "UPDATE chunks SET state = 'leased', crashes = 9, lease_until = now() - interval '1 s'"
    )
    one.wiring.rescue.sweep()
    assert one.one("SELECT code FROM results") == "crashed_worker"
    assert one.one("SELECT count(*) FROM begun_answers") == 0

    keep(one, job_id, the_request(), "word0")
    one.execute("UPDATE jobs SET state = 'cancelled', finished_at = now() - interval '99 days'")
    one.wiring.retention.prune()
    assert one.one("SELECT count(*) FROM begun_answers") == 0


def test_closing_what_goes_on_costs_its_prompt_alone(quick: Callable[..., Rig]) -> None:
    one = quick()
    submit(one, model="fake-chat", max_tokens=8)
    one.execute(
        "UPDATE chunks SET state = 'leased', leased_at = now(), endpoint = 'sim', ok = 10,"
        " lease_until = now() + interval '1 h', prompt_tokens = 100, completion_tokens = 900"
    )

    def cost() -> float:
        with one.database.transaction() as tx:
            return YieldStore(tx).calls("main").held[0].work_tokens

    assert cost() == 10
    one.execute("UPDATE endpoints SET kind = 'openai'")
    assert cost() == 50


def test_what_could_never_go_on_is_refused(quick: Callable[..., Rig]) -> None:
    with pytest.raises(BadParams, match="those of kind llamacpp, ollama, simulated, vllm do"):
        submit(quick("openai"))
    with pytest.raises(BadParams, match="a job of kind embed like this streams no text"):
        submit(quick(), "embed", model="fake-chat", collection="c")
    with pytest.raises(UsageError, match="which --no-yield forbids"):
        checked_template(
            {
                "kind": "generate",
                "params": PARAMS,
                "source": {"uri": "a.jsonl"},
                "may_yield": False,
                "resume_streamed": True,
            }
        )
    assert quick().one("SELECT count(*) FROM jobs") == 0
