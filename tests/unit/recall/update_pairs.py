"""Pairs of an older and a newer memory with a question: true updates, and things that only look alike."""

UPDATES = [
    # English: work and technology
    ("What does our CI run on?", "Our CI runs on Jenkins.", "We moved CI from Jenkins to GitHub Actions."),
    (
        "Which database do we use?",
        "Our main database is MySQL 5.7 on a single host.",
        "The main database was migrated from MySQL to Postgres 16.",
    ),
    (
        "How long are access tokens valid?",
        "Access tokens are valid for 24 hours.",
        "Access tokens are now valid for 2 hours only, after the audit.",
    ),
    (
        "When is the standup?",
        "Standup is every day at 9:30.",
        "Standup is now at 10:15, because of the school run.",
    ),
    (
        "Who leads the platform team?",
        "The platform team is led by Priya Nair.",
        "Priya Nair has left; the platform team is now led by Tomasz Wilk.",
    ),
    (
        "Where do we host the website?",
        "The website is hosted on Heroku.",
        "We no longer use Heroku: the website is hosted on Fly.",
    ),
    (
        "What is the request limit of the public API?",
        "The public API allows 100 requests per second for each key.",
        "The public API limit was raised to 250 requests per second for each key.",
    ),
    (
        "Which package manager do we use in the frontend?",
        "The frontend uses npm as its package manager.",
        "The frontend switched from npm to pnpm, lock file included.",
    ),
    (
        "What does the Pro plan cost?",
        "The Pro plan costs 29 dollars a month.",
        "From now on the Pro plan costs 39 dollars a month for new customers.",
    ),
    (
        "Where do we keep feature flags?",
        "Feature flags are kept in our own table, toggled by hand.",
        "Feature flags moved out of our table into Unleash.",
    ),
    (
        "How many reviewers does a pull request need?",
        "A pull request needs one reviewer.",
        "A pull request now needs two reviewers instead of one.",
    ),
    ("Which editor does Sam use?", "Sam uses Vim for everything.", "Sam switched from Vim to Zed last week."),
    ("How long do we keep logs?", "Logs are kept for 14 days in Loki.", "Loki keeps logs for 30 days from now on."),
    (
        "What is the staging URL?",
        "Staging is at staging.acme.dev.",
        "Staging moved to stage.acme.io, the old host is gone.",
    ),
    (
        "When do we deploy?",
        "We deploy on Tuesdays and Thursdays.",
        "We no longer deploy on Thursdays, only on Tuesdays.",
    ),
    (
        "When is the release of version 4?",
        "Version 4 is to be released on 12 May.",
        "The release of version 4 is postponed to 30 June.",
    ),
    (
        "Which office floor are we on?",
        "Our office is on the third floor.",
        "We moved: our office is on the sixth floor now.",
    ),
    # English: household, health
    (
        "Who is our family doctor?",
        "Our family doctor is Dr. Hollis, Kerk Street.",
        "Dr. Hollis has retired. Our family doctor is now Dr. Amari.",
    ),
    (
        "What dose of lisinopril do I take?",
        "I take lisinopril 5 mg in the morning.",
        "The lisinopril was doubled to 10 mg.",
    ),
    (
        "What is the wifi called?",
        "The wifi network is called Kastanje.",
        "New router: the wifi network is called Kastanje-6 now.",
    ),
    (
        "On which day is paper collected?",
        "Paper is collected on the first Tuesday of the month.",
        "Collection changed: paper is now collected every second Thursday.",
    ),
    (
        "Do I eat fish?",
        "I am vegetarian, no meat and no fish.",
        "I eat fish again now, but still no meat, no longer strictly vegetarian.",
    ),
    (
        "When is Mila's piano lesson?",
        "Mila has her piano lesson on Tuesdays at 16:00.",
        "Mila's piano lesson moved to Thursdays at 17:15.",
    ),
    (
        "Which bank holds our savings?",
        "Our savings are at Bank Kade at 1.8%.",
        "Savings account at Kade closed, everything moved to Orlin Bank at 2.6%.",
    ),
    (
        "How much food does Pepper get?",
        "Pepper gets 180 g of food twice a day.",
        "Pepper is too heavy: food reduced to 140 g twice a day.",
    ),
    (
        "Which gym do I go to?",
        "I go to the gym FitPoint on Mondays.",
        "Cancelled FitPoint; I go to the climbing gym Gravity instead.",
    ),
    (
        "What is the code of the shed lock?",
        "The code of the shed lock is 3390.",
        "Replaced the shed lock: the code is 8125 now.",
    ),
    (
        "What is my phone contract?",
        "My phone contract is with Telvo, 10 GB for 22 euros.",
        "Left Telvo. My phone contract is with Sonata as of July, 30 GB for 14 euros.",
    ),
    # German
    (
        "Auf welchem Server läuft unser Wiki?",
        "Unser Wiki läuft auf dem Server Alster.",
        "Das Wiki ist umgezogen: es läuft jetzt auf dem Server Elbe, nicht mehr auf Alster.",
    ),
    (
        "Wann ist die Teambesprechung?",
        "Die Teambesprechung ist montags um 9:00.",
        "Die Teambesprechung ist ab sofort mittwochs um 14:00.",
    ),
    (
        "Wer ist unsere Steuerberaterin?",
        "Unsere Steuerberaterin ist Frau Kolbe.",
        "Frau Kolbe ist nicht mehr zuständig, unsere Steuerberaterin ist jetzt Frau Brandt.",
    ),
    (
        "Welche Heizung haben wir?",
        "Wir haben eine Gasheizung von Vaillo.",
        "Die Gasheizung wurde durch eine Wärmepumpe ersetzt, die Heizung macht jetzt Strom.",
    ),
    # French
    (
        "Quel outil utilisons-nous pour les factures ?",
        "Pour les factures nous utilisons Factura Plus.",
        "Nous avons remplacé Factura Plus : les factures se font désormais dans Pennylo.",
    ),
    (
        "À quelle heure ouvre la crèche ?",
        "La crèche ouvre à 8 h.",
        "La crèche ouvre maintenant à 7 h 30, plus à 8 h.",
    ),
    (
        "Où habite Maman ?",
        "Maman habite rue des Tilleuls 9.",
        "Maman a déménagé de la rue des Tilleuls, elle habite maintenant aux Glycines.",
    ),
    (
        "Qui est notre contact chez Valmora ?",
        "Notre contact chez Valmora est Inès Carrizo.",
        "Chez Valmora, Pau Llorente remplace Inès Carrizo comme contact.",
    ),
    # Spanish
    (
        "¿Quién es el contacto en Grupo Sol?",
        "El contacto en Grupo Sol es Marta Gil.",
        "Marta Gil ya no está en Grupo Sol; ahora el contacto es Luis Prado.",
    ),
    (
        "¿Con qué base de datos trabaja el almacén?",
        "El almacén trabaja con la base de datos Oracle.",
        "El almacén cambió de Oracle a la base de datos Postgres.",
    ),
    (
        "¿Cuándo es la clase de yoga?",
        "La clase de yoga es los lunes a las 19:00.",
        "La clase de yoga pasa a los jueves a las 18:00 a partir de mayo.",
    ),
    (
        "¿Qué medicina toma el abuelo?",
        "El abuelo toma enalapril por la mañana.",
        "El abuelo ya no toma enalapril, ahora toma losartán por la noche.",
    ),
    # Japanese
    ("会議は何曜日ですか", "定例会議は月曜日の10時です。", "定例会議は水曜日の14時に変更になりました。"),
    (
        "社内チャットは何を使っていますか",
        "社内チャットはSlackを使っています。",
        "社内チャットはSlackからTeamsに移行しました。",
    ),
    (
        "経理の担当者は誰ですか",
        "経理の担当者は佐藤さんです。",
        "佐藤さんは退職し、今は経理の担当者は鈴木さんです。",
    ),
    (
        "サーバーはどこにありますか",
        "サーバーは東京データセンターにあります。",
        "サーバーは東京データセンターから大阪に移行した。",
    ),
]

LOOK_ALIKES = [
    (
        "Who is our contact at Pinecrest?",
        "Our contact at Pinecrest is Gail Thornbury.",
        "Our contact at Oakleaf is now Rufus Amsel.",
    ),
    (
        "What does the Starter plan cost?",
        "The Starter plan costs 39 euros a month.",
        "The Practice plan now costs 99 euros a month.",
    ),
    (
        "When does the Kerk Street clinic open?",
        "The Kerk Street clinic opens at 8:00.",
        "The Harbour clinic opens at 9:00 now.",
    ),
    (
        "When does Dr. Tanner open?",
        "Dr. Tanner, our dentist, opens at 8:30.",
        "Tanner the roofer moved his visit to Friday 8:00.",
    ),
    (
        "When is Mila's swimming?",
        "Mila has swimming on Mondays at 16:00.",
        "Tom now has football on Wednesdays at 17:00.",
    ),
    (
        "How much pocket money does Mila get?",
        "Mila gets 5 euros of pocket money a week.",
        "Tom now gets 3 euros of pocket money a week.",
    ),
    (
        "What is the limit of API v1?",
        "API v1 allows 100 requests per second.",
        "API v2 now allows 250 requests per second.",
    ),
    (
        "Where is the Berlin office?",
        "The Berlin office is on Torstrasse 12.",
        "The Madrid office moved to Calle Mayor 4.",
    ),
    ("What is the population of Ghent?", "Ghent has 265,000 inhabitants.", "Bruges now has 119,000 inhabitants."),
    (
        "Which database does billing use?",
        "The billing service uses Postgres 13.",
        "The search service was migrated to Postgres 16.",
    ),
    (
        "What is the timeout of the gateway?",
        "The gateway has a timeout of 30 seconds.",
        "The worker has a timeout of 90 seconds now.",
    ),
    (
        "What is the port of Redis?",
        "Redis for the cache listens on port 6379.",
        "Redis for the queue now listens on port 6380.",
    ),
    ("Who is the vet?", "The vet is Dr. Soares on the canal.", "The new orthodontist is Dr. Lind at the station."),
    ("What is Anna allergic to?", "Anna is allergic to hazelnuts.", "Ben is allergic to birch pollen now."),
    ("What size are Tom's shoes?", "Tom wears shoes of size 31.", "Mila now wears shoes of size 36."),
    (
        "What did run A score?",
        "Run A scored 71.2 on the wetland set.",
        "Run B scored 74.8 on the reef set, now with warmup.",
    ),
    (
        "What does the Corvo need?",
        "The Corvo needs 5W-30 oil and winter tyres in November.",
        "The Lumo charges at night now, 80% is enough.",
    ),
    (
        "When is the Kestrel maintenance?",
        "Kestrel has maintenance on the first Monday.",
        "Osprey has maintenance on the third Monday now.",
    ),
    (
        "How long does the web pipeline take?",
        "The web pipeline takes 6 minutes.",
        "The core pipeline now takes 11 minutes.",
    ),
    ("What is Lena's phone extension?", "Lena's extension is 4410.", "Dario's extension is 4417 now."),
    ("Which room is the printer in?", "The printer is in room 204.", "The scanner moved to room 310."),
    (
        "What is the rent of the flat?",
        "The rent of the flat in Lyon is 900 euros.",
        "The rent of the garage is now 120 euros.",
    ),
    (
        "What did we decide about logging?",
        "Logs are written as JSON lines.",
        "Metrics are now exported every 15 seconds.",
    ),
    (
        "How do I restore a backup?",
        "Restore a backup with pgbackrest on the standby.",
        "Backup failed last night because the disk was full, freed 20 GB.",
    ),
    (
        "What is the deadline of CIML?",
        "The deadline of CIML is 28 January.",
        "The deadline of SigLearn was extended to 3 April.",
    ),
    (
        "Which books did I like?",
        "I liked the book The Summer of Stones.",
        "I liked the new book The Left Harbour too.",
    ),
    ("What is our Go version?", "The gateway is built with Go 1.21.", "The web app is now built with Node 22."),
    (
        "Who has the spare key?",
        "The Haddads have a spare key of the house.",
        "Nora now has the spare key of the car.",
    ),
    ("Wo wohnt Onkel Karl?", "Onkel Karl wohnt in Kassel.", "Tante Rosi wohnt jetzt in Fulda."),
    (
        "Wie lange hat die Bäckerei offen?",
        "Die Bäckerei hat bis 18 Uhr offen.",
        "Die Apotheke hat jetzt bis 20 Uhr offen.",
    ),
    ("Où travaille Paul ?", "Paul travaille à la mairie.", "Claire travaille maintenant à l'hôpital."),
    ("Quand passe le bus 6 ?", "Le bus 6 passe à 7 h 40.", "Le bus 9 passe maintenant à 8 h 10."),
    ("¿Dónde vive Inés?", "Inés vive en Valencia.", "Pau vive ahora en Sevilla."),
    (
        "¿Cuánto cuesta la clase de piano?",
        "La clase de piano cuesta 28 euros.",
        "La clase de cello cuesta ahora 24 euros.",
    ),
    ("佐藤さんの部署はどこですか", "佐藤さんは営業部です。", "鈴木さんは今は開発部です。"),
    ("東京支店の電話番号は", "東京支店の電話番号は3310です。", "大阪支店の電話番号は新しく8125です。"),
    ("Should we leave Slack?", "We use Slack for chat.", "Should we switch from Slack to Matrix?"),
    ("What chat do we use?", "We use Zulip for team chat.", "Maybe we could move team chat from Zulip to Matrix."),
]
