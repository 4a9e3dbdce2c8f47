"""From words to times: the spans that a question names, in five languages."""

from satchel.dates.spans import Span, named_times

__all__ = ["Span", "named_times"]
