"""The throttle on the running stack, beside what plain Celery can do: `make bench-throttle`."""
