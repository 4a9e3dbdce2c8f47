"""The budget of an agent session: ledger, results and their pages, digests, eviction, warnings, hints.

Counts, cuts and reports mechanically; what is important is for the model to decide.
"""
