"""What Giveway adds to a person's wait, beside the bare endpoint and plain Celery: `make bench-people`.

Everything runs on this machine: an endpoint that costs little, a load that comes when it comes, a
database at a distance that a proxy makes. Each contender meets the same arrivals.
"""
