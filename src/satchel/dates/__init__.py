"""From words to times: the spans that a question names, and the moments of a filter, in five languages."""

from satchel.dates.moments import moment
from satchel.dates.spans import Span, named_times

__all__ = ["Span", "moment", "named_times"]
