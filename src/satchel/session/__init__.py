"""The token budget of an agent session: ledger, tool results in pages, digests, eviction, warnings and hints.

This package counts, cuts, evicts and reports by fixed rules. It never judges what is important: the model does.
"""
