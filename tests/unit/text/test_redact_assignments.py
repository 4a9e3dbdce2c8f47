"""A secret is recognised by the name it is assigned to, and other assignments are left alone."""

from invented_secrets import ASSIGNED
from satchel.text.redact import Redacted, redact
from tables import each_row

ORDINARY = [
    "the password is rotated weekly",
    "the password is sha256-hashed and the secret is 32-byte",
    "the password is 8-16 characters long",
    "token budget: 2000",
    "max_tokens=500",
    "tokens: 1,234",
    "token: 2000",
    "PRICE_PER_TOKEN=0.0025 MAX_TOKEN=4096",
    "token_count = len(x)",
    "password: required",
    'password: "must be at least 8 characters"',
    "password: string;",
    "password=None",
    "password=${DB_PASSWORD}",
    "password=$DB_PASSWORD",
    "def read(self, name, pwd=None):",
    "if secret == self.secret: return",
    "password = (self.password or '').encode()",
    'FIELDS = ("gr_name", "gr_passwd", "gr_gid")',
    'FORCE_CHANGE_PASSWORD = "FORCE_CHANGE_PASSWORD"',
    "arn:aws:secretsmanager:*:*:secret:aws/ssm/3p/*",
    "password={{ vault.password }}",
    'password="***"',
    "secret: <your-secret>",
    'api_key="YOUR_API_KEY"',
    'api_key="your-key-goes-here"',
    "api_key=os.environ['KEY']",
    "api_key = settings.API_KEY",
    "const token = process.env.API_TOKEN",
    "login(user=user, password=password)",
    "password = getpass.getpass()",
    "token = next_token2",
    "token = tokens[i + 1]",
    'pad_token = "<pad>" and eos_token: "abc12345"',
    '"next_page_token": "CAESBgoE1234abcd"',
    "PWD=/home/bob/project1",
    "password_file: /run/secrets/db1",
    "secret: /run/secrets/db1",
    "API_KEY=ANTHROPIC_API_KEY",
    "a form with a password field2, a token and a secret5",
    "git rev-parse --token is not a flag of git",
    "use --password to set the password",
    "def f(x: int) -> dict[str, int]:\n    return {k: v for k, v in x.items() if k != 'key'}",
]


@each_row(("label", "before", "secret", "after"), ASSIGNED)
def test_only_the_secret_is_masked_in_its_context(label: str, before: str, secret: str, after: str) -> None:
    assert redact(before + secret + after) == Redacted(f"{before}[masked:{label}]{after}", (label,))


@each_row("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert redact(text) == Redacted(text, ())
