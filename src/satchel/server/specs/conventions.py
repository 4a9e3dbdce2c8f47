"""Files that say how work is done in a project, whether it has specs or not."""

from satchel.server.specs.artifacts import Artifact
from satchel.server.specs.tree import Place, Tree

__all__ = ["CONVENTIONS", "conventions"]

CONVENTIONS = "conventions"

_FILES = ("claude.md", "agents.md", "readme.md", "contributing.md")
_RULES = ".cursor/rules"


def conventions(tree: Tree) -> list[Artifact]:
    """Those that are there, each once, what is written for agents before what is written for people."""
    root = tree.look("")
    if root is None:
        return []
    listed = tree.children(root, lambda name: name.lower() in _FILES)
    listed.sort(key=lambda place: _FILES.index(place.name.lower()) if place.path else 0)
    found: dict[str, Artifact] = {}
    for place in (*listed, *_rules(tree)):
        # A folder that cannot be looked into has no files to speak of.
        group = "" if place.is_folder and place.trouble else CONVENTIONS
        found.setdefault(place.real or place.path, Artifact(group, place))
    return list(found.values())


def _rules(tree: Tree) -> list[Place]:
    rules = tree.look(_RULES)
    if rules is None:
        return []
    return tree.children(rules, lambda name: name.lower().endswith((".md", ".mdc"))) if rules.is_folder else [rules]
