"""PostgreSQL URLs: which are accepted, and how they are shown without the password."""

import pytest
from psycopg.conninfo import conninfo_to_dict

from satchel import InputError
from satchel.store.locations import is_address
from satchel.store.postgres.connection import parse_address
from tables import each_row

SHOWN = {
    "postgresql://u:geheim@h:5433/d": "postgresql://u@h:5433/d",
    "postgres://u:geheim@h/d": "postgresql://u@h/d",
    "postgresql://h": "postgresql://h/",
    "postgresql:///d?host=/run/pg&port=5433&user=u&password=geheim": "postgresql://u@/d?host=/run/pg&port=5433",
    "postgresql://u:geheim@%2Frun%2Fpg/d": "postgresql://u@/d?host=/run/pg",
    "postgresql://u:geheim@a:1,b:2/d?target_session_attrs=read-write": (
        "postgresql://u@a:1,b:2/d?target_session_attrs=read-write"
    ),
    "postgresql://a,b/d": "postgresql://a,b/d",
    "postgresql://a,b:6/d": "postgresql://a,b:6/d",
    "postgresql://u:geheim@[::1]:5433/d": "postgresql://u@[::1]:5433/d",
    "postgresql://?service=work&password=geheim": "postgresql:///?service=work",
    "postgresql://u@h/d?passfile=/home/u/.pgpass&sslmode=require": (
        "postgresql://u@h/d?passfile=/home/u/.pgpass&sslmode=require"
    ),
    "postgresql://u:geheim@h/d?sslrootcert=/etc/ca.crt&sslmode=verify-full&sslcert=me.crt&sslkey=me.key": (
        "postgresql://u@h/d?sslmode=verify-full&sslrootcert=/etc/ca.crt&sslcert=me.crt&sslkey=me.key"
    ),
    "postgresql://u%40corp:geheim@h/my%20notes": "postgresql://u%40corp@h/my%20notes",
    "postgresql://u:geh%2Feim@h/d?sslkey=k&sslpassword=geheim": "postgresql://u@h/d?sslkey=k",
}


@each_row("url", SHOWN)
def test_an_address_is_shown_without_its_password_and_can_be_used_again(url: str) -> None:
    address = parse_address(url)
    assert address.shown == SHOWN[url]
    assert address.conninfo == url
    given, again = conninfo_to_dict(url), conninfo_to_dict(address.shown)
    for name in ("user", "host", "port", "dbname", "service", "sslmode", "sslrootcert", "sslcert", "sslkey"):
        assert again.get(name) == given.get(name), name


def test_what_must_not_be_printed_is_known_as_it_is_and_as_it_is_written() -> None:
    assert parse_address("postgresql://u:a%2Fb@h/d").secrets == ("a%2Fb", "a/b")
    assert parse_address("postgresql://u@h/d").secrets == ()


@each_row(
    ("url", "said"),
    [
        ("mysql://u:geheim@h/d", "stores at mysql:// are not known; a store is a file"),
        ("POSTGRESQL://u:geheim@h/d", "stores at POSTGRESQL:// are not known"),
        ("postgresql:u:geheim@h/d", "a store is a file"),
        ("u:geheim@h://d", "a store is a file"),
        ("postgresql://u:geheim@h:port/d", "that is no address of a PostgreSQL database"),
        ("postgresql://u:geheim@h:0/d", "that is no address of a PostgreSQL database"),
        ("postgresql://u:geheim@h:70000/d", "that is no address of a PostgreSQL database"),
        ("postgresql://u:ge@heim@h/d", "percent-encoded"),
        ("postgresql://u:geheim@h/d?no_such=option", "that is no address of a PostgreSQL database"),
    ],
)
def test_what_is_no_address_is_refused_and_not_repeated(url: str, said: str) -> None:
    with pytest.raises(InputError, match="postgresql://USER@HOST:PORT/DATABASE") as caught:
        parse_address(url)
    assert said in str(caught.value)
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("place", ["notes.db", "C:\\notes.db", "user=5/notes.db", "postgres.db", "a:b", ":memory:"])
def test_a_file_is_not_taken_for_an_address(place: str) -> None:
    assert not is_address(place)
