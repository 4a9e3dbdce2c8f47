"""Satchel next to other systems: the same work, the same vectors, each in its own environment.

`__main__` is the command; `systems` has one adapter for each system, which `worker` runs in its own process.
"""
