"""Words and phrases that name times in German, French, Spanish and Japanese.

Everything here is data. Words are in lower case without accents, as `dates.find_named` folds a query: "marz" is
März. A form is a pattern with slots, and the name of the reading in `dates` that turns a match into a range.
"""

from collections.abc import Iterable, Mapping

import msgspec

__all__ = [
    "AND",
    "ARTICLES",
    "ENGLISH_MONTHS",
    "LANGUAGES",
    "MONTHS",
    "NUMBERS",
    "ORDINALS",
    "PARTS",
    "PARTS_AFTER",
    "SEASONS",
    "SIDES",
    "SIDES_AFTER",
    "STEPS",
    "TO",
    "UNITS",
    "WEEKDAYS",
    "Language",
]


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """One language: the meaning of its words, and the patterns in which they name a time."""

    hint: str = ""
    """A pattern that every text with a time in this language matches; empty if its words are distinctive enough."""
    hint_words: str = ""
    """Words beside a unit that is too short to identify the language: "an" is not only French."""
    months: dict[str, int] = {}
    weekdays: dict[str, int] = {}
    """Monday is 0."""
    seasons: dict[str, int] = {}
    """The first of the three months."""
    units: dict[str, str] = {}
    numbers: dict[str, int] = {}
    ordinals: dict[str, int] = {}
    few: str = ""
    """A pattern for vague numbers, such as "a few"."""
    steps: dict[str, int] = {}
    """Last is -1, this is 0, next is 1."""
    days: dict[str, int] = {}
    """Words for whole days, counted from today."""
    sure_months: str = ""
    """Months that have no other meaning, and need no word before them."""
    lower_months: bool = False
    """Whether months are written in lower case, so that a capital means a name or a planet."""
    month_after: str = ""
    """A pattern of the words required before a month without a year."""
    weekday_after: str = ""
    """A pattern of the words required before a weekday; empty if a weekday alone is enough."""
    weekday_not_after: str = ""
    """A pattern of words before a weekday after which it is not a time."""
    not_after: Mapping[str, str] = {}
    """For a word with another meaning: a pattern of the words before it in that meaning."""
    only_with: Mapping[str, str] = {}
    """For a word that other languages also have: a pattern that the query must match."""
    forms: tuple[tuple[str, str], ...] = ()
    """Patterns with slots such as {M} for a month, each with the name of its reading."""


def _table(meanings: Mapping[int, str]) -> dict[str, int]:
    """Invert a table from meaning to words; `_` in a word stands for a space."""
    return {word.replace("_", " "): meaning for meaning, words in meanings.items() for word in words.split()}


def _in_order(words: str, first: int = 1) -> dict[str, int]:
    """Number words from `first`; a slash separates words for the same number."""
    return {word: number for number, group in enumerate(words.split(), first) for word in group.split("/") if word}


def _units(**units: str) -> dict[str, str]:
    return {word.replace("_", " "): unit for unit, words in units.items() for word in words.split()}


_GERMAN = Language(
    months=_in_order(
        "januar/janner/jaenner/jan februar/feb marz/maerz/mrz april/apr mai juni/jun juli/jul august/aug "
        "september/sept/sep oktober/okt november/nov dezember/dez"
    ),
    weekdays=_in_order("montag dienstag mittwoch donnerstag freitag samstag/sonnabend sonntag", 0),
    seasons=_table({3: "fruhling fruhjahr", 6: "sommer", 9: "herbst", 12: "winter"}),
    units=_units(
        minute="minute minuten",
        hour="stunde stunden",
        day="tag tage tagen",
        week="woche wochen",
        month="monat monate monaten monats",
        quarter="quartal quartals",
        year="jahr jahre jahren jahres",
        weekend="wochenende",
    ),
    numbers=_in_order("ein/eine/einem/einer/einen zwei drei vier funf sechs sieben acht neun zehn elf zwolf")
    | {"vierzehn": 14},
    ordinals=_table({1: "1. erste ersten erstes", 2: "2. zweite zweiten zweites", 3: "3. dritte dritten drittes"})
    | _table({4: "4. vierte vierten viertes"}),
    few=r"(?:ein\s)?paar|einige[nr]?|wenige[nr]?|mehrere[nr]?",
    steps=_table(
        {
            -2: "vorletzte vorletzten vorletzter vorletztes",
            -1: "letzte letzten letzter letztes letztem vergangene vergangenen vergangener vergangenes "
            "vorige voriger voriges vorigen",
            0: "diese diesen dieser dieses diesem",
            1: "nachste nachsten nachster nachstes nachstem kommende kommenden kommender kommendes",
        }
    ),
    days=_table(
        {
            -2: "vorgestern",
            -1: "gestern gestern_abend gestern_morgen",
            0: "heute heute_morgen heute_fruh heute_abend heute_nacht",
            1: "morgen morgen_fruh morgen_abend",
            2: "ubermorgen uebermorgen",
        }
    ),
    sure_months="januar februar oktober dezember",
    month_after=(
        r"\b(?:im|seit|ab|bis|vor|nach|zwischen|anfang|mitte|ende)\s(?:anfang\s|mitte\s|ende\s)?\Z"
        r"|\bmonat\s\Z|\b(?:zwischen|von|vom)\s[^?!]{1,30}\s(?:und|bis)\s(?:ende\s|mitte\s)?\Z"
    ),
    weekday_after=r"\b(?:am|seit|vor|nach|bis|ab|vom|zum|zwischen|und)\s(?:dem\s|zum\s)?\Z",
    not_after={"morgen": r"\b(?:guten|am|jeden|diese[mnr]|den|dem|der|eine[mnr]|vom|jede[mnr])\s\Z"},
    forms=(
        (r"{D}\.(?:\s?(?:-|–|und|bis(?:\szum)?)\s?{D2}\.)?\s?{M}\.?(?:\s{Y})?", "date"),
        # "5 mai 2024" is left to French, which reads more around it: "du 5 au 10 mai".
        (r"{D}\s(?!mai\b){own_M}\.?(?:\s{Y})?", "date"),
        (r"(?<![0-9]\s){own_M}\.?\s(?:des\sjahres\s)?{Y}", "month"),
        (r"{O}\squartal\s(?:des\sjahres\s)?{Y}", "quarter"),
        (r"{M}\s(?:des\s)?{which}\sjahres", "of_year"),
        (r"{S}\s(?:des\s)?{which}\sjahres", "of_year"),
        (r"{W}\s(?:in\sder\s|der\s)?{which}\swoche", "of_week"),
        (r"(?:(?:{which}|im)\s)?{S}(?:\s{Y})?", "season"),
        (r"{day}", "day"),
        (r"vor\s{N}\s{U}", "ago"),
        (r"(?:letzten|letzte|vergangenen|vergangene)\s{N}\s{U}", "recent"),
        (r"seit\s{N}\s{U}", "recent"),
        (r"(?P<several>letzten|vergangenen)\s(?P<u>stunden|tagen?|wochen|monaten?|jahren?)", "recent"),
        (r"{which}\s{unit}", "which"),
        (r"{which}\s{W}", "which"),
        (r"{which}\s{M}", "which_month"),
        (r"(?P<part>anfang|mitte|ende|beginn)\s(?:des|der)\s{unit}", "edge"),
        (r"{W}", "weekday"),
        (r"{M}(?!\.?\s[12][0-9]{3})", "near_month"),
        (r"(?<=\bvon\s){M}(?=\sbis\s)", "month"),
    ),
)

_FRENCH = Language(
    hint_words="ce dernier passe prochain il depuis",
    months=_in_order(
        "janvier/janv fevrier/fevr mars avril/avr mai juin juillet/juil aout septembre octobre novembre decembre"
    ),
    weekdays=_in_order("lundi mardi mercredi jeudi vendredi samedi dimanche", 0),
    seasons=_table({3: "printemps", 6: "ete", 9: "automne", 12: "hiver"}),
    units=_units(
        minute="minute minutes",
        hour="heure heures",
        day="jour jours",
        week="semaine semaines",
        month="mois",
        quarter="trimestre trimestres",
        year="an ans annee annees",
        weekend="week-end weekend",
    ),
    numbers=_in_order("un/une deux trois quatre cinq six sept huit neuf dix onze douze")
    | {"quinze": 15, "trente": 30},
    ordinals=_table(
        {1: "1er premier", 2: "2e 2eme deuxieme second", 3: "3e 3eme troisieme", 4: "4e 4eme quatrieme"}
    ),
    few=r"quelques|plusieurs",
    steps=_table(
        {
            -1: "dernier derniere passe passee precedent precedente",
            0: "ce cet cette",
            1: "prochain prochaine",
        }
    ),
    days=_table(
        {
            -2: "avant-hier avant_hier",
            -1: "hier hier_soir hier_matin",
            0: "aujourd'hui ce_matin ce_soir cet_apres-midi cette_nuit",
            1: "demain demain_matin demain_soir",
            2: "apres-demain apres_demain",
        }
    ),
    sure_months="janvier fevrier juillet aout septembre octobre novembre decembre",
    lower_months=True,
    month_after=(
        r"\b(?:en|depuis|avant|apres|entre|de|debut|fin|courant|pendant|vers|jusqu'en|jusqu'a)\s"
        r"(?:debut\s|fin\s)?\Z|\bmi-\Z|\bd'\Z|\b(?:entre|de|du)\s[^?!]{1,30}\s(?:et|a|au)\s(?:fin\s)?\Z"
    ),
    weekday_not_after=r"\b(?:les?|un|chaque|des)\s\Z",
    # In German, "hier" means "here".
    only_with={
        "hier": r"\A\W*hier\W*\Z|\b(?:le|la|les|que|quoi|qui|est|nous|vous|je|il|elle|une|et|quel(?:le)?s?|avons"
        r"|ont|ce|notre|nos|mon|ma|mes|pour|dans|avec|pas|reunion)\b|\b(?:[cdjlmnst]|qu)'"
    },
    not_after={"ete": r"\b(?:a|as|ai|ont|avait|avaient|avons|avez|avoir|ayant|aurait|jamais|toujours|pas)\s\Z"},
    forms=(
        (r"{D}(?:er)?(?:\s?(?:-|–|et|au)\s?{D2})?\s{M}\.?(?:\s{Y})?", "date"),
        (r"{M}\.?\s(?:de\s)?{Y}", "month"),
        (r"{O}\strimestre\s(?:de\s)?{Y}", "quarter"),
        (r"{M}\s(?:de\s)?(?:l')?(?:an|annee)\s{which}", "of_year"),
        (r"{M}\s(?:de\s)?{which}\sannee", "of_year"),
        (r"{S}\s(?:de\s)?l'(?:an|annee)\s{which}", "of_year"),
        (r"{W}\s(?:de\s)?la\ssemaine\s{which}", "of_week"),
        (r"{W}\s(?:de\s)?{which}\ssemaine", "of_week"),
        (r"{S}\s{which}", "season"),
        (r"(?:{which}\s)?{S}(?:\s(?:de\s)?{Y})?", "season"),
        (r"{day}", "day"),
        (r"il\sy\sa\s{N}\s{U}", "ago"),
        (r"(?:ces|les|des)\s{N}\s(?:derniers|dernieres)\s{U}", "recent"),
        (r"(?:ces|les|des)\s(?:derniers|dernieres)\s{N}\s{U}", "recent"),
        (r"(?:ces|les|des)\s(?P<several>derniers|dernieres)\s{U}", "recent"),
        (r"depuis\s{N}\s{U}", "recent"),
        (r"{unit}\s{which}", "which"),
        (r"{which}\s{unit}", "which"),
        (r"{W}\s{which}", "which"),
        (r"{which}\s{W}", "which"),
        (r"{M}\s{which}", "which_month"),
        (r"(?P<part>debut|milieu|fin)\s(?:du\s|de\sl'|de\sla\s){unit}", "edge"),
        (r"{W}(?!\sgras)", "weekday"),
        (r"{M}", "near_month"),
    ),
)

_SPANISH = Language(
    months=_in_order(
        "enero febrero marzo abril mayo junio julio agosto septiembre/setiembre octubre noviembre diciembre"
    ),
    weekdays=_in_order("lunes martes miercoles jueves viernes sabado domingo", 0),
    seasons=_table({3: "primavera", 6: "verano", 9: "otono", 12: "invierno"}),
    units=_units(
        minute="minuto minutos",
        hour="hora horas",
        day="dia dias",
        week="semana semanas",
        month="mes meses",
        quarter="trimestre trimestres",
        year="ano anos",
        weekend="fin_de_semana",
    ),
    numbers=_in_order("un/una/uno dos tres cuatro cinco seis siete ocho nueve diez once doce")
    | {"quince": 15, "treinta": 30},
    ordinals=_table({1: "1er primer", 2: "2o segundo", 3: "3er tercer", 4: "4o cuarto"}),
    few=r"un[oa]s\spoc[oa]s|un[oa]s|algun[oa]s|poc[oa]s|un\spar\sde|vari[oa]s",
    steps=_table(
        {
            -1: "pasado pasada anterior",
            0: "este esta",
            1: "proximo proxima que_viene",
        }
    ),
    days=_table(
        {
            -2: "anteayer antes_de_ayer antier",
            -1: "ayer anoche",
            0: "hoy esta_manana esta_noche esta_tarde",
            1: "manana",
            2: "pasado_manana",
        }
    ),
    sure_months="enero febrero septiembre setiembre octubre noviembre diciembre",
    lower_months=True,
    month_after=(
        r"\b(?:en|desde|hasta|antes\sde|despues\sde|tras|entre|de|durante|para)\s"
        r"(?:principios\sde\s|finales\sde\s|mediados\sde\s)?\Z"
        r"|\b(?:entre|de|desde)\s[^?!]{1,30}\s(?:y|a|hasta)\s(?:finales\sde\s)?\Z"
    ),
    weekday_after=r"\b(?:el|del|al|este|desde|hasta|entre)\s\Z",
    not_after={"manana": r"\b(?:la|una|cada|buena|de|las|por)\s\Z"},
    forms=(
        (r"{D}(?:\s?(?:-|–|y|al?)\s?{D2})?\sde\s{M}(?:\s(?:del?\s)?{Y})?", "date"),
        (r"{M}\s(?:del?\s)?{Y}", "month"),
        (r"{O}\strimestre\s(?:del?\s)?{Y}", "quarter"),
        (r"{M}\sdel?\sano\s{which}", "of_year"),
        (r"{M}\sde\s{which}\sano", "of_year"),
        (r"{S}\sdel?\sano\s{which}", "of_year"),
        (r"{W}\sde\sla\ssemana\s{which}", "of_week"),
        (r"{W}\sde\s{which}\ssemana", "of_week"),
        (r"{S}\s{which}", "season"),
        (r"(?:{which}\s)?{S}(?:\s(?:del?\s)?{Y})?", "season"),
        (r"{day}", "day"),
        (r"desde\shace\s{N}\s{U}", "recent"),
        (r"hace\s{N}\s{U}", "ago"),
        (r"{N}\s{U}\satras", "ago"),
        (r"ultim[oa]s\s{N}\s{U}", "recent"),
        (r"l[oa]s\s{N}\sultim[oa]s\s{U}", "recent"),
        (r"(?P<several>ultim[oa]s)\s{U}", "recent"),
        (r"ultim[oa]\s{U}", "recent"),
        (r"{unit}\s{which}", "which"),
        (r"{which}\s{unit}", "which"),
        (r"{W}\s{which}", "which"),
        (r"{which}\s{W}", "which"),
        (r"{M}\s{which}", "which_month"),
        (r"{which}\s{M}", "which_month"),
        (r"(?P<part>principios|comienzos|inicios?|mediados|finales|final|fines)\sde(?:l|\sla)?\s{unit}", "edge"),
        (r"{W}", "weekday"),
        (r"{M}", "near_month"),
    ),
)

_KANJI = "一 二 三 四 五 六 七 八 九 十 十一 十二"
_JAPANESE = Language(
    hint="[年月日週曜時分春夏秋冬]|きのう|きょう|おととい|あした|あさって",
    months=_in_order(_KANJI) | {str(number): number for number in range(1, 13)},
    weekdays=_in_order("月 火 水 木 金 土 日", 0),
    seasons=_table({3: "春", 6: "夏", 9: "秋", 12: "冬"}),
    units=_units(
        minute="分 分間",
        hour="時間",
        day="日 日間",
        week="週 週間",
        month="月 か月 ヶ月 カ月 ヵ月 ケ月 箇月 か月間 ヶ月間 カ月間 ヵ月間 ケ月間",
        quarter="四半期",
        year="年 年間",
        weekend="週末",
    ),
    numbers=_in_order(_KANJI),
    ordinals=_in_order("1/一 2/二 3/三 4/四"),
    few="数",
    steps=_table({-2: "先々 一昨 おと", -1: "先 昨 去 前", 0: "今 本 この", 1: "来"}),
    days=_table(
        {
            -2: "一昨日 おととい",
            -1: "昨日 きのう 昨夜 昨晩",
            0: "今日 きょう 本日 今朝 今夜 今晩",
            1: "明日 あした",
            2: "明後日 あさって",
        }
    ),
    forms=(
        (r"{Y}年の?{M}月{D}日(?:(?:から|〜|～|-|–){D2}日)?", "date"),
        (r"{M}月{D}日(?:(?:から|〜|～|-|–){D2}日)?", "date"),
        (r"(?P<which>一昨|昨|去|今|来|本)年の?{M}月(?:{D}日)?", "of_year"),
        (r"(?P<which>一昨|昨|去|今|来|本)年の?{S}", "of_year"),
        (r"{Y}年の?第?{O}四半期", "quarter"),
        (r"{Y}年の?{S}", "season"),
        (r"{Y}年の?{M}月", "month"),
        (r"(?P<which>先々|先|今|来|前)週の?{W}曜日?", "of_week"),
        (r"(?P<which>この|昨|今){S}", "season"),
        (r"{day}", "day"),
        (r"{N}{U}ほど?前", "ago"),
        (r"{N}{U}前", "ago"),
        (r"(?:ここ|この|過去|直近|最近)の?{N}{U}", "recent"),
        (r"(?P<which>先々|先|今|来)(?P<unit>週末|週|月)(?![曜間])", "which"),
        (r"(?P<which>前|今|来|先)(?P<unit>四半期)", "which"),
        (r"(?P<which>一昨|昨|去|今|来|本)(?P<unit>年)(?![0-9])", "which"),
        (r"(?<!毎週){W}曜日?", "weekday"),
        (r"(?<![0-9年月か]){M}月(?![曜0-9])", "month"),
        (r"(?<![0-9]){Y}年(?![間前0-9])", "year"),
    ),
)

# In this order, the rules of a language come before those of another with the same form.
LANGUAGES: tuple[Language, ...] = (_JAPANESE, _GERMAN, _FRENCH, _SPANISH)


def _all(tables: Iterable[Mapping[str, int]]) -> dict[str, int]:
    return {word: meaning for table in tables for word, meaning in table.items()}


ENGLISH_MONTHS = _in_order("jan feb mar apr may jun jul aug sep oct nov dec") | _in_order(
    "january february march april may june july august september/sept october november december"
)
_ENGLISH_NUMBERS = _in_order("a/an/one two three four five six seven eight nine ten eleven twelve")
_ENGLISH_UNITS = {
    word: unit
    for unit in ("minute", "hour", "day", "week", "month", "quarter", "year", "weekend")
    for word in (unit, unit + "s")
}

# The tables of all languages together. A pattern has the words of one language only, so the meanings do not
# conflict.
MONTHS = _all(language.months for language in LANGUAGES) | ENGLISH_MONTHS
WEEKDAYS = _all(language.weekdays for language in LANGUAGES) | _in_order(
    "monday tuesday wednesday thursday friday saturday sunday", 0
)
SEASONS = _all(language.seasons for language in LANGUAGES) | {
    "spring": 3,
    "summer": 6,
    "autumn": 9,
    "fall": 9,
    "winter": 12,
}
NUMBERS = _all(language.numbers for language in LANGUAGES) | _ENGLISH_NUMBERS
ORDINALS = _all(language.ordinals for language in LANGUAGES) | {str(number): number for number in range(1, 5)}
STEPS = _all(language.steps for language in LANGUAGES) | _table(
    {-1: "last past previous", 0: "this current in_the over_the during_the im", 1: "next coming"}
)
UNITS = {word: unit for language in LANGUAGES for word, unit in language.units.items()} | _ENGLISH_UNITS

# Words before a time that change its meaning, in all languages: patterns by meaning.
SIDES = {
    "since": r"since|seit|ab|depuis|a\spartir\s(?:del?|du)|desde",
    "after": r"after|nach|apres|despues\sdel?|tras",
    "before": r"before|prior\sto|vor|avant|antes\sdel?",
    "until": r"until|till|by|up\sto|through|bis|jusqu'(?:en|aux?|a)|hasta",
    "between": r"between|zwischen|entre",
    "from": r"from|von|vom|del?|du",
}
PARTS = {
    "early": r"early|(?:beginning|start)\sof|anfang|beginn|debut|(?:a\s)?(?:principios|comienzos|inicios?)",
    "mid": r"mid|middle\sof|mitte|mi|milieu|mediados",
    "late": r"late|end\sof|ende|fin|finales|final|fines",
    "first half": r"first\shalf\sof|erste[nrs]?\s(?:halfte|halbjahr)|premier\ssemestre|premiere\smoitie"
    r"|primer\ssemestre|primera\smitad",
    "second half": r"(?:second|latter)\shalf\sof|zweite[nrs]?\s(?:halfte|halbjahr)|(?:second|deuxieme)\ssemestre"
    r"|(?:seconde|deuxieme)\smoitie|segundo\ssemestre|segunda\smitad",
    "week": r"week\sof|woche\s(?:vom|ab)|semaine\sdu|semana\sdel",
    "weekend": r"weekend\sof|wochenende\svom|week-?end\sdu|fin\sde\ssemana\sdel",
}
ARTICLES = r"(?:(?:the|le|la|les|el|los|las|dem|den|der|des|die|das|zum|del?|du)\s|(?:la\s)?[ld]')"
AND = r"and|und|et|y|e"
TO = r"to|until|till|through|-|–|bis|au|al?|hasta|jusqu'(?:en|aux?|a)"

# In Japanese these words follow the time.
SIDES_AFTER = {
    "since": "以降|以来|から",
    "until": "まで|以前",
    "before": "より(?:も)?前|の前",
    "after": "以後|より(?:も)?後|の後",
}
PARTS_AFTER = {
    "early": "上旬|初旬|初め|はじめ|頭",
    "mid": "中旬|半ば|なかば",
    "late": "下旬|末|終わり",
    "first half": "前半|上半期",
    "second half": "後半|下半期",
}
