"""Writes the generated parts of docs/reference/http.md: python docs/http_reference.py [--check]."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
from generated import write

from satchel import errors
from satchel.model.memory import Memory
from satchel.server.http.metrics import Metrics
from satchel.server.http.problems import NAMESPACE, as_problem
from satchel.server.http.routes import ROUTES, Route

PAGE = Path(__file__).parent / "reference/http.md"


def routes() -> Iterator[str]:
    yield "| request | what it does | access | fields | response |\n|---|---|---|---|---|"
    for route in ROUTES:
        answer = f"`{route.answer.__name__}`" if route.answer else "no body"
        asked, said = f"`{route.method} {route.path}`", ", ".join(fields(route))
        yield f"| {asked} | {route.about} | {route.access} | {said} | {int(route.status)} {answer} |"


def fields(route: Route) -> Iterator[str]:
    """The fields of the body, or of the query if there is no body. Required fields are bold."""
    source = route.body or route.query
    for field in msgspec.structs.fields(source) if source else ():
        if field.name not in ("org", "project", "user", "agent", "session"):
            yield f"**`{field.encode_name}`**" if field.required else f"`{field.encode_name}`"


def responses() -> Iterator[str]:
    """One row for each type that a route answers with, in the order of the routes."""
    yield "| response | fields |\n|---|---|"
    for answer in dict.fromkeys(route.answer for route in ROUTES if route.answer):
        more = issubclass(answer, Memory) and answer is not Memory
        known = set(Memory.__struct_fields__) if more else set()
        said = [f"`{each.encode_name}`" for each in msgspec.structs.fields(answer) if each.name not in known]
        yield f"| `{answer.__name__}` | {', '.join(['the fields of `Memory`', *said] if more else said)} |"


def problems() -> Iterator[str]:
    yield "| `type` | status | when |\n|---|---|---|"
    for name in errors.__all__:
        error = getattr(errors, name)
        problem = as_problem(error("")).problem
        kind = problem.type.removeprefix(NAMESPACE)
        yield f"| `{kind}` | {problem.status} | {problem.title} (`{name}`) |"


def metrics() -> Iterator[str]:
    lines = Metrics().text().splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE")}
    yield "| series | type | what it counts |\n|---|---|---|"
    for line in lines:
        if line.startswith("# HELP"):
            _, _, name, about = line.split(maxsplit=3)
            yield f"| `{name}` | {kinds[name]} | {about} |"


PARTS = {"routes": routes, "responses": responses, "problems": problems, "metrics": metrics}

if __name__ == "__main__":
    write(PAGE, PARTS)
