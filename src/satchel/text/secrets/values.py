"""What a value looks like: a placeholder, a reference, a word, code, or a secret."""

import re
from functools import cache

from satchel.model.patterns import lazy_pattern

__all__ = [
    "is_attribute",
    "is_code",
    "is_label",
    "is_mixed_case",
    "is_name",
    "is_opaque",
    "is_phrase",
    "is_placeholder",
    "is_random",
    "is_reference",
    "is_strong",
    "words",
]


def words(listed: str) -> frozenset[str]:
    """Return a set of words that are written in one string, with spaces between them."""
    return frozenset(listed.split())


# Words that stand where a value would, in code, configuration, documentation and messages.
_WORDS = words(
    "none null nil undefined true false yes no on off required optional nullable string str"
    " bytes int integer number"
    " bool boolean any object text varchar char empty blank unset missing invalid expired valid wrong incorrect"
    " changed change reset rotated redacted masked hidden removed unknown placeholder todo tbd fixme n/a na default"
    " example dummy disabled enabled basic bearer oauth oauth2 x-oauth-basic bcrypt argon2"
    " argon2id scrypt pbkdf2 md5"
    " sha1 sha-1 sha256 sha-256 sha512 sha-512 base64 base64url base32 utf8 utf-8 hmac rs256 hs256 es256 aes256"
    " aes-256 ipv4 ipv6 http2 oidc saml2 totp 2fa mfa u2f fido2 webauthn i18n l10n k8s s3 ec2"
    " rfc2617 jwt uuid uuid4"
    " date datetime file path env self this prompt stdin never always sensitive confidential encrypted hashed"
    " changeme change-me change_me changeit foo bar baz foobar test testing tests sample fake mock user username"
    " admin token tokens secret secrets key keys apikey api_key api-key pass pw pwd passwd password passwords"
    " error warn warning info debug allow deny foobared mypassword mysecret mytoken my-password"
    " passphrase passcode pin credentials value values field input"
)
# The words for password, key, secret and token in the languages of interfaces.
_LABELS = words(
    "passwort kennwort passwörter contraseña contrasena contraseñas clave senha parola parole wachtwoord lösenord"
    " losenord adgangskode passord salasana heslo jelszó hasło haslo geslo lozinka şifre sifre parool slaptažodis"
    " пароль секрет ключ токен mot motdepasse mdp secreto segreto geheimnis geheim schlüssel jeton ficha chiave"
    " llave clé kata sandi パスワード シークレット トークン キー 密码 密碼 密钥 令牌 비밀번호 토큰"
)
# A quoted sentence about passwords contains one of these words; a passphrase hardly ever does.
_PROSE = (
    r"\b(?:an?|and|are|at|be|can|cannot|change|characters|confirm|current|do|enter|for|forgot|has"
    r"|have|incorrect|invalid|is|it|least|length|long|match|minimum|must|new|not?|of|or|passwords?"
    r"|please|required|reset|should|show|the|too?|user|was|with|wrong|your?|in|on|by|as|from|this|that"
    r"|der|die|das|und|ist|mit|für|eine?|dein|ihr|neues|neue|le|la|les|de|du|des|et|est|votre|un|une|el|los|las|es"
    r"|tu|su|y|para|con|il|lo|e|di|per|do|da|para|o|het|een|van)\b"
)
_PLACEHOLDER = lazy_pattern(
    r"\$[a-z_]+|\$[{(].*|\$[a-z_]+[:/].*|[{<\[].*|%\(.*|%[a-z_]+%|%[sdrv]|\.\.\..*|@microsoft\..*|[*x•.…_?#0-]+"
    r"|(?:your|my|the|some|insert|replace|enter|put|add|use|example|sample|dummy|fake|test)[-_ ][a-z<>_ .-]*"
    r"|(?:ref|env|secrets?|vault|op|ssm|file|var|data|local|module|config|settings|process|os|sops)"
    r"(?:\+[a-z]+)?(?::|\.[a-z_]).*",
    re.DOTALL,
)
_PLACEHOLDER_ENDS = ("-here", "_here", "-placeholder", "_placeholder", "-example", "_example", "...", "…")
_PLACEHOLDER_PART = lazy_pattern(
    r"xxxxxx|\*\*\*\*|••••|redacted|\{[a-z_][\w.]*\}|example\.com|changeme|placeholder"
)
_REFERENCE = lazy_pattern(
    r"[~.]{0,2}(?:/[\w.@-]+){2,}/?|[~.]{1,2}/[\w.-]*|/[\w.-]+|[A-Za-z]:[\\/].*|[a-z][a-z0-9+.-]*://.*"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:sha[0-9]+|md5)[-:].*|[0-9]{4}-[0-9]{2}-[0-9]{2}.*",
    re.ASCII | re.DOTALL,
)
_CODE = lazy_pattern(
    r"\(.*|/[\^(\[\\].*|(?:Get|Read|New|Convert(?:To|From)|Import|Invoke|(?:Unp|P)rotect)-[A-Z][A-Za-z]+|[&*!@]{0,2}[A-Za-z_$][\w$]*(?:(?:\.|->|::|\?\.)[\w$]+)*"
    r"(?:[(\[{]|->|::|\|\||&&|\?\?|\?\.|\?[\w\"']|===?(?=[^=])|=>|\+=|[,;][\w$]+[.=(]).*",
    re.ASCII | re.DOTALL,
)
_NAME = lazy_pattern(r"[&*!@]?[A-Za-z_$][A-Za-z_$]*", re.ASCII)
_ATTRIBUTE = lazy_pattern(r"(?![A-Z][a-z]+\.[A-Z][a-z]*[0-9]+\Z)[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)+", re.ASCII)
_NUMBERED_NAME = lazy_pattern(r"[A-Za-z]+(?:_[A-Za-z]+)*_?[0-9]{0,2}", re.ASCII)
_COMPOUND = lazy_pattern(r"(?:[A-Za-z]+|[0-9]+)(?:[-/](?:[A-Za-z]+|[0-9]+))+", re.ASCII)
_MEASURE = lazy_pattern(
    r"[~<>≤≥]?[0-9][0-9.,_]*(?:%|[a-zµ]{1,3}|[kmg]i?b|min|sec|bits?|bytes?|chars?)?", re.ASCII | re.IGNORECASE
)
_CHANGES = lazy_pattern(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]", re.ASCII)
_LETTER = lazy_pattern(r"[^\W\d_]")
_DIGIT = lazy_pattern(r"\d")
_SPECIAL = lazy_pattern(r"[@#$%^&*!+=~|]")
_CLASSES = tuple(map(re.compile, (r"[a-z]", r"[A-Z]", r"[0-9]", r"[^A-Za-z0-9\s]")))
# Only the beginning of a value is judged, so that the cost does not grow with its length.
_JUDGED = 128


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: `<your-key>`, `${TOKEN}`, `None`, `required`."""
    lowered = value[:_JUDGED].lower()
    word = lowered.strip(".,;:!?")
    return (
        not word
        or word in _WORDS
        or word in _LABELS
        or lowered.endswith(_PLACEHOLDER_ENDS)
        or _PLACEHOLDER_PART.search(lowered) is not None
        or _PLACEHOLDER.fullmatch(lowered) is not None
    )


def is_label(value: str) -> bool:
    """Return whether a value is a word or phrase for a reader, as in a file of translations."""
    words = value.split()
    if any(word.strip(".,:!?").lower() in _LABELS for word in words):
        return True
    return len(words) == 1 and value.isalpha() and (value.istitle() or not value.isascii())


def is_reference(value: str) -> bool:
    """Return whether a value refers to something: a path, a URL, an email address, a digest, a date."""
    return _REFERENCE.fullmatch(value[:_JUDGED]) is not None


def is_code(value: str) -> bool:
    """Return whether a value starts with a call, an index, an operator or an expression in brackets."""
    return _CODE.fullmatch(value[:_JUDGED]) is not None


def is_attribute(value: str) -> bool:
    """Return whether a value consists of names joined by dots."""
    return _ATTRIBUTE.fullmatch(value[:_JUDGED]) is not None and not (len(value) > 24 and is_random(value))


def is_name(value: str, *, numbered: bool) -> bool:
    """Return whether a value could be a variable name; with `numbered`, also one such as `next_token2`."""
    value = value[:_JUDGED]
    return _NAME.fullmatch(value) is not None or (numbered and _NUMBERED_NAME.fullmatch(value) is not None)


def is_opaque(value: str) -> bool:
    """Return whether a value mixes letters with digits or special characters as words and names do not."""
    value = value[:_JUDGED]
    if not _DIGIT.search(value) and not _SPECIAL.search(value[:-1]):
        return False
    return _LETTER.search(value) is not None and not _COMPOUND.fullmatch(value) and not _MEASURE.fullmatch(value)


def is_mixed_case(value: str) -> bool:
    """Return whether a value has capitals inside, as base64 has, but not a word at the start of a sentence."""
    value = value[:_JUDGED]
    return len(value) >= 8 and value[1:] != value[1:].lower() and value != value.upper()


def is_random(value: str) -> bool:
    """Return whether a value changes so often between small letters, capitals and digits as random ones do."""
    value = value[:_JUDGED]
    digits = sum(map(str.isdigit, value))
    return 2 <= digits < len(value) and len(_CHANGES.findall(value)) >= 0.2 * len(value)


def is_strong(value: str) -> bool:
    """Return whether a value has three of: small letters, capitals, digits, special characters."""
    value = value[:_JUDGED].rstrip(".,;:!?") + value[-1:]
    return len(value) >= 6 and sum(one.search(value) is not None for one in _CLASSES) >= 3 and is_opaque(value)


def is_phrase(value: str) -> bool:
    """Return whether several words could be a passphrase, not a sentence or a label."""
    words = value[: 4 * _JUDGED].split()
    return len(words) >= 4 and value == value.lower() and not is_label(value) and not _prose().search(value)


@cache
def _prose() -> re.Pattern[str]:
    return re.compile(_PROSE)
