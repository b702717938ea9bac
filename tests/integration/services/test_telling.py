"""Webhooks: written with the job's end, signed by the standard, sent until heard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.services import telling as module
from app.services.telling import Telling
from app.storage.webhook_store import WebhookStore
from tests.hooked import Hooked, hooked
from tests.rig import MakeRig, Rig

SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
VARIABLE = "TEST_HOOK_SECRET"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hooked]:
    monkeypatch.setenv(VARIABLE, SECRET)
    with hooked() as told:
        yield told


def telling(rig: Rig, **more: Any) -> Telling:
    """One that waits no time between attempts."""
    given = {"allow_private": True, "first_pause_s": 0.0, **more}
    return Telling(rig.database, 4, 2.0, rig.wiring.observer, lambda: 0.0, **given)


def ended(rig: Rig, url: str, key: str = "job", texts: int = 30) -> int:
    """The id of a job that has completed and tells `url`."""
    hook = {"url": url, "secret_env": VARIABLE}
    secret_words = [f"a very private text {n}" for n in range(texts)]
    job = rig.submit(secret_words, key=key, webhook=hook).job
    rig.work(job.id)
    return job.id


def standing(rig: Rig) -> list[Any]:
    return rig.rows("SELECT state, attempt, status FROM webhook_deliveries ORDER BY id")


def test_a_jobs_end_is_told_signed_and_without_texts(rig: MakeRig, receiver: Hooked) -> None:
    one = rig()
    job_id = ended(one, receiver.url)

    assert telling(one).tell() == 1
    assert telling(one).tell() == 0

    ((headers, content),) = receiver.came
    told = Webhook(SECRET).verify(content, headers)
    assert told["type"] == "job.completed"
    assert told["data"] == {
        "job": job_id,
        "key": "job",
        "kind": "embed",
        "state": "completed",
        "total": 30,
        "done": 30,
        "failed": 0,
        "unchanged": 0,
        "empty": 0,
        "pending": 0,
    }
    assert b"private" not in content
    assert standing(one) == [("delivered", 1, 204)]
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(content.replace(b"completed", b"cancelled"), headers)


def test_a_cancelled_job_is_told_and_a_job_without_a_webhook_is_not(
    rig: MakeRig, receiver: Hooked
) -> None:
    one = rig()
    one.submit(["a"], key="quiet")
    one.submit(["b"], key="loud", webhook={"url": receiver.url, "secret_env": VARIABLE})
    for key in ("quiet", "loud", "loud"):
        one.wiring.steering.cancel(key)
    telling(one).tell()
    assert [json.loads(content)["type"] for _, content in receiver.came] == ["job.cancelled"]


def test_it_is_sent_again_until_it_is_heard_under_one_id(rig: MakeRig, receiver: Hooked) -> None:
    receiver.answers = [(500, {}), (302, {"location": "http://127.0.0.1:1/"}), (200, {})]
    one = rig()
    ended(one, receiver.url)
    for _ in range(5):
        telling(one).tell()

    assert len(receiver.came) == 3
    assert len({headers["webhook-id"] for headers, _ in receiver.came}) == 1
    assert standing(one) == [("delivered", 3, 200)]
    for headers, content in receiver.came:  # Each is signed anew, at its own time.
        assert Webhook(SECRET).verify(content, headers)["type"] == "job.completed"
        with pytest.raises(WebhookVerificationError):
            Webhook("whsec_" + "A" * 32).verify(content, headers)


def test_pauses_grow_and_a_receiver_may_ask_for_a_longer_one(
    rig: MakeRig, receiver: Hooked
) -> None:
    receiver.answers = [(503, {"retry-after": "600"})]
    one = rig()
    ended(one, receiver.url)
    telling(one, first_pause_s=5.0).tell()
    wait_s = one.one(
        "SELECT extract(epoch FROM not_before - clock_timestamp()) FROM webhook_deliveries"
    )
    assert 590 < wait_s <= 600
    assert telling(one).tell() == 0


@pytest.mark.parametrize(("status", "attempts"), [(410, 1), (404, 4)])
def test_it_is_given_up_when_nobody_listens_or_after_so_many_times(
    rig: MakeRig, receiver: Hooked, status: int, attempts: int
) -> None:
    receiver.answers = [(status, {})]
    one = rig()
    ended(one, receiver.url)
    for _ in range(6):
        telling(one).tell()
    assert standing(one) == [("given_up", attempts, status)]


def test_addresses_inside_are_not_told_where_that_is_not_allowed(
    rig: MakeRig, receiver: Hooked
) -> None:
    one = rig()
    ended(one, receiver.url)
    telling(one, allow_private=False).tell()
    assert receiver.came == []
    assert "inside this network" in one.one("SELECT error FROM webhook_deliveries")


def test_a_missing_secret_is_told_by_the_name_of_its_variable(
    rig: MakeRig, receiver: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    one = rig()
    ended(one, receiver.url)
    telling(one).tell()
    assert receiver.came == []
    assert VARIABLE in one.one("SELECT error FROM webhook_deliveries")


@pytest.mark.parametrize("secret", [f"v1,{SECRET}", f"{SECRET}\n", "whsec_c2hvcnQ=", "plain words"])
def test_a_secret_that_is_none_signs_nothing(
    rig: MakeRig, receiver: Hooked, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv(VARIABLE, secret)
    one = rig()
    ended(one, receiver.url)
    telling(one).tell()
    assert receiver.came == []
    assert f"{VARIABLE} holds no secret: it wants whsec_ and base64" in one.one(
        "SELECT error FROM webhook_deliveries"
    )


def test_a_process_killed_while_it_sends_sends_again_later(rig: MakeRig, receiver: Hooked) -> None:
    one = rig()
    ended(one, receiver.url)
    with (
        patch.object(Telling, "_settle", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        telling(one).tell()
    assert telling(one).tell() == 0, "it is leased"
    one.execute("UPDATE webhook_deliveries SET not_before = now()")
    assert telling(one).tell() == 1
    assert len({headers["webhook-id"] for headers, _ in receiver.came}) == 1
    assert standing(one) == [("delivered", 2, 204)]


def test_what_is_to_be_told_is_written_with_the_end_or_not_at_all(
    rig: MakeRig, receiver: Hooked
) -> None:
    """The mutant that writes it afterwards loses it when the process is killed in between."""
    one = rig()
    job = one.submit(["a"], webhook={"url": receiver.url, "secret_env": VARIABLE}).job
    one.wiring.execution.run(job.id)
    with (
        patch.object(WebhookStore, "add", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        one.wiring.completion.sweep()
    assert one.job(job.id).state == "running"

    one.wiring.completion.sweep()
    one.wiring.completion.sweep()
    assert (one.job(job.id).state, len(standing(one))) == ("completed", 1)


def test_no_transaction_is_open_while_it_is_sent(rig: MakeRig, receiver: Hooked) -> None:
    one = rig()
    ended(one, receiver.url)
    seen: list[int] = []
    real = module.post

    def post(*given: Any, **more: Any) -> Any:
        seen.append(one.database.engine.pool.checkedout())  # type: ignore[attr-defined]
        return real(*given, **more)

    with patch.object(module, "post", post):
        telling(one).tell()
    assert seen == [0]
