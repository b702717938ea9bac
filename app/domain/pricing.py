"""What tokens cost, by the prices that an endpoint declares."""

from __future__ import annotations

from app.domain.routing import EndpointSpec

_MILLION = 1_000_000


def money(spec: EndpointSpec, prompt_tokens: int, completion_tokens: int = 0) -> float:
    """What a call cost, in the currency of the prices, which are for a million tokens."""
    spent = prompt_tokens * spec.input_price + completion_tokens * spec.output_price
    return spent / _MILLION


def is_spent(spent: float, budget: float | None) -> bool:
    """Whether a job may start no further call. Sums of floats: a millionth of it does not count."""
    return budget is not None and spent >= budget * (1 - 1e-9)


def budget_reason(spent: float, budget: float) -> str:
    """Why a job paused, for the person who must act."""
    return f"budget: spent {shown(spent)} of {shown(budget)}"


def shown(amount: float) -> str:
    """Money as people read it: two decimals, more where the amount is small."""
    if amount == 0 or abs(amount) >= 0.1:
        return f"{amount:,.2f}"
    return f"{amount:.2g}" if abs(amount) >= 1e-4 else f"{amount:.1e}"
