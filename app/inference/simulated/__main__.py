"""`python -m app.inference.simulated --port N --places 8`: the simulated endpoint by itself."""

from __future__ import annotations

import argparse
import logging

import orjson

from app.inference.simulated.faults import fault
from app.inference.simulated.serving import serve
from app.inference.simulated.settings import ModelCosts, SimulatedSettings

__all__ = ["SimulatedSettings", "serve"]


def main() -> None:
    """Read the flags and serve."""
    costs = ModelCosts()
    parser = argparse.ArgumentParser(prog="python -m app.inference.simulated")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--places", type=int, default=8, help="requests that run at a time")
    parser.add_argument("--models", nargs="+", default=["fake-chat", "fake-embed"])
    parser.add_argument("--speed", type=float, default=1.0, help="2 halves all times")
    parser.add_argument("--step-ms", type=float, default=costs.step_s * 1000)
    parser.add_argument(
        "--running-ms", type=float, default=costs.running_s * 1000, help="a step, for each request"
    )
    parser.add_argument("--scheduling", choices=("fcfs", "priority"), default="fcfs")
    parser.add_argument("--kv-tokens", type=int, default=costs.kv_tokens)
    parser.add_argument("--step-tokens", type=int, default=costs.step_tokens)
    parser.add_argument("--api-key")
    parser.add_argument("--ledger", action="store_true", help="count every single input")
    parser.add_argument("--fault", action="append", default=[], metavar="JSON")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    serve(
        SimulatedSettings(
            host=given.host,
            port=given.port,
            places=given.places,
            models=tuple(given.models),
            speed=given.speed,
            scheduling=given.scheduling,
            costs=ModelCosts(
                step_s=given.step_ms / 1000,
                running_s=given.running_ms / 1000,
                kv_tokens=given.kv_tokens,
                step_tokens=given.step_tokens,
            ),
            api_key=given.api_key,
            ledger=given.ledger,
            faults=tuple(fault(orjson.loads(one)) for one in given.fault),
            seed=given.seed,
        )
    )


if __name__ == "__main__":
    main()
