"""What follows an attempt to tell somebody."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from standardwebhooks.webhooks import Webhook

from app.domain.retry import RetryPolicy
from app.domain.webhooks import Again, GiveUp, Heard, after_attempt, is_private, signing_key

NOW = datetime(2026, 11, 30, tzinfo=UTC)
POLICY = RetryPolicy(max_attempts=8, base_s=5.0)


@pytest.mark.parametrize("status", [200, 202, 204])
def test_any_2xx_is_heard(status: int) -> None:
    assert after_attempt(status, 8, POLICY, None, 0.5) == Heard()


@pytest.mark.parametrize("status", [None, 301, 400, 404, 429, 500])
def test_all_else_is_tried_again_while_attempts_are_left(status: int | None) -> None:
    assert after_attempt(status, 1, POLICY, None, 0.5) == Again(5.0)
    assert after_attempt(status, 8, POLICY, None, 0.5) == GiveUp()


def test_410_gives_up_at_once() -> None:
    assert after_attempt(410, 1, POLICY, None, 0.5) == GiveUp()


def test_pauses_grow_fourfold_to_four_hours_and_vary_by_a_quarter() -> None:
    pauses = [after_attempt(None, n, POLICY, None, 0.5) for n in range(1, 8)]
    assert pauses == [Again(s) for s in (5.0, 20.0, 80.0, 320.0, 1280.0, 5120.0, 14400.0)]
    assert after_attempt(None, 1, POLICY, None, 0.0) == Again(3.75)


def test_a_receiver_may_ask_for_more_time_and_not_for_a_year() -> None:
    assert after_attempt(429, 1, POLICY, 90.0, 0.5) == Again(90.0)
    assert after_attempt(429, 1, POLICY, 1e9, 0.5) == Again(14400.0)


@pytest.mark.parametrize(
    ("address", "inside"),
    [
        ("127.0.0.1", True),
        ("10.1.2.3", True),
        ("192.168.0.9", True),
        ("169.254.169.254", True),
        ("100.64.0.1", True),
        ("0.0.0.0", True),
        ("::1", True),
        ("fe80::1%eth0", True),
        ("fd00::1", True),
        ("::ffff:10.0.0.1", True),
        ("64:ff9b::7f00:1", True),
        ("8.8.8.8", False),
        ("2606:4700:4700::1111", False),
    ],
)
def test_which_addresses_are_inside(address: str, inside: bool) -> None:
    assert is_private(address) is inside


KEY = base64.b64encode(bytes(range(24))).decode()
LONG = base64.b64encode(bytes(range(32))).decode()


@pytest.mark.parametrize(
    ("secret", "key"),
    [
        (f"whsec_{KEY}", bytes(range(24))),
        (f"whsec_{LONG}", bytes(range(32))),
        (f"whsec_{LONG.rstrip('=')}", bytes(range(32))),
    ],
)
def test_a_secret_is_whsec_and_base64(secret: str, key: bytes) -> None:
    assert signing_key(secret) == key
    assert Webhook(key).sign("m", NOW, "x") == Webhook(secret).sign("m", NOW, "x")


@pytest.mark.parametrize(
    "secret",
    [
        "",
        "whsec_",
        f"v1,whsec_{KEY}",
        f" whsec_{KEY}",
        f"whsec_{KEY} ",
        f"whsec_{KEY}\n",
        f"whsec_{KEY[:16]}\n{KEY[16:]}",
        f'"whsec_{KEY}"',
        f"whsec_whsec_{KEY}",
        f"WHSEC_{KEY}",
        f"whsec_{KEY[:16]} {KEY[16:]}",
        f"whsec_{KEY}=x",
        f"whsec_{LONG}{LONG}",
        "whsec_" + base64.b64encode(bytes(23)).decode(),
        "whsec_" + base64.urlsafe_b64encode(b"\xff" * 24).decode(),
        "whsec_correct horse battery staple for ever",
        "whsec_" + "ü" * 32,
        KEY,
        "correcthorsebatterystapleforever",
        bytes(range(24)).hex(),
    ],
)
def test_what_is_no_secret_is_none(secret: str) -> None:
    assert signing_key(secret) is None
