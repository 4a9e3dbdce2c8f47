"""Secrets in command lines, transcripts of protocols, and the configuration of servers and network devices."""

import base64
import binascii

from satchel.text.secrets.context import Context, argument, given, opaque
from satchel.text.secrets.values import is_opaque, is_random

__all__ = ["COMMANDS"]

# The end of a command or of a line of configuration.
_LINE_END = r"(?=[ \t]{0,8}(?:\r?\n|\Z))"
_SESSION_NAME = r"sess|sid\b|auth|token|jwt|csrf|login|remember"


def _encoded(value: str) -> bool:
    """Return whether a value is the base64 of a text, as in a dialogue with a mail server."""
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return plain.replace("\0", "").replace("\1", "").isprintable()


def _setting(value: str) -> bool:
    """Return whether the rest of a line of configuration is a value, not a word of a sentence."""
    return argument(value) and (is_opaque(value) or len(value) >= 8)


def _sent_password(value: str) -> bool:
    return argument(value) and not value.lower().startswith(("anonymous", "ftp@", "guest"))


COMMANDS = (
    Context(
        "password",
        "-u",
        r" (?:-u|--user|--proxy-user)[ =]?[\"']?[\w.@\\-]{1,64}:((?![0-9]+(?:\s|\Z))[^\s\"']{3,256}+)",
        given,
        before=r"(?:curl|http|wget|xh)\b",
    ),
    Context("password", "curl", r"curl[ \t]{1,4}-u[ ]?[\"']?[\w.@\\-]{1,64}:([^\s\"']{3,256}+)", given),
    Context("password", " -u", r" -u[ ]?[\"']?[\w.\\@-]{1,64}%([^\s\"']{3,128}+)", argument),
    Context(
        "password",
        " -u",
        r" -u[ ]?[\"']?[\w.@-]{1,64},([^\s\"',]{3,128}+)",
        argument,
        before=r"(?:l?ftp|duplicity)",
    ),
    Context(
        "password",
        " -p",
        r" -p[\"']?([^\s\"'<|;&=-][^\s\"'|;&]{2,128}+)",
        argument,
        before=r"(?:mysql\w{0,8}|mariadb|sshpass|7z|zip|rar)\b",
    ),
    Context(
        "password",
        " -p ",
        r" -p [\"']?([^\s\"'<|;&-][^\s\"'|;&]{2,128}+)",
        argument,
        before=r"(?:sshpass|(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|az|oc|crane)\b[\w -]{0,40}\blogin"
        r"|mongo\w*"
        r"|cqlsh|unzip|zip|twine|influx|clickhouse-client|vncviewer|argocd|sqlcmd|bcp|net)\b",
    ),
    Context("password", " -k ", r" -k [\"']?([^\s\"'-]{3,128}+)", argument, before=r"openssl[ ]enc"),
    Context("password", " -n ", r" -n [\"']?([^\s\"'-]{3,128}+)", argument, before=r"ssh-keygen"),
    Context("password", " -a ", r" -a [\"']?([^\s\"']{3,128}+)", argument, before=r"redis-cli\b"),
    Context("password", " -w ", r" -w [\"']?([^\s\"']{3,128}+)", argument, before=r"ldap"),
    Context(
        "password",
        "htpasswd",
        r"htpasswd[ \t]+(?:-\w+[ \t]+){0,4}\S{1,100}[ \t]+[\w.@-]{1,64}[ \t]+[\"']?([^\s\"']{3,128}+)",
        argument,
    ),
    Context(
        "password",
        "/user:",
        r" /user:[^\s@]{1,64}[ \t]{1,4}(\S{3,128}+)",
        lambda value: argument(value) and value[0] != "/",
    ),
    Context("password", "pass:", r"-?pass(?:in|out|word)?[ =][\"']?pass:([^\s\"']{3,128}+)", given),
    Context(
        "password",
        "pass ",
        r" -(?:store|key|dest|src|deststore|srcstore)pass[ \t]{1,4}([^\s\"']{4,128}+)",
        argument,
    ),
    Context(
        "password",
        "|",
        r"echo[ \t]{1,4}(?:-n[ \t]{1,4})?[\"']?([^\s\"'|]{3,128})[\"']?[ \t]{0,4}\|[ \t]{0,4}"
        r"(?:sudo[ \t]+-\w{0,4}s|\w{0,8}passwd|(?:docker|podman|helm|gh|az|npm|op)\b[^\n|]{0,60}(?:login"
        r"|stdin)|cryptsetup|gpg)",
        argument,
    ),
    Context("password", "nmcli", r"nmcli[ ][^\n]{0,120}?[ ]password[ ][\"']?([^\s\"']{3,128})", argument),
    Context(
        "password",
        "wpa_passphrase",
        r"wpa_passphrase[ ](?:\"[^\"\n]{1,32}\"|'[^'\n]{1,32}'|\S{1,32})[ ][\"']?([^\s\"']{8,64})",
        argument,
    ),
    Context(
        "password",
        "net user ",
        r"net[ ]user[ ][\"']?[\w.-]{1,64}[\"']?[ ][\"']?([^\s\"'/*][^\s\"']{2,128})[\"']?(?=[ ]/)",
        argument,
    ),
    Context(
        "password",
        "net user ",
        r"net[ ]user[ ][\"']?[\w.-]{1,64}[\"']?[ ][\"']?([^\s\"'/*][^\s\"']{2,128})[\"']?" + _LINE_END,
        opaque,
    ),
    Context(
        "password",
        "net use ",
        r"net[ ]use[ ](?:[a-z*]:?[ ])?\\\\\S{1,128}[ ][\"']?([^\s\"'/*][^\s\"']{2,128})[\"']?(?=[ ]/"
        r"|[ \t]{0,8}(?:\n|\Z))",
        argument,
    ),
    Context(
        "password",
        (" /p:", "/pass:", "/pwd:", "/password:"),
        r" /(?:p|pass|pwd|password):[\"']?([^\s\"']{3,128})",
        argument,
    ),
    Context(
        "password",
        "rabbitmqctl",
        r"(?:add_user|change_password|authenticate_user)[ ](?:--[ ])?[\"']?[^\s\"']{1,64}[\"']?[ ]"
        r"[\"']?([^\s\"']{3,128})",
        argument,
        before=r"rabbitmqctl",
    ),
    Context(
        "password",
        "mosquitto_",
        r" -P [\"']?([^\s\"']{3,128})",
        argument,
        before=r"mosquitto_(?:pub|sub|rr)\b",
        exact=True,
    ),
    Context(
        "password",
        ("ipmitool", "sqlcmd", "isql", "bcp "),
        r" -P ?[\"']?([^\s\"'-][^\s\"']{2,128})",
        argument,
        before=r"(?:ipmitool|sqlcmd|isql|bcp)\b",
        exact=True,
    ),
    Context(
        "password",
        "mosquitto_passwd",
        r"mosquitto_passwd[ ](?:-\w{1,4}[ ]){1,3}\S{1,100}[ ][\w.@-]{1,64}[ ][\"']?([^\s\"']{3,128})",
        argument,
    ),
    Context(
        "password",
        "chpasswd",
        r"(?:echo|printf)[ ](?:-\w[ ])?[\"']?[\w.$@{}-]{1,64}:([^\s\"'|]{3,128}?)(?:\\n)?[\"']?"
        r"[ ]{0,4}\|[^\n|]{0,40}chpasswd",
        argument,
    ),
    Context(
        "password",
        "chpasswd",
        r"chpasswd[^\n<]{0,24}<<(?:<[ ]?[\"']?|[^\n]{1,20}\n)[\w.-]{1,64}:([^\s\"']{3,128})",
        argument,
    ),
    Context(
        "password",
        ("sqlplus", "expdp", "impdp", "rman", "sqlldr", "thin:", "conn ", "connect "),
        r"(?:sqlplus|expdp|impdp|rman[ ]target|sqlldr|thin:|conn(?:ect)?)[ ]?(?:-\w{1,8}[ ]){0,2}"
        r"[\"']?[\w.$#]{1,30}/[\"']?([^\s\"'/@]{3,64})[\"']?@",
        argument,
    ),
    Context(
        "password",
        (" -a ", "--auth"),
        r" (?:-a|--auth)[ =][\"']?[\w.@-]{1,64}:([^\s\"']{3,128})",
        argument,
        before=r"\b(?:https?|xhs?)\b",
    ),
    Context(
        "password",
        "convertto-securestring",
        r"convertto-securestring[ ](?:-string[ ])?[\"']([^\"'$\n]{3,128})[\"']",
        given,
    ),
    Context("password", "expect", r"send[ ](?:--[ ])?[\"']([^\"'\n$\\]{4,128})\\r", argument, before=r"assw"),
    Context(
        "password",
        "-generic-password",
        r" -w [\"']?([^\s\"']{3,128})",
        argument,
        before=r"add-(?:generic|internet)-password",
    ),
    Context(
        "password",
        "openssl passwd",
        r"openssl[ ]passwd[ ](?:-\S{1,16}[ ]){0,3}[\"']?([^\s\"'-][^\s\"']{2,128})",
        argument,
    ),
    Context(
        "password",
        "--from-literal",
        r"--from-literal[= ][\"']?[\w.-]{0,40}(?:pass\w{0,4}|password|secret|token|key)=[\"']?([^\s\"']{3,256})",
        given,
    ),
    Context(
        "password",
        ("_pw ", "--encrypt"),
        r"(?:(?:user|owner|input)_pw[ ]|--encrypt[ ](?:\S{1,64}[ ])?)[\"']?([^\s\"'-][^\s\"']{2,64})",
        opaque,
    ),
    Context("erlang-cookie", "-setcookie", r"-setcookie[ ][\"']?([^\s\"']{3,255})", argument),
    Context(
        "erlang-cookie",
        "erlang",
        r"(?:\.erlang\.cookie|ERLANG_COOKIE)[^\n]{0,24}\n[\"']?([A-Z]{20})(?![\w])",
        exact=True,
    ),
    Context(
        "erlang-cookie",
        "erlang",
        r"erlang[._]cookie[\"']?[ \t]{0,2}[:=][ \t]{0,2}[\"']?([^\s\"']{6,255})",
        argument,
    ),
    Context(
        "erlang-cookie",
        "erlang.cookie",
        r"echo[ ](?:-n[ ])?[\"']?([^\s\"'|>]{6,255})[\"']?[ ]{0,2}>{1,2}[ ]{0,2}\S{0,64}\.erlang\.cookie",
        argument,
    ),
    # Dialogues with servers
    Context(
        "password",
        ("auth plain ", "auth login ", "auth xoauth2 ", "auth=plain "),
        r"auth[ =](?:plain|login|xoauth2)[ ]([a-z0-9+/]{8,}+={0,2})",
        _encoded,
    ),
    Context(
        "password",
        ("334 ugfzc3dvcmq6", "authenticate plain"),
        r"(?:334 ugfzc3dvcmq6|authenticate plain)\s{1,4}(?:[+]\s{1,4})?(?:(?:c|client|>>>?"
        r"|->)[: ]{1,2})?([a-z0-9+/]{4,}+={0,2})",
        _encoded,
    ),
    Context(
        "password",
        " login ",
        r" LOGIN (?:\"[^\"\n]{1,128}\"|[^\s\"]{1,128}) \"?([^\s\"]{3,128})",
        given,
        before=r"(?:^|[\s>:*])[a-z]{0,4}\.?[0-9]{1,6}$",
        exact=True,
    ),
    Context(
        "password",
        "pass ",
        r"PASS ([^\s]{3,128})(?=\r?\n|\Z)",
        _sent_password,
        before=r"user[ ][^\n]{1,80}\n(?:[^\n]{0,100}\n){0,2}[^\n\w]{0,6}(?:(?:c|client|ftp)[:>][ ])?$",
        exact=True,
    ),
    Context(
        "password",
        ("requirepass", "masterauth", "primaryauth", "auth-pass "),
        r"(?:requirepass|masterauth|primaryauth|auth-pass[ ][\w.-]{1,64})[ \t]{1,8}[\"']?([^\s\"']{3,512})[\"']?"
        + _LINE_END,
        _setting,
    ),
    Context(
        "password",
        "> auth ",
        r"(?::[0-9]{2,5}|redis|valkey)(?:\[[0-9]{1,2}\])?> auth (?:[^\s\"']{1,64}[ ])?"
        r"[\"']?([^\s\"']{3,512})[\"']?" + _LINE_END,
        argument,
    ),
    Context(
        "password",
        ("user ", "setuser "),
        r"user[ ][\w.-]{1,64}[ ](?:(?!>)\S{1,40}[ ]){1,6}>([^\s>]{3,128})(?=\s|\Z)",
        argument,
        before=r"(?:^|\n|\bacl[ ]set|>[ ])$",
    ),
    # Configuration
    Context(
        "password",
        ("bindpw", "rootpw", "bind_pw"),
        r"(?:bind_?|root)pw[ \t]{1,8}[\"']?([^\s\"']{3,256})[\"']?" + _LINE_END,
        argument,
    ),
    Context(
        "cookie",
        ("\ttrue\t", "\tfalse\t"),
        r"\t(?:true|false)\t[^\t\n]{1,128}\t(?:true|false)\t[0-9]{1,12}"
        r"(?:\.[0-9]{1,6})?\t[^\t\n]{1,128}\t(\S{16,4096}+)",
        is_random,
    ),
    Context(
        "cookie",
        ("\ttrue\t", "\tfalse\t"),
        rf"\t(?:true|false)\t[^\t\n]{{1,128}}\t(?:true|false)\t[0-9]{{1,12}}\t(?=[^\t\n]{{0,64}}"
        rf"(?:{_SESSION_NAME}))[^\t\n]{{1,128}}\t(\S{{6,4096}}+)",
        opaque,
    ),
    Context("password", "wifi:", r"wifi:(?:[^;\n]{0,64};){0,4}?p:((?:[^;\n\\]|\\.){3,128})(?=;|\Z)", given),
    Context(
        "password",
        (
            *("secret 0 ", "secret 5 ", "secret 8 ", "secret 9 ", "secret level", "password 0 ", "password 6 "),
            *("password 7 ", "password level", "key 0 ", "key 6 ", "key 7 ", "string 7 ", "md5 7 "),
        ),
        r"(?:secret|password|key|string|md5)[ ](?:level[ ][0-9]{1,2}[ ])?[05-9]"
        r"[ ]([^\s\"']{4,128})(?=\s|\Z)",
        opaque,
    ),
    Context(
        "password",
        "enable ",
        r"enable[ ](?:secret|password)[ ](?:level[ ][0-9]{1,2}[ ])?(?:[05-9][ ])?([^\s\"']{4,128})" + _LINE_END,
        argument,
        before=r"(?:^|\n)[ ]{0,4}$|[>#)][ ]?$",
    ),
    Context(
        "password",
        "username ",
        r"username[ ][\w.@-]{1,64}[ ](?:privilege[ ][0-9]{1,2}[ ])?(?:password|secret)[ ](?:[05-9][ ])?"
        r"[\"']?([^\s\"']{4,128})",
        opaque,
    ),
    Context(
        "password",
        "createuser ",
        r"createuser[ ](?:-e[ ]\S{1,40}[ ])?[\w.@-]{1,64}[ ](?:md5|sha[0-9-]{0,4})[ ][\"']?([^\s\"']{4,128})",
        argument,
    ),
    Context(
        "password",
        "createuser ",
        r"createuser[ ](?:-e[ ]\S{1,40}[ ])?[\w.@-]{1,64}[ ](?:md5|sha[0-9-]{0,4})[ ]"
        r"[\"']?[^\s\"']{4,128}[\"']?[ ](?:des|aes[0-9-]{0,4})[ ][\"']?([^\s\"']{4,128})",
        argument,
    ),
    Context(
        "password",
        "snmp",
        r" -[AX] [\"']?([^\s\"'-][^\s\"']{3,128})",
        argument,
        before=r"snmp\w{2,12}[ ]",
        exact=True,
    ),
    Context("password", "snmp", r" -c [\"']?([^\s\"'-][^\s\"']{3,128})", opaque, before=r"snmp\w{2,12}[ ]"),
    Context(
        "password",
        (" auth ", " priv "),
        r" (?:auth|priv)[ ](?:sha[0-9-]{0,4}|md5|3?des|aes)(?:[ ][0-9]{3})?[ ]([^\s\"']{4,128})",
        argument,
        before=r"\bv3\b|snmp",
    ),
    Context(
        "password",
        ("pre-shared-key", "isakmp key", "server key", "wpa-psk", "psk-"),
        r"(?:pre-shared-key|isakmp[ ]key|server[ ]key|wpa-psk)[ ](?:(?:ascii|local|remote|[0-9])[ ]){0,2}"
        r"[\"']?([^\s\"']{5,128})",
        opaque,
    ),
    Context("password", "ftp> user ", r"ftp> user[ ]\S{1,64}[ ](\S{3,128})", argument),
    Context(
        "password",
        "ssid",
        r"ssid[ :=\"']{1,4}[^\n,;/]{1,32}[,;/][ ](?:key|pass\w{0,6}|pw|psk)[ :=]{1,3}[\"']?([^\s\"']{8,63})",
        opaque,
    ),
    # SQL
    Context(
        "password",
        "password '",
        r"password[ ]'([^'\n]{3,128})'",
        given,
        before=r"(?:create|alter)[ ](?:user|role|login|group)[ ][^;]{1,120}$",
    ),
    Context(
        "password",
        "set password",
        r"set[ ]password[^;\n=]{0,80}=[ ]?(?:password[ ]?\()?[ ]?'([^'\n]{3,128})'",
        given,
    ),
    Context(
        "password",
        "identified by",
        r"identified[ ]by[ ]([^\s\"'`;<(]{3,64})(?=[\s;]|\Z)",
        lambda value: argument(value) and value.lower() not in ("values", "password", "globally"),
        before=r"(?:create|alter)[ ]user[ ]\S{1,64}[ ]$",
    ),
)
