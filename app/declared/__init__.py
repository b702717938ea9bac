"""What the settings declare, as the values that services take. Nothing is opened or put together.

A module imports the service that it is for, so that wiring imports it only where it makes that one.
"""
