"""An OpenAI-compatible server that behaves like a loaded GPU: for trials, tests and benchmarks."""
