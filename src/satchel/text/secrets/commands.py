"""Secrets in command lines, in transcripts of protocols, and in the configuration of servers and network devices."""

from satchel.text.secrets.context import Context, argument, given

__all__ = ["COMMANDS"]

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
)
