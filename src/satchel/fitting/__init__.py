"""Candidates and a token budget to text: cutting, listing, packing with its policies, formats, receipts.

`engine` holds the promise `count(final text) <= budget` once; every other module here, and the pages and
messages of `satchel.session`, use it. This package knows nothing of stores, sessions or servers.
"""
