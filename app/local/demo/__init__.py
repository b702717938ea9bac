"""The parts of `giveway demo`: its corpus, what it measures, and what it writes."""
