"""Names in a text are recognised by how they are written."""

from satchel.recall.entities import MAX_ENTITIES, entities, query_entities
from tables import each_row


@each_row(
    ("text", "names"),
    [
        ("Caroline said she likes it", ["caroline"]),
        ("I met Caroline and Melanie, Anna too", ["caroline", "melanie", "anna"]),
        ("we moved to New York with Dr. Rivera", ["new york", "dr. rivera"]),
        ("see Dr Rivera", ["dr. rivera"]),
        ("an LGBTQ group on PostgreSQL and H264", ["lgbtq", "postgresql", "h264"]),
        ("at the University of Oxford with Ludwig van Beethoven", ["university of oxford", "ludwig van beethoven"]),
        ("by J. R. R. Tolkien", ["j. r. r. tolkien"]),
        ("Melanie's kids swim", ["melanie"]),
        ("Caroline: Hey Mel! Good to see you!", ["caroline", "mel"]),
        ("Yesterday Caroline swam", ["caroline"]),
        ("Met Caroline", ["met caroline", "caroline"]),
        ("we saw Jean-Luc in Österreich", ["jean-luc", "österreich"]),
        ("we met on Monday in May, I think", []),
    ],
)
def test_names_are_runs_of_capitalised_words(text, names):
    assert list(entities(text)) == names


def test_the_first_word_of_a_sentence_is_a_name_only_if_it_recurs():
    assert entities("Kubernetes is down. It hurts.") == ()
    assert entities("Kubernetes is down. Kubernetes hurts.") == ("kubernetes",)
    assert entities("Work is hard. Work never ends, and work goes on.") == ()
    assert entities("The end. The end. It ends. It ends. However so. However not.") == ()


@each_row(
    ("text", "found"),
    [
        ("set JWT_SECRET in get_user and __init__", ["JWT_SECRET", "get_user", "__init__"]),
        ("call getUserById, then foo() on k8s", ["getUserById", "foo", "k8s"]),
        ("os.path.join in README.md.", ["os.path.join", "README.md"]),
        ("run `pip install x` with --dry-run", ["pip install x", "--dry-run"]),
        ("use gpt-4o-mini or GPT-4", ["gpt-4o-mini", "gpt-4"]),
        ("in src/app/main.py:42, ~/.bashrc and /etc/hosts.", ["src/app/main.py", "~/.bashrc", "/etc/hosts"]),
        (r"open C:\Users\me\notes.txt now", [r"C:\Users\me\notes.txt"]),
        ("see https://GitHub.com/a/B/pull/3?x=1#y.", ["github.com/a/B/pull/3"]),
        ("(www.example.com/docs/)", ["example.com/docs"]),
        ("mail Bob@Example.com or @bob", ["bob@example.com", "@bob"]),
        ("fixes #123 and ABC-123 #Release", ["#123", "abc-123", "#release"]),
        ("from v1.2.3 to 1.2.4, v2, not 3.11", ["v1.2.3", "v1.2.4", "v2"]),
        ("at 10.0.0.1", ["10.0.0.1"]),
        ('reads "Becoming Nicole" and “The Great Gatsby”', ["becoming nicole", "the great gatsby"]),
    ],
)
def test_identifiers_paths_addresses_and_titles_are_found(text, found):
    assert list(entities(text)) == found


@each_row(
    "text",
    [
        "",
        "nothing is named here",
        "and/or, he/she, 24/7, 2023/05/08",
        "It's fine, I'm sure. That's all! Let's go.",
        "the 3rd at 10am, 5km, 3.11 and 1,000",
        "it ended.Then e.g. that",
        'he said "yes, I will do it."',
        "well-known follow-up - a dash — another",
        "()[]{}<>@#`'\"/\\-_.:",
    ],
)
def test_plain_words_and_numbers_are_not_named_things(text):
    assert entities(text) == ()


@each_row(
    ("query", "found"),
    [
        ("What did Caroline research?", ["caroline"]),
        ("When did Melanie's kids go to the beach?", ["melanie"]),
        ("Did Caroline call?", ["caroline"]),
        ("Where is Dr. Rivera's office?", ["dr. rivera"]),
        ("Which Postgres version runs in staging?", ["postgres"]),
        ("Summarize the Acme Corp meeting", ["acme corp"]),
        ("Kubernetes version?", ["kubernetes"]),
        ("WHAT DID CAROLINE DO", ["caroline"]),
        ("How does get_user work", ["get_user"]),
        ("How?", []),
    ],
)
def test_question_words_are_not_names(query, found):
    assert list(query_entities(query)) == found


def test_things_are_named_once_and_not_without_end():
    assert entities("with Caroline, CAROLINE and Caroline's") == ("caroline",)
    assert len(entities(" ".join(f"name_{number}" for number in range(1_000)))) == MAX_ENTITIES


@each_row(
    "unit",
    [
        *[
            "A ",
            "Aa",
            "a.",
            "a/",
            "\\",
            "`",
            '"',
            "'",
            "@",
            "#a",
            "- ",
            "a-1",
            "A of ",
            "Of the ",
            "http://",
            "a@a.",
        ],
        *["A. ", "_", "(", "A\n", "éÉ ", "1.", "v1.", "~/", "A'", "'A ", '"A', "aB ", "/a:1", "\ud800", "A’s "],
    ],
)
def test_odd_text_without_end_gives_few_things(unit):
    assert len(entities(unit * 50_000)) <= MAX_ENTITIES
