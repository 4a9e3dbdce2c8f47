"""Secrets of every kind, with the text around them.

Each is assembled at run time, so that secret scanners ignore this file.
"""

MIXED = "a1B2c3D4e5" * 30
HEX = "0a1b2c3d4e5f6789" * 20
UPPER = "A1B2C3D4E5" * 10


def mixed(length: int) -> str:
    return MIXED[:length]


def hexadecimal(length: int) -> str:
    return HEX[:length]


TOKENS = {
    "anthropic-key": ["sk-" + "ant-api03-" + mixed(93) + "AA", "sk-" + "ant-oat01-" + mixed(40)],
    "openai-key": [
        "sk-" + mixed(48),
        "sk-" + "proj-" + mixed(60) + "_x-" + mixed(40),
        "sk-" + "svcacct-" + mixed(60),
    ],
    "openrouter-key": ["sk-" + "or-v1-" + hexadecimal(64)],
    "langfuse-key": ["sk-" + "lf-" + "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"],
    "aws-access-key": ["AKIA" + UPPER[:16], "ASIA" + UPPER[:16]],
    "aws-bedrock-key": ["ABSK" + mixed(120) + "="],
    "github-token": [f"gh{kind}_" + mixed(36) for kind in "pousr"] + ["github" + "_pat_" + mixed(82)],
    "gitlab-token": [
        "glpat" + "-" + mixed(20),
        "glrt" + "-t1_" + mixed(27) + ".01.0a1b2c3d4",
        "glagent" + "-" + mixed(50),
    ],
    "slack-token": [f"xox{kind}-" + "1234567890-" + mixed(24) for kind in "abprs"]
    + ["xoxe" + "-1-" + mixed(146), "xapp" + "-1-A012345-678901-" + hexadecimal(40)],
    "satchel-token": ["satchel_" + "0a1b2c3d4e" + "_" + mixed(43)],
    "stripe-key": ["sk_" + "live_" + mixed(24), "rk_" + "live_" + mixed(24), "sk_" + "test_" + mixed(24)],
    "stripe-webhook-secret": ["whsec" + "_" + mixed(32)],
    "google-key": ["AIza" + mixed(35)],
    "google-oauth-token": ["ya29" + ".a0A-" + mixed(60)],
    "google-oauth-secret": ["GOCSPX" + "-" + mixed(28)],
    "google-refresh-token": ["1//" + "0g" + mixed(60)],
    "discord-token": ["MTIzNDU2Nzg5MDEyMzQ1Njc4" + ".GabcDE." + mixed(38)],
    "npm-token": ["npm" + "_" + mixed(36)],
    "pypi-token": ["pypi" + "-AgEIcHlwaS5vcmc" + mixed(80)],
    "rubygems-token": ["rubygems" + "_" + hexadecimal(48)],
    "huggingface-token": ["hf" + "_" + mixed(34)],
    "sendgrid-key": ["SG" + "." + mixed(22) + "." + mixed(43)],
    "twilio-key": ["SK" + hexadecimal(32)],
    "digitalocean-token": ["dop" + "_v1_" + hexadecimal(64)],
    "databricks-token": ["dapi" + hexadecimal(32), "dapi" + hexadecimal(32) + "-2"],
    "groq-key": ["gsk" + "_" + mixed(52)],
    "xai-key": ["xai" + "-" + mixed(80)],
    "perplexity-key": ["pplx" + "-" + mixed(48)],
    "replicate-token": ["r8" + "_" + mixed(37)],
    "tavily-key": ["tvly" + "-dev-" + mixed(32)],
    "langsmith-key": ["lsv2" + "_pt_" + hexadecimal(32) + "_" + hexadecimal(10)],
    "supabase-key": ["sbp" + "_" + hexadecimal(40), "sb" + "_secret_" + mixed(31)],
    "linear-key": ["lin" + "_api_" + mixed(40)],
    "notion-key": ["secret" + "_" + mixed(43), "ntn" + "_" + mixed(46)],
    "vault-token": ["hvs" + "." + mixed(90)],
    "terraform-token": ["a1b2c3d4e5f6g7" + ".atlasv1." + mixed(60)],
    "shopify-token": ["shpat" + "_" + hexadecimal(32)],
    "square-token": ["sq0atp" + "-" + mixed(22)],
    "sentry-token": ["sntryu" + "_" + hexadecimal(64)],
    "grafana-token": ["glsa" + "_" + mixed(32) + "_" + hexadecimal(8)],
    "newrelic-key": ["NRAK" + "-" + UPPER[:27]],
    "dynatrace-token": ["dt0c01" + "." + UPPER[:24] + "." + UPPER[:64]],
    "postman-key": ["PMAK" + "-" + hexadecimal(24) + "-" + hexadecimal(34)],
    "atlassian-token": ["ATATT3" + mixed(186)],
    "doppler-token": ["dp" + ".pt." + mixed(43)],
    "pulumi-token": ["pul" + "-" + hexadecimal(40)],
    "planetscale-token": ["pscale" + "_tkn_" + mixed(43)],
    "flyio-token": ["fm2" + "_" + mixed(120)],
    "heroku-key": ["HRKU" + "-AA" + mixed(58)],
    "airtable-token": ["pat" + mixed(14) + "." + hexadecimal(64)],
    "mailgun-key": ["key" + "-" + hexadecimal(32)],
    "brevo-key": ["xkeysib" + "-" + hexadecimal(64) + "-" + mixed(16)],
    "1password-token": ["ops" + "_eyJ" + mixed(260)],
    "age-key": ["AGE-SECRET" + "-KEY-1" + UPPER[:58]],
    "artifactory-key": ["AKCp" + mixed(69)],
    "alibaba-key": ["LTAI" + mixed(20)],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0." + mixed(43)],
    "telegram-token": ["123456789:" + "AA" + mixed(33)],
    "azure-client-secret": ["abc8Q~" + mixed(34)],
}
EVERY_TOKEN = [(label, token) for label, tokens in TOKENS.items() for token in tokens]

PEM_BODY = "\n".join([mixed(64)] * 3)
PEM = f"-----BEGIN RSA {'PRIVATE'} KEY-----\n{PEM_BODY}\n-----END RSA {'PRIVATE'} KEY-----"

# (label, text before, secret, text after): told by what stands around them
IN_CONTEXT = [
    ("url-password", "postgres://bob:", "s3cr3t", "@db.example.com:5432/app"),
    ("url-password", "redis://:", "hunter2", "@cache:6379/0"),
    ("url-password", "amqp://bob:", "p@ss:w0rd", "@mq/vhost"),
    ("url-password", "https://x-access-token:", "letmein", "@github.com/o/r.git"),
    ("url-token", "git clone https://", mixed(40), "@github.com/o/r.git"),
    ("url-token", "https://", mixed(40), ":x-oauth-basic@github.com/o/r.git"),
    ("url-signature", "https://b.blob.core.windows.net/c?sp=r&sig=", mixed(40) + "%3D", "&sv=1"),
    ("url-signature", "https://s3.aws.com/b/k?X-Amz-Signature=", hexadecimal(64), ""),
    ("slack-webhook", "https://hooks.slack.com/services/", "T0AB/B0CD/" + mixed(24), " is it"),
    ("discord-webhook", "https://discord.com/api/webhooks/123456789012345678/", mixed(68), ""),
    ("teams-webhook", "https://x.webhook.office.com/webhookb2/", mixed(36) + "@" + mixed(36), ""),
    ("azure-key", "DefaultEndpoints=https;AccountName=x;AccountKey=", mixed(86) + "==", ";Suffix=y"),
    ("azure-key", "Endpoint=sb://x/;SharedAccessKeyName=n;SharedAccessKey=", mixed(43) + "=", ""),
    ("aws-secret-key", "aws_secret_access_key = ", mixed(38) + "/+", "\nregion = eu"),
    ("aws-secret-key", '"SecretAccessKey": "', mixed(40), '",'),
    ("aws-secret-key", "the secret access key is ", mixed(40), "."),
    ("authorization", "Authorization: Bearer ", "abc123def", ""),
    ("authorization", 'curl -H "Authorization: Basic ', "dXNlcjpwYXNz", '" https://x.org'),
    ("authorization", '{"authorization": "token ', mixed(20), '"}'),
    ("authorization", "Authorization: ", mixed(32), ""),
    ("authorization", "it sends Bearer ", mixed(24), " each time"),
    ("password", "curl -u bob:", "hunter2", " https://x.org"),
    ("password", "machine api.x.org login bob password ", "hunter2", "\n"),
    ("password", "<server><password>", "hunter2", "</password></server>"),
    ("private-key", "key:\n", PEM, "\nend"),
    ("private-key", "", PEM.replace("RSA ", "ENCRYPTED "), ""),
    ("private-key", '{"private_key": "', PEM.replace("\n", "\\n"), '"}'),
    ("private-key", "cut off:\n", PEM.partition("\n-----END")[0], "\n\nwhat is wrong with it?"),
    ("private-key", "cut off:\n", PEM.partition("\n-----END")[0], ""),
]

# (label, text before, secret, text after): told by the name that they are given to
ASSIGNED = [
    ("password", 'password = "', "hunter2!", '"'),
    ("password", "password='", "hunter", "'"),
    ("password", 'password: str = "', "hunter2", '"'),
    ("password", "password = b'", "hunter2", "'"),
    ("password", 'if password == "', "hunter2", '":'),
    ("password", '{"user": "bob", "password": "', "hunter2", '"}'),
    ("password", r"{\"password\": \"", "hunter2", r"\"}"),
    ("password", 'config["password"] = "', 'hun\\"ter2', '"'),
    ("password", 'setenv("DB_PASSWORD", "', "hunter2", '")'),
    ("password", 'password = "', "correct horse battery staple", '"'),
    ("password", "password: ", "hunter2", "\nuser: bob"),
    ("password", "Password: ", "Tr0ub4dor&3", ""),
    ("password", "my password is ", "hunter2", ", do not tell"),
    ("password", "pwd: ", "123456", ""),
    ("password", "export DB_PASSWORD=", "letmein", "\n"),
    ("password", "MYSQL_PASS=", "letmein", "\n"),
    ("password", "Server=db;Password=", "abc!d", ";Database=x"),
    ("password", "connect(user='bob', password=", "hunter2", ")"),
    ("password", "mysql --password=", "hunter2", " -u bob"),
    ("password", "tool --db-password ", "hunter2", " --verbose"),
    ("password", "tool --password ", "letmein", " --verbose"),
    ("password", "DB_PASSWORD=", "a,b;c&d)e", "\n"),
    ("password", "İstanbul password=", "hunter2", ""),
    ("secret", '"client_secret": "', "abcdefgh", '"'),
    ("secret", "JWT_SECRET=", "not-so-random", "\n"),
    ("api-key", "API_KEY=", "abcdefgh", "\n"),
    ("api-key", "X-Api-Key: ", "abc123def456", ""),
    ("api-key", 'apiKey: "', mixed(20), '"'),
    ("api-key", 'SECRET_KEY = "', "django-insecure-abc", '"'),
    ("token", "GET /x?access_token=", mixed(16), "&page=2"),
    ("token", '"refreshToken": "', mixed(16), '"'),
    ("token", "npm config --token ", mixed(16), ""),
]
