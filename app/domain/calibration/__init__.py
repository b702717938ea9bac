"""What measurements of an endpoint say: its server model, its knee, and a pool's settings."""
