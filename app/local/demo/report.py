"""The demo's report as text."""

from __future__ import annotations

import textwrap

from app.local.demo.measured import ALONE, THROTTLED, UNTHROTTLED, Leg, Measured

TITLES = {
    ALONE: "people alone",
    UNTHROTTLED: "people and a backfill, no limit",
    THROTTLED: "people and a backfill, Giveway",
}
_WIDTH = 92


def report_text(measured: Measured) -> str:
    """A table of the legs, what it comes to, and what the searches found."""
    head = f"{'':32}{'P50':>9}{'P95':>9}{'P99':>9}{'on target':>11}{'items/s':>9}"
    rows = [_row(leg, measured.target_ms) for leg in measured.legs]
    blocks = ["\n".join([head, *rows]), _sentence(measured)]
    for query, hits in measured.searches:
        found = [f"  {score:.2f}  {key}: {_short(text)}" for key, score, text in hits]
        blocks.append("\n".join([f"search: {query}", *found]))
    blocks += [f"not sound: {fault}" for fault in measured.faults()]
    return "\n\n".join(blocks) + "\n"


def _row(leg: Leg, target_ms: float) -> str:
    figures = "".join(
        f"{'-' if ms is None else f'{ms:,.0f} ms':>9}"
        for ms in (leg.percentile_ms(share) for share in (0.50, 0.95, 0.99))
    )
    share, pace = leg.share_on_target(target_ms), leg.items_per_s
    on_target = "-" if share is None else f"{share:.0%}"
    return (
        f"{TITLES[leg.name]:32}{figures}{on_target:>11}{'-' if pace is None else f'{pace:,.0f}':>9}"
    )


def _sentence(measured: Measured) -> str:
    document, load = measured.document(), measured.load
    said = (
        f"{load.get('rps', 0):g} requests a second of {load.get('max_tokens')} tokens, a target of "
        f"{measured.target_ms:g} ms, {measured.leg(THROTTLED).total:,} texts to embed, one "
        f"endpoint with {load.get('places')} places. "
    )
    shares = [
        measured.leg(name).share_on_target(measured.target_ms) for name in (THROTTLED, UNTHROTTLED)
    ]
    if None not in (*shares, document["p95_ratio"], document["items_per_s_ratio"]):
        said += (
            f"With Giveway {shares[0]:.0%} of people's requests met the target, against "
            f"{shares[1]:.0%} without a limit; their P95 was {document['p95_ratio']:g} times "
            f"shorter, and the backfill ran at {document['items_per_s_ratio']:.0%} of the pace."
        )
    return textwrap.fill(said, _WIDTH)


def _short(text: str | None) -> str:
    return textwrap.shorten(text or "", 60, placeholder=" …")
