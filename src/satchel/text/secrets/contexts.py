"""Secrets found by the text around them: URLs, headers, cookies, markup, code, key files."""

import re
from collections.abc import Iterable, Iterator

from satchel.model.patterns import lazy_pattern
from satchel.text.secrets.commands import COMMANDS
from satchel.text.secrets.context import (
    NOUN,
    Context,
    basic,
    find_context,
    generated,
    given,
    is_name_like,
    marked_up,
    opaque,
    pair,
)
from satchel.text.secrets.searched import HintIndex, Searched
from satchel.text.secrets.values import (
    is_code,
    is_label,
    is_mixed_case,
    is_opaque,
    is_random,
    is_reference,
    is_strong,
)

__all__ = ["CONTEXTS", "find_contexts", "find_private_keys"]


def _defined(value: str) -> bool:
    return given(value) and not is_reference(value) and (is_strong(value) or not set(value) & set(" \t"))


CONTEXTS = (
    # Formats without a fixed head
    Context("terraform-token", ".atlasv1.", r"(\.atlasv1\.[\w=-]{40,}+)", before=r"[a-z0-9]{14}$", back=14),
    Context("azure-client-secret", "q~", r"([\w~.]{3}[0-9]Q~[\w~.-]{31,}+)", exact=True),
    Context("telegram-token", ":aa", r"([0-9](?<![0-9][0-9])[0-9]{5,15}+:AA[\w-]{33})(?![\w-])", exact=True),
    Context(
        "mailchimp-key",
        "-us",
        r"(-us[0-9]{1,2})(?![\w-])",
        before=r"(?:(?<![0-9a-f])|(?<=%[0-9a-f]{2}))[0-9a-f]{32}$",
        back=32,
    ),
    Context("okta-token", "ssws ", r"ssws (00[\w-]{38,42})(?![\w-])"),
    Context(
        "api-key",
        "_",
        r"_(?:live|test|prod|production|pat|sk|secret|api|key)_([a-z0-9][\w-]{15,}+)",
        is_random,
        before=r"(?<![a-z0-9])(?!pk)[a-z]{2,12}$",
    ),
    Context("password-hash", "$", r"(\$2[aby]\$[0-9]{2}\$[./a-z0-9]{53})(?![\w/])"),
    Context("password-hash", "$", r"(\$(?:[156y]|apr1)\$[./a-z0-9$=,-]{20,200}+)", is_random),
    Context("password-hash", "$argon2", r"(\$argon2(?:id?|d)\$[^\s\"':]{30,300}+)"),
    # Keys of storage services, and URLs that grant access
    Context("azure-key", "accesskey=", r"sharedaccesskey=([a-z0-9+/]{20,}+={0,2})"),
    Context("azure-key", "accountkey=", r"accountkey=([a-z0-9+/]{20,}+={0,2})"),
    Context("url-signature", "sig=", r"[?&]sig=([a-z0-9%+/]{20,}+={0,2})"),
    Context("url-signature", "-signature=", r"[?&]x-(?:amz|goog)-signature=([a-f0-9]{20,}+)"),
    Context("url-signature", "signature=", r"[?&]signature=([a-z0-9%+/=_~-]{20,}+)", is_random),
    Context(
        "password",
        ("password=", "pwd="),
        r"(?:password|pwd)=([^;\s\"'&]{3,128})(?=[;\s\"']|\Z)",
        marked_up,
        before=r"(?:server|host|user(?:[ ]?(?:id|name))?|uid|database(?:name)?|source|port)=[^;\n]{1,64};[ ]?$",
    ),
    Context(
        "slack-webhook", "hooks.slack.com/", r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/+-]{20,}+)"
    ),
    Context("discord-webhook", "/webhooks/", r"/api/webhooks/[0-9]{10,24}/([\w-]{40,}+)"),
    Context("teams-webhook", ".office.com/", r"\.office\.com/webhook(?:b2)?/([\w@/-]{40,}+)"),
    Context("webhook", "/hooks/catch/", r"/hooks/catch/([\w/]{10,})"),
    Context("webhook", ".make.com/", r"hook\.[a-z0-9]{2,4}\.make\.com/([\w-]{20,}+)"),
    Context(
        "url-password",
        "@",
        r"://[^\s/?#:@\"'<>`\[]{0,256}+:([^\s/?#\"'<>`@]*+(?:@[^\s/?#\"'<>`@]*+)*)@",
        given,
    ),
    Context("url-token", "@", r"://([\w-]{20,}+)(?::[^\s/?#@\"'<>`]*+)?@", is_opaque),
    Context(
        "aws-secret-key",
        "secret",
        r"secret[_ -]?(?:access[_ -]?)?(?:key)?[\"'\]\s:=>,\\]{1,8}(?:is[\s:]{1,4})?[\"']?"
        r"([a-z0-9/+]{40})(?![a-z0-9/+=])",
        is_mixed_case,
        before=r"aws[_ -]?$|aws|access|amazon|s3|akia|^$|[^a-z]$",
    ),
    # Headers and cookies
    Context(
        "authorization",
        "authorization",
        r"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?"
        r"[a-z][a-z-]{2,20}[ \t]{1,4}([\w.~+/=:-]{6,}+)",
        generated,
    ),
    Context(
        "authorization",
        "authorization",
        r"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=,][ \t]{0,4}\\?[\"'`]?([\w.~+/=:-]{20,}+)",
        generated,
    ),
    Context("authorization", "bearer ", r"bearer(?<![a-z0-9]bearer)[ \t]{1,4}([\w.~+/=-]{16,}+)", is_opaque),
    Context("authorization", "basic ", r"basic(?<![a-z0-9]basic)[ \t]([a-z0-9+/]{8,}+={0,2})", basic),
    # Markup
    Context(
        "password",
        "</",
        rf"<[\w.:-]{{0,24}}{NOUN}>[ \t]{{0,8}}(?:<!\[cdata\[)?([^<>\s\]]{{3,1024}})",
        marked_up,
    ),
    Context(
        "password",
        "</",
        rf"{NOUN}[\w.-]{{0,8}}[\"']?(?:</(?:key|name)>\s{{0,40}}<(?:string|value|data))?>\s{{0,20}}"
        r"([^<>\s]{6,1024})\s{0,20}</(?:string|value|data|property|entry|param|setting|field)",
        lambda value: marked_up(value) and is_opaque(value),
    ),
    Context(
        "password",
        "value=",
        r"value=\\?[\"']([^\"'<>\n\\]{3,512})",
        lambda value: marked_up(value) and (is_opaque(value) or len(value) > 5) and not is_name_like(value),
        before=rf"(?:key|name|type|id)=\\?[\"'][\w.: -]{{0,48}}{NOUN}[\w.\[\]-]{{0,16}}\\?[\"'][^<>]{{0,120}}$",
    ),
    Context(
        "password",
        "default",
        r"default[ \t]{0,8}=[ \t]{0,8}\"([^\"\n]{3,512})\"",
        marked_up,
        before=rf"variable[ \t]+\"[\w-]{{0,48}}{NOUN}[\w-]{{0,16}}\"[^}}]{{0,120}}$",
    ),
    # Code: defaults of variables, arguments of calls
    Context(
        "password",
        (' or "', " or '", " or b", '|| "', "|| '", '?? "', "?? '"),
        r"(?:\|\||\?\?|[ ]or)[ ]b?[\"']([^\"'\n\s]{6,512})[\"']",
        lambda value: opaque(value) and not is_label(value),
        before=rf"{NOUN}[\w\"'\])]{{0,24}}[ \t]{{0,4}}[:=)\]?][^\n;]{{0,80}}$",
    ),
    Context(
        "password",
        "${",
        rf"\$\{{[\w.]{{0,40}}{NOUN}[\w.]{{0,16}}:[-=]?([^}}\s]{{4,128}})\}}",
        opaque,
    ),
    Context(
        "password",
        (
            *("auth(", "auth=(", "login(", "log_in(", "signin(", "sign_in(", "authenticate(", "authentication("),
            *("credential(", "credentials(", "connect(", "connection(", "create_user(", "createuser(", "adduser("),
            "add_user(",
        ),
        r"(?:auth|log_?in|sign_?in|authenticat(?:e|ion)|credentials?|auth=|connect(?:ion)?|(?:create"
        r"|add)_?user)[ ]?\("
        r"[ ]?[\"'][^\"'\n]{1,128}[\"'],[ ]?"
        r"(?:[\"'][^\"'\n]{1,64}[\"'],[ ]?)?[\"']([^\"'\n\s]{5,128})[\"']",
        opaque,
    ),
    Context(
        "password",
        "jdbc:",
        r"\([ ]?\"jdbc:[^\"\n]{1,200}\",[ ]?\"[^\"\n]{1,64}\",[ ]?\"([^\"\n\s]{3,128})\"",
        given,
    ),
    Context(
        "password",
        "define(",
        rf"define\([ ]?[\"']\w{{0,40}}(?:{NOUN}|_key|_salt)[\"'],\s{{0,16}}[\"']([^\"'\n]{{3,256}})[\"']",
        _defined,
    ),
    Context(
        "api-key",
        ("client(", "search(", "twilio(", "api(", "sdk("),
        r"(?:client|search|twilio|api|sdk)\([ ]?[\"'][^\"'\n]{1,64}[\"'],[ ]?[\"']([\w-]{24,128})[\"']",
        is_random,
    ),
    Context("totp-secret", "totp", r"(?:TOTP|totp)\([ ]?[\"']([A-Z2-7 ]{16,80}={0,6})[\"']", exact=True),
    Context(
        "password",
        "value",
        r"value[\"']?[ \t]{0,4}:[ \t]{0,4}[\"']?([^\s\"',}]{3,256})",
        lambda value: marked_up(value) and not is_name_like(value) and (is_opaque(value) or len(value) >= 6),
        before=r"(?:name|key|id)[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?[\w.-]{0,48}"
        rf"{NOUN}(?:_?[0-9]{{1,2}})?[\"']?,?\s{{0,40}}[\"']?$",
    ),
    Context(
        "password", "random_password", r"random_password(?:.|\n){1,400}?\"result\"[ ]?:[ ]?\"([^\"\n]{6,128})\""
    ),
    Context(
        "password",
        ("%3a", "%3d"),
        rf"{NOUN}(?:%5c)?(?:%22)?(?:%20)?%3[ad](?:%20)?(?:%5c)?(?:%22)?((?:[^\s%&\"'<>]|%(?!22|26|2c|5c"
        rf"|7d)[0-9a-f]{{2}}){{4,256}})",
        lambda value: given(value) and (is_opaque(value) or len(value) >= 8),
    ),
    Context(
        "secret",
        ("jwt.", "fernet(", "hmac", "aes.new(", "cookieparser("),
        r"(?:jwt\.(?:sign|encode|verify|decode)\([^\n\"']{1,60}|fernet\(|hmac\.new\("
        r"|createhmac\([\"'][\w-]{1,12}[\"'],[ ]?"
        r"|aes\.new\(|cookieparser\()b?[\"']([^\"'\n\s]{6,256})[\"']",
        opaque,
    ),
    Context("private-key", '"kty"', r"\"d\":[ ]?\"([\w-]{40,}+)\""),
    # Files of credentials
    Context(
        "docker-auth",
        ("dockercfg", "dockerconfigjson"),
        r"docker(?:cfg|configjson)[\"']?:[ \t]{0,4}[\"']?([a-z0-9+/=]{40,}+)",
    ),
    Context("password", "@", r"@[\w-]{1,64}\.[\w.-]{1,64}:([^\s:/@\"'<>]{6,64}+)(?=\s|\Z)", is_strong),
    Context(
        "private-key",
        "private-lines:",
        r"private-lines:[ \t]?[0-9]{1,3}\r?\n((?:[a-z0-9+/=]{1,80}\r?\n?){1,80}+)",
    ),
    Context(
        "password",
        "machine",
        r"machine\s{1,8}+\S{1,128}+\s{1,8}+login\s{1,8}+\S{1,128}+\s{1,8}+password\s{1,8}+(\S{1,256}+)",
        given,
    ),
    Context("password", "login", r"login\s{1,8}+\S{1,128}+\s{1,8}+password\s{1,8}+(\S{1,256}+)", opaque),
    Context(
        "password",
        ":",
        r":(?:[0-9]{3,5}|\*):[\w*-]{1,64}:[\w*.@-]{1,64}:([^\s:]{3,128})(?=\s|\Z)",
        opaque,
        before=r"(?:^|\s)[a-z*][\w.*-]{0,99}$|(?:^|\s)[0-9]{1,3}(?:\.[0-9]{1,3}){3}$",
    ),
    Context(
        "password",
        "identified",
        r"identified(?:[ \t]{1,4}with[ \t]{1,4}\S{1,40})?[ \t]{1,4}by[ \t]{1,4}(?:password[ \t]{1,4})?"
        r"[\"'`]([^\"'`\n]{3,128})[\"'`]",
        given,
        before=r"(?:create|alter|grant|user|set)\b",
    ),
    # Codes, and `auth` in the configuration of clients
    Context(
        "password",
        "code",
        r"codes?(?:[ ](?:is|was|are)"
        r"|[ \t]{0,2}[:=])[ \t]{1,3}[\"'`]?([a-z0-9]{4,10}(?:[ -][a-z0-9]{4,10}){0,3})(?![\w-])",
        lambda value: "-" in value or value.isdigit() or is_opaque(value),
        before=r"(?:backup|recovery|access|verification|security|one-time|otp|2fa|mfa|unlock|door"
        r"|auth\w*)[ _-]?$",
    ),
    Context(
        "token",
        "auth",
        r"auth[\"']?[ \t]{0,2}[:=][ \t]{0,2}[\"']?([a-z0-9+/=_.-]{16,}+)",
        # In a Docker configuration, base64 of a name and a password.
        lambda value: is_random(value) or basic(value),
        before=r"(?:^|[^a-z0-9])$",
    ),
    Context(
        "password",
        " as ",
        r"(?:use|set|with|enter|type)[ ][\"'`]?([^\s\"'`]{5,128})[\"'`]?[ ]as[ ](?:(?:the|your|my|a"
        r"|new)[ ]){0,2}(?:\w{1,16}[ ])?"
        r"(?:password|passphrase|passcode|pw|token|api[ ]key|secret)",
        pair,
    ),
    # Pairs of a user and a password
    Context(
        "password",
        (
            "password",
            "passwort",
            "kennwort",
            "de passe",
            "contrase",
            "clave",
            "senha",
            "pass",
            "pwd",
            " pw",
            "密码",
        ),
        r"(?:user(?:name)?|login|account|benutzer(?:name)?|utilisateur|identifiant|usuario|utente|账号|用户名?)"
        r"(?:[ ]?[:=：][ ]?|[ ])[\"'`]?[\w.@+-]{2,64}[\"'`]?[ ]?(?:(?:and|und|et|y|e|with|mit|avec|con)"
        r"[ ]|[,;/&+][ ]?|)"
        r"(?:(?:the|das|le|la|el)[ ])?(?:password|passwort|kennwort|mot[ ]de[ ]passe|contraseña|clave"
        r"|senha|pass|pwd?|密码)"
        r"(?:[ ]?[:=：是][ ]?|[ ])[\"'`]?([^\s\"'`]{3,127}[^\s\"'`)\]}.,;])",
        pair,
    ),
    Context(
        "password",
        (
            "in with ",
            "in as ",
            "in using ",
            "on as ",
            "on with ",
            "dich mit ",
            "dich als ",
            "connecte",
            "inicia ses",
            "accedi ",
            "entra ",
        ),
        r"(?:log(?:ged|ging)?[ -]?[io]n|sign(?:ed)?[ -]?in|melde[ ]dich|connecte[rz]?(?:-\w+)?|inicia"
        r"[ ]sesión|accedi"
        r"|entra)[ ](?:\w{1,12}[ ]){0,3}?(?:with|as|using|mit|als|avec|con|com|come|como)[ ]"
        r"[\"'`]?[\w.@+-]{2,64}[\"'`]?"
        r"[ ]?(?:and|with|und|et|y|e|/|:|,)[ ]?(?:(?:the[ ])?(?:password|pw)[ ])?[\"'`]?([^\s\"'`]{5,64})",
        lambda value: is_strong(value.rstrip(".,;")) and pair(value),
    ),
    # Passwords that a program has made, on the same or on the next line
    Context(
        "password",
        "password",
        r"(?:temporary|initial|default|generated|new|one-time|root|admin"
        r"|following)[ -]password[^\n:]{0,60}:[ \t]{1,4}"
        r"([^\s]{6,128})",
        is_strong,
    ),
    Context(
        "password",
        "password",
        r"(?:(?:temporary|initial|generated|new|following|your)[ -](?:\w{1,12}[ -])?password[^\n]{0,80}"
        r"|password[^\n]{0,40}base64[ ](?:-d|-D|--decode)[^\n]{0,20})(?:\r?\n[ \t]{0,8}){1,2}"
        r"([\w!@#$%^&*+.~?-]{8,64})[ \t]{0,4}(?=\r?\n|\Z)",
        lambda value: opaque(value) and (is_strong(value) or (len(value) >= 16 and is_random(value))),
    ),
    Context(
        "password",
        "new value: ",
        r"new[ ]value:[ ]([\w+*=-]{12,64})(?=\s"
        r"|\Z)",
        is_random,
        before=r"password",
    ),
    Context(
        "password",
        ("login", "creds", "credentials"),
        r"(?:login|creds|credentials)[ ][\w.@+-]{2,32}[:/]([^\s\"'`/:]{5,64}+)",
        is_strong,
    ),
    Context(
        "password",
        (
            "login",
            "credential",
            "creds",
            "logon",
            "zugang",
            "identifiant",
            "credencial",
            "/pass",
            "/ pass",
            "/kenn",
            "/パス",
            "/ パス",
            "ログイン",
        ),
        r"(?:log(?:in|on)|credentials?|creds|zugang(?:sdaten)?|identifiants?|credenciales"
        r"|user(?:name)?[ ]?/[ ]?pass(?:word)?\)?"
        r"|benutzer(?:name)?[ ]?/[ ]?(?:pass|kenn)wort\)?|(?:id|ユーザー名?)[ ]?/[ ]?パスワード|ログイン)"
        r"(?:[ \t]{1,2}[\w-]{1,20}){0,3}"
        r"(?:[ \t]{0,4}[:=：][ \t]{0,4}|[ ](?:is|are|ist|est|es|lauten)[ ])[\"'`]?[\w.@+-]{2,64}[\"'`]?"
        r"[ \t]{0,4}[/|:,][ \t]{0,4}[\"'`]?([^\s\"'`/]{4,128}+)",
        pair,
    ),
)


def find_contexts(part: Searched) -> Iterator[tuple[int, int, str]]:
    """Yield the spans and labels of the secrets that the text around them gives away."""
    text, lowered, *_ = part
    for number in _HINTS.present(part):
        for context in _GROUPS[number]:
            yield from find_context(context, text, lowered)
    for number in _COOKIE_HINTS.present(part):
        yield from _find_cookies(_COOKIE_LISTS[number], text, lowered)


def _by_hints(contexts: Iterable[Context]) -> dict[tuple[str, ...], list[Context]]:
    """Return the contexts in groups with the same hints."""
    grouped: dict[tuple[str, ...], list[Context]] = {}
    for context in contexts:
        hints = (context.hints,) if isinstance(context.hints, str) else context.hints
        grouped.setdefault(hints, []).append(context)
    return grouped


_HINTS = HintIndex(_by_hints((*CONTEXTS, *COMMANDS)))
_GROUPS = [*_by_hints((*CONTEXTS, *COMMANDS)).values()]


# A header with cookies has many secrets: the values that look random.

_COOKIES = lazy_pattern(
    r"(?:cookie[\"'\]]{0,2}[ \t]{0,2}[:=,][ \t]{0,2}|--cookie[ =]| -b )[\"']?([^\n]{3,4096}+)", re.ASCII
)
_SESSION_COOKIES = lazy_pattern(
    r"((?:phpsessid|jsessionid|sessionid|asp\.net_sessionid|connect\.sid|laravel_session|rack\.session)"
    r"=[^\s;\"',]{8,}+)",
    re.ASCII,
)
_COOKIE_LISTS = (_COOKIES, _SESSION_COOKIES)
_COOKIE_HINTS = HintIndex((("cookie", " -b "), ("sessi", ".sid=")))
_COOKIE = lazy_pattern(r"([\w.%-]{1,64}+)=([^;\s\"',]{8,}+)", re.ASCII)
_SESSION = lazy_pattern(r"sess|sid|auth|token|jwt|csrf|xsrf|login|remember", re.ASCII)


def _find_cookies(pattern: re.Pattern[str], text: str, lowered: str) -> Iterator[tuple[int, int, str]]:
    for header in pattern.finditer(lowered):
        for cookie in _COOKIE.finditer(lowered, *header.span(1)):
            start, end = cookie.span(2)
            value = text[start:end]
            named = _SESSION.search(cookie[1]) is not None
            if (len(value) >= 16 and is_random(value)) or (named and opaque(value) and not is_code(value)):
                yield start, end, "cookie"


# Key files. They are longer than anything else, so they are found in the whole text, not in parts of it.

_PRIVATE_KEY = lazy_pattern(
    r"-----BEGIN (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----(?:"
    r"[^-]{0,65536}+(?:-(?!----)[^-]{0,65536}+)*+-----END (?:[A-Z0-9]+ ){0,4}PRIVATE KEY(?: BLOCK)?-----"
    # Without an END line: everything up to a blank line or a quote, if it starts like a key.
    r"|(?:\s|\\[nr]|[\w-]{1,24}:[^\n]{0,128}\n){0,16}[A-Za-z0-9+/=]{16}"
    r"(?:[^\n\"'`-]|-(?!----)|\n(?![ \t]{0,8}\n)){0,65536}+)"
    r"|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----[^-]{0,65536}+---- END SSH2 ENCRYPTED PRIVATE KEY ----",
    re.ASCII,
)


def find_private_keys(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of private keys in PEM, OpenPGP and SSH2 form, also of those that are cut off."""
    if "PRIVATE KEY" in text:
        yield from ((*match.span(), "private-key") for match in _PRIVATE_KEY.finditer(text))
