"""What Giveway adds to a person's wait, beside plain Celery and the bare endpoint.

Everything runs on this machine: an endpoint that costs little, a load that comes when it comes, a
database at a distance that a proxy makes. Each contender meets the same arrivals.
"""
