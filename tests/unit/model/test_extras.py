import pytest

from satchel.errors import InputError, SatchelError
from satchel.model.extras import needs_extra

LINE = "a store on a server needs the extra 'postgres'; run: pip install 'satchel[postgres]'"


@pytest.mark.parametrize("name", ["psycopg", "psycopg.types.numeric", None])
def test_a_missing_package_or_a_missing_part_of_it_names_the_extra(name: str | None):
    with (
        pytest.raises(InputError) as told,
        needs_extra("postgres", "a store on a server", raises=InputError),
    ):
        raise ImportError("no pq wrapper available", name=name)
    assert str(told.value) == LINE


def test_the_error_of_another_package_stays_as_it_is():
    with pytest.raises(ImportError, match="broken") as told, needs_extra("postgres", "a store on a server"):
        raise ImportError("broken", name="satchel.store.postgres.schema")
    assert not isinstance(told.value, SatchelError)
