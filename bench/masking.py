"""Measure masking: secrets found, false alarms, and the cost of hostile texts relative to plain text.

python -m bench.masking [--set FILE…] [--cost] [--size 200000]

Without options: both halves of bench/masking_samples.py, the kept half of bench/masking_unseen.jsonl, and the cost.
`--set` measures files of JSON lines instead: {"name": …, "text": …, "secret": … or null}. A secret is found if it
no longer stands in the masked text. A false alarm is any change of a text without a secret. `--cost` measures only
the cost.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from bench import masking_samples
from bench.masking_samples import Sample, samples
from bench.table import print_table
from satchel.text.redact import redact

__all__ = ["Rates", "cost", "hostile_texts", "main", "plain_text", "rates", "unseen_samples"]

ROOT = Path(__file__).parent.parent


class Rates(NamedTuple):
    """What masking did with a set of samples."""

    secrets: int
    missed: list[Sample]
    harmless: int
    false_alarms: list[Sample]

    @property
    def found(self) -> float:
        return 1 - len(self.missed) / max(1, self.secrets)

    @property
    def alarms(self) -> float:
        return len(self.false_alarms) / max(1, self.harmless)


def rates(rows: Iterable[Sample]) -> Rates:
    """Mask each sample by itself, and return which secrets were missed and which harmless texts changed."""
    rows = list(rows)
    secrets = [sample for sample in rows if sample.secret is not None]
    harmless = [sample for sample in rows if sample.secret is None]
    return Rates(
        len(secrets),
        [sample for sample in secrets if (sample.secret or "") in redact(sample.text).text],
        len(harmless),
        [sample for sample in harmless if redact(sample.text).text != sample.text],
    )


def read_samples(path: Path) -> list[Sample]:
    """Read samples from JSON lines."""
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                row = msgspec.json.decode(line, type=dict[str, str | None])
                found.append(Sample(row.get("name") or f"line {number}", row["text"] or "", row.get("secret")))
            except (msgspec.DecodeError, KeyError) as error:
                raise SystemExit(f"{path}, line {number}: {error}; give name, text, secret") from error
    return found


# Letters and digits are exchanged in texts with a secret: a secret scanner takes nothing in the file for a key.
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_ROTATED = str.maketrans(
    _LETTERS + _LETTERS.upper() + "0123456789",
    _LETTERS[13:] + _LETTERS[:13] + _LETTERS[13:].upper() + _LETTERS[:13].upper() + "5678901234",
)


def unseen_samples(half: Literal["kept", "released"] = "kept") -> list[Sample]:
    """Return samples that were written without knowledge of the rules; `«…»` encloses the secret in the file.

    The released half was then used to improve the rules. The kept half was not, but for what masking.md says.
    """
    found = []
    for line in (ROOT / "bench" / "masking_unseen.jsonl").read_text(encoding="utf-8").splitlines():
        row = msgspec.json.decode(line, type=dict[str, str])
        if row["half"] != half:
            continue
        if "harmless" in row:
            found.append(Sample(row["name"], row["harmless"]))
        else:
            before, _, rest = row["rot"].translate(_ROTATED).partition("«")
            secret, _, after = rest.partition("»")
            found.append(Sample(row["name"], before + secret + after, secret))
    return found


def plain_text(size: int) -> str:
    """Return ordinary text of the given length: the documents and the source code of this repository."""
    paths = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("src/satchel/[a-f]*/*.py")])
    text = "\n".join(path.read_text(encoding="utf-8") for path in paths)
    # An opening tag without its end would mask the rest of the text, which is then not searched.
    text = text.replace("<private", "<section").replace("</private", "</section")
    return (text * (size // len(text) + 1))[:size]


# Units that reach as far as possible into one of the rules, repeated.
UNITS = (
    *("a", "A", "1", "-", " ", "\n", '"', "'", "`", "\\", "<", "[", "=", ":", "@", "/", ".", "%41", "é", "パ"),
    *("a ", "1 ", "1-", "a.", "a_", "a-1-", "a::", ";a=", ",a ", "&a=1", "aB3", "abc ", "ABC", "aB3/", "QUJD", "4"),
    *(
        "sk-",
        "sk-ant-",
        "sk-a",
        "ghp_",
        "glpat-",
        "AKIA",
        "AKIA1",
        "SG.",
        "SG.a",
        "xoxb-",
        "eyJ.eyJ.",
        "eyJ-",
        "eyJ",
    ),
    *(
        "1234567:AA",
        "123456789:AA",
        "MTIz",
        "hvs.",
        "sl.",
        "v1.0-",
        "EAAA",
        "pat",
        "key-",
        "A3-",
        "0x",
        "1//0",
        "00",
    ),
    *("password", "password=", 'password="', "password='", "password: ", "password:", "password is ", "password ="),
    *("password=f(", "password=[", "password=a1,", 'password="a1b', "password=aB3$", "my.password=", "--password "),
    *('{"password":"', '"password": "a1b2c3",', "passwort: ", "パスワード", "パスワードは", "mot de passe : "),
    *("api_key=", "apikey:", "key=", "key: ", "secret=", 'secret:"', "token=", "token=a.", "token:a1b2c3d4e5f6 "),
    *("auth=", "auth: a1b2c3d4e5 ", "cookie: a=", "cookie: a=b; ", "set-cookie: ", "cookie:a=a1b2c3d4e5f6g7h8;"),
    *(
        "authorization: bearer ",
        "authorization:",
        "bearer ",
        "bearer a1b2c3",
        "basic ",
        "curl -u a:",
        "curl ",
        " -p",
    ),
    *("://", "://a:", "://a:b@", "://a:b", "https://a", "?sig=", "hooks.slack.com/services/", "/webhooks/1/"),
    *(
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----BEGIN PRIVATE KEY-----\nQUJDQUJDQUJDQUJD\n",
        "-----END ",
    ),
    *("<private", "<private ", "<private>", "</private>", "[masked:", "[masked:x]", "machine a login b password "),
    *("<password>", "<password>a1", "<key>token</key>", '<add key="secret" value="', 'name="password" value="'),
    *(
        "mysql -p",
        "mysql -u a -p",
        "sshpass -p ",
        "login: a / ",
        "user: a ",
        "a:1:b:c:",
        "h:5432:d:u:p\n",
        "net use ",
    ),
    *(
        "4111111111111111",
        "4111 1111 1111 1111 ",
        "4111-",
        "378282246310005",
        "abandon ",
        "abandon zoo\n",
        "seed: ",
    ),
    *(
        "seed phrase: abandon ",
        "pin: ",
        "pin is 1234 ",
        "client-key-data: ",
        "identified by '",
        "$ansible",
        "SK0a1b",
    ),
    *(
        "username,password\n",
        "a,password\n1,b2\n",
        "| a | password |\n",
        "| a | password |\n| b | c1 |\n",
        "a\tpw\n",
    ),
    *(
        "nmcli password ",
        "net user a ",
        "conn a/",
        "user a on ",
        "auth plain ",
        "a1 LOGIN ",
        "user a\nPASS ",
        "%3a",
    ),
    *(
        "\ttrue\t",
        "wifi:a;",
        "secret 0 ",
        "username a password ",
        "createuser a sha ",
        "random_password",
        "value: ",
    ),
    *(
        "code is ",
        "code for the door",
        "recovery code ",
        "recovery codes:\n",
        "recovery codes: 1234-5678 ",
        "totp: aaaa ",
    ),
    *("log in with a and ", "user a and password ", "new password\n", "new password:", "1. abandon ", "abandon, "),
    *("Aa1!", "aa1-", "a" * 15 + " ", "aB3" * 6 + " ", "aB3" * 20 + "\n", "q~", "a8Q~", ".atlasv1.", "AccountKey="),
)


def hostile_texts(size: int) -> dict[str, str]:
    """Return repetitions of each unit, in texts of about the given length."""
    return {unit: (unit * (size // len(unit) + 1))[:size] for unit in UNITS}


def cost(text: str, *, repeats: int = 3) -> float:
    """Return the nanoseconds of this thread for each character, the best of some runs."""
    best = float("inf")
    for _ in range(repeats):
        start = time.thread_time()
        redact(text)
        best = min(best, time.thread_time() - start)
    return best / len(text) * 1e9


def print_rates(title: str, rows: Sequence[Sample]) -> None:
    result = rates(rows)
    found = result.secrets - len(result.missed)
    print(f"\n{title}: {found} of {result.secrets} secrets found ({result.found:.1%}),", end=" ")
    print(f"{len(result.false_alarms)} false alarms in {result.harmless} harmless texts ({result.alarms:.1%})")
    for sample in result.missed:
        print(f"  missed       {sample.name}: {sample.text[:160]!r}")
    for sample in result.false_alarms:
        print(f"  false alarm  {sample.name}: {redact(sample.text).text[:160]!r}")


def print_costs(size: int) -> float:
    """Print the most expensive hostile texts, and return the largest ratio to plain text."""
    plain = cost(plain_text(size))
    ratios = {name: cost(text, repeats=1) / plain for name, text in hostile_texts(size).items()}
    slow = sorted(ratios, key=lambda name: -ratios[name])[:8]
    ratios |= {name: cost(hostile_texts(size)[name]) / plain for name in slow}
    worst = sorted(ratios.items(), key=lambda each: -each[1])[:8]
    rows = [("text", "ns a character", "× plain"), ("plain text", f"{plain:.0f}", "1.0")]
    rows += [(repr(name), f"{ratio * plain:.0f}", f"{ratio:.1f}") for name, ratio in worst]
    print_table(f"cost of {size:,} characters; the 8 most expensive of {len(ratios)} hostile texts", rows)
    return worst[0][1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", nargs="+", type=Path, dest="sets", metavar="FILE", help="samples as JSON lines")
    parser.add_argument("--cost", action="store_true", help="measure only the cost")
    parser.add_argument("--size", type=int, default=200_000, help="characters of each text")
    options = parser.parse_args(arguments)
    if options.sets:
        for path in options.sets:
            print_rates(path.name, read_samples(path))
        return 0
    if not options.cost:
        print_rates("first half", samples((*masking_samples.FIRST_SECRETS, *masking_samples.FIRST_HARMLESS)))
        print_rates("kept half of the unseen samples", unseen_samples())
        print_rates("second half", samples((*masking_samples.SECOND_SECRETS, *masking_samples.SECOND_HARMLESS)))
    print_costs(options.size)
    return 0


if __name__ == "__main__":
    sys.exit(main())
