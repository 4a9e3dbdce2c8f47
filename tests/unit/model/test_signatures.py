"""An unknown keyword names the method and the nearest parameter, and `help` lists every parameter."""

import inspect

import pytest

import satchel
from satchel.model.signatures import parameters_of
from tables import each_row


@each_row(
    ("method", "wrong", "said"),
    [
        ("search", "k", "search() has no parameter 'k'; did you mean limit?"),
        ("search", "n", "search() has no parameter 'n'; did you mean limit?"),
        ("search", "top_k", "search() has no parameter 'top_k'; did you mean limit?"),
        ("search", "max_tokens", "search() has no parameter 'max_tokens'; did you mean token_budget?"),
        ("search", "kinds", "search() has no parameter 'kinds'; did you mean kind?"),
        ("search", "project", "search() has no parameter 'project'; use bag.scoped(project=…) "),
        ("add", "tag", "add() has no parameter 'tag'; did you mean tags?"),
        ("add", "content", "add() has no parameter 'content'; did you mean text?"),
        ("context", "budget", "context() has no parameter 'budget'; did you mean token_budget?"),
        ("get", "identifer", "get() has no parameter 'identifer'; did you mean identifier?"),
        ("stats", "zzz", "stats() has no parameter 'zzz'; it takes none"),
    ],
)
def test_an_unknown_keyword_names_the_method_and_the_nearest_parameter(method: str, wrong: str, said: str):
    with satchel.open(":memory:", embedder="none") as bag, pytest.raises(TypeError) as raised:
        getattr(bag, method)(**{wrong: 1})
    assert str(raised.value).startswith(said)
    assert isinstance(raised.value, satchel.InputError)


def test_every_public_method_refuses_an_unknown_keyword_before_it_does_anything():
    with satchel.open(":memory:", embedder="none") as bag:
        for owner in (bag, bag.session("work")):
            for name, method in inspect.getmembers(owner, inspect.ismethod):
                if not name.startswith("_"):
                    with pytest.raises(satchel.ParameterError, match=rf"^{name}\(\) has no parameter 'zzz'; "):
                        method(zzz=1)
        assert bag.stats().memories == 0


def test_the_signature_of_add_lists_every_field_of_a_draft():
    listed = inspect.signature(satchel.Satchel.add).parameters
    assert {"self", *satchel.Draft.__struct_fields__} == set(listed)
    assert listed["text"].default is inspect.Parameter.empty
    assert listed["title"].default is None


def test_parameters_shared_by_several_methods_are_listed_for_each_of_them():
    for name in ("search", "context", "context_pack", "recent", "export"):
        assert {"kind", "tier", "tags", "status", "since", "until"} <= parameters_of(
            getattr(satchel.Satchel, name)
        ).keys()
