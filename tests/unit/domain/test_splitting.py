"""Long texts in pieces: nothing that can be seen is lost, and none is longer than asked for."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from app.domain.inference import rough_tokens
from app.domain.splitting import beginning, pieces

SENTENCES = " ".join(f"Sentence number {n} speaks of subject {n % 7}." for n in range(300))


def test_a_text_that_fits_is_one_piece_and_untouched() -> None:
    assert pieces("  short \n", 16) == [(0, 9, "  short \n")]


def test_pieces_end_at_sentences() -> None:
    found = pieces(SENTENCES, 64)
    assert len(found) > 30
    assert all(piece.text.endswith(".") for piece in found)


def test_the_beginning_is_the_first_piece() -> None:
    assert beginning(SENTENCES, 64) == pieces(SENTENCES, 64)[0]


def test_overlapping_pieces_repeat_the_end_of_the_one_before() -> None:
    found = pieces(SENTENCES, 64, 16)
    assert all(later.begins < earlier.ends for earlier, later in pairwise(found))


@settings(deadline=None)
@given(st.text(max_size=2000), st.integers(16, 64))
def test_nothing_that_can_be_seen_is_lost(text: str, most: int) -> None:
    found = pieces(text, most)
    seen_until = 0
    for piece in found:
        assert text[piece.begins : piece.ends] == piece.text
        assert piece.begins >= seen_until
        assert not text[seen_until : piece.begins].strip()
        assert rough_tokens(piece.text) <= most
        seen_until = piece.ends
    assert not text[seen_until:].strip()
    assert pieces(text, most) == found
