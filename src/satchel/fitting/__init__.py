"""From candidates and a token budget to text: cutting, listing, packing with its policies, formats, receipts.

`engine` is the one place that guarantees `count(final text) <= budget`; every other module here, and the pages and
messages of `satchel.session`, use it. This package knows nothing about stores, sessions or servers.
"""
