"""Digests: a tool's output in a few hundred characters, made for its shape. A module for each shape."""
