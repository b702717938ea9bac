"""Counting tokens: the server is asked as it wants to be asked, then a file, then a guess."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app import errors
from app.domain.routing import EndpointSpec
from app.domain.tokens import Basis, Counted
from app.inference.tokens import Best, Counters, FileTokens, ServerTokens
from app.inference.wires import Wires

SECRET = "my secret diary of the year nineteen eighty four"


def answering(*bodies: Any, status: int = 200) -> Callable[[socket.socket, int], None]:
    """Gives the `bodies` as JSON, one a request, over and over."""

    def behave(connection: socket.socket, count: int) -> None:
        body = json.dumps(bodies[count % len(bodies)]).encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        connection.sendall(head.encode() + body)

    return behave


@pytest.mark.parametrize(
    ("kind", "bodies"),
    [
        ("vllm", [{"count": 3, "tokens": [1, 2, 3]}, {"count": 1, "tokens": [1]}]),
        ("llamacpp", [{"tokens": [1, 2, 3]}, {"tokens": [1]}]),
        ("tei", [[[{"id": 1}, {"id": 2}, {"id": 3}], [{"id": 1}]]]),
    ],
)
def test_each_kind_of_server_is_asked_in_its_own_way(rude, wire_to, kind, bodies) -> None:
    one = ServerTokens(wire_to(rude(answering(*bodies))), kind, "m")
    assert one.count(["three words here", "one"]) == Counted((3, 1), Basis.SERVER)


@pytest.mark.parametrize(
    "body", [{"tokens": 3}, {"count": "3"}, {"count": -1}, [[1]], [], {"error": 1}, "text"]
)
@pytest.mark.parametrize("kind", ["vllm", "llamacpp", "tei"])
def test_an_answer_that_is_none_is_a_bad_reply(rude, wire_to, kind, body) -> None:
    one = ServerTokens(wire_to(rude(answering(body))), kind, "m")
    with pytest.raises(errors.BadReply):
        one.count(["a", "b"])


def test_a_refusal_never_repeats_the_text(rude, wire_to) -> None:
    one = ServerTokens(
        wire_to(rude(answering({"error": f"bad: {SECRET}"}, status=400))), "tei", "m"
    )
    with pytest.raises(errors.BadRequest) as told:
        one.count([SECRET])
    assert "diary" not in str(told.value)


@pytest.fixture
def file(tmp_path: Path) -> FileTokens:
    """A tokenizer of words, with the truncation that such files often have."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.enable_truncation(2)
    made.enable_padding(length=9)
    made.save(str(tmp_path / "tokenizer.json"))
    return FileTokens(tmp_path / "tokenizer.json")


def test_a_file_counts_the_whole_text_whatever_it_says_of_cutting(file: FileTokens) -> None:
    assert file.count(["one two three four", "one", ""]) == Counted((4, 1, 0), Basis.TOKENIZER)
    assert file.count(["a lone \ud800 surrogate"]).counts[0] >= 3


def test_a_file_that_is_none_is_a_config_error(tmp_path: Path) -> None:
    pytest.importorskip("tokenizers")
    (tmp_path / "tokenizer.json").write_text("{}")
    for path in (tmp_path / "tokenizer.json", tmp_path / "missing.json"):
        with pytest.raises(errors.ConfigError, match=r"is no tokenizer\.json"):
            FileTokens(path).count(["a"])


def test_the_server_comes_first_then_the_file_then_a_guess(rude, wire_to, file) -> None:
    server = ServerTokens(wire_to(rude(answering([[1, 2, 3]]))), "tei", "m")
    assert Best(server, file).count(["a b"]) == Counted((3,), Basis.SERVER)
    assert Best(None, file).count(["a b"]) == Counted((2,), Basis.TOKENIZER)
    assert Best(None, None).count(["a b"]) == Counted((1,), Basis.ROUGH)
    assert Best(server, file).count([]).counts == ()


def test_a_server_that_fails_is_left_out_for_a_while_and_the_file_counts(
    rude, wire_to, file
) -> None:
    asked: list[int] = []

    def behave(connection: socket.socket, count: int) -> None:
        asked.append(count)
        answering({"error": "no"}, status=500)(connection, count)

    best = Best(ServerTokens(wire_to(rude(behave)), "tei", "m"), file)
    assert {best.count(["a b"]).basis for _ in range(5)} == {Basis.TOKENIZER}
    assert asked == [0]


def test_a_server_without_the_call_is_asked_once(server, file) -> None:
    spec = EndpointSpec("sim", "main", "vllm", server.url, ("fake-embed",), 8)
    wires = Wires()
    tokens = Counters(wires).of(spec, "fake-embed")
    assert {tokens.count(["a b"]).basis for _ in range(3)} == {Basis.ROUGH}
    wires.close()


def test_many_texts_are_not_sent_one_by_one(rude, wire_to, file) -> None:
    server = ServerTokens(wire_to(rude(answering({"count": 3}))), "vllm", "m")
    assert Best(server, file).count(["a b"] * 8).basis is Basis.SERVER
    assert Best(server, file).count(["a b"] * 9).basis is Basis.TOKENIZER


def test_a_broken_file_is_a_warning_and_a_guess(tmp_path: Path, caplog) -> None:
    pytest.importorskip("tokenizers")
    best = Best(None, FileTokens(tmp_path / "missing.json"))
    assert [best.count(["a b"]).basis for _ in range(2)] == [Basis.ROUGH] * 2
    assert caplog.text.count("counted roughly") == 1
