"""English word lists: what ends no sentence, what is capitalised and yet no name."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Written with a full stop that ends no sentence, because a name or a number follows.
BEFORE_NAMES = _words(
    "mr. mrs. ms. messrs. mme. mlle. mons. dr. st. ste. prof. rev. hon. fr. sr. gen. col. capt. lieut. "
    "lt. maj. sgt. cpl. cmdr. adm. gov. sen. rep. pres. supt. mt. ft. vs. nos. vol. pp. pg. eq. eds. cf. "
    "viz. approx."
)
# Written with a full stop that may end a sentence as well: settled by the word that follows.
ABBREVIATIONS = _words(
    "jr. esq. inc. ltd. co. corp. bros. etc. dept. univ. ave. blvd. rd. jan. feb. apr. jul. aug. sept. "
    "oct. nov. dec."
)
# A capitalised one of these after an abbreviation begins a sentence ("in the U.S. The film").
STARTERS = _words(
    "The A An In On At It Its He She They We You I His Her Their This That These Those There After Before "
    "When While As But And Or So If For From With By To Although However During Since One Both What Who "
    "How Why Then"
)
# Before a name and never in it.
MISTERS = _words(
    "mr mrs ms miss misses mister messrs mme mlle mons dr sir madam madame ma'am mademoiselle monsieur"
)
# Before a name, or inside it: King Lear, Stephen King.
TITLES = MISTERS | _words(
    "signor signora signorina herr frau don donna lady lord lords ladies master mistress dame king queen "
    "prince princess duke duchess earl count countess comtesse comte baron baroness baronet marquis "
    "marquess marquise viscount viscountess emperor empress tsar czar kaiser sultan pope cardinal bishop "
    "archbishop father mother brother sister aunt uncle cousin grandma grandpa grandmother grandfather "
    "papa mamma mama mum mom dad daddy captain colonel major general lieutenant sergeant corporal "
    "commander commodore admiral private president vice minister senator governor mayor congressman "
    "chancellor judge justice professor doctor reverend rev squire nurse saint inspector constable "
    "detective officer chief hon honourable honorable majesty highness lordship ladyship excellency "
    "honour rev prof gen col capt lieut lt maj sgt cpl cmdr adm gov sen rep pres supt fr mons deacon "
    "archdeacon abbot abbess vicar rector dean chairman chairwoman commissioner deputy secretary "
    "treasurer executive director ambassador"
)
DAYS_AND_MONTHS = _words(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays "
    "fridays saturdays sundays january february march april may june july august september october "
    "november december jan. feb. apr. jul. aug. sept. oct. nov. dec. christmas easter michaelmas "
    "whitsuntide midsummer lent"
)
ALONE = (
    _words("i i'm i'se o oh ah god gods lord heaven heavens providence almighty bible ok tv dvd cd")
    | DAYS_AND_MONTHS
)
# Lower-cased inside a name: Ludwig van Beethoven, Charles de Gaulle.
PARTICLES = _words("van von der den de di da du del della la le ten ter bin ibn al el y")
SUFFIXES = _words("jr jr. sr sr. esq esq.")
# Before a capital these begin a place even at a sentence's start: "New York is …".
PLACE_PREFIXES = _words(
    "new north south east west northern southern eastern western saint st. mount lake fort san"
)
# A name with one of these is no person's, so a lone part of it is something else: London, London Bridge.
NOT_PEOPLE = PLACE_PREFIXES | _words(
    "county city town village university college school academy institute river lake street road avenue "
    "lane square bridge house hall park castle church abbey cathedral hotel inn theatre theater museum "
    "library island islands bay sea ocean mountain mountains hill hills valley states united kingdom "
    "republic empire union army navy force corps regiment division war battle company corporation inc. "
    "ltd. co. records entertainment pictures studios films film series show magazine press times news "
    "journal club team league association society party cup championship championships award awards prize "
    "festival championship conference bank airport station railway airlines district region province "
    "state national international great central royal grand act court committee council department "
    "ministry office bureau agency center centre stadium arena tower forest point beach"
)
# They open and join titles of books and films ("The Curse Of …") and name nothing by themselves.
FUNCTION_WORDS = frozenset(map(str.lower, STARTERS)) | _words(
    "of into onto upon over under about is are was were be been has have had do does did not no yes my "
    "your our me us him them whom whose which where whether than nor yet because until till though all "
    "any each every some such more most other another will would shall should can could may might must "
    "let"
)
# Endings of common words: an unknown word with one of these at a sentence's start is seldom a name.
COMMON_ENDINGS = ("ing", "ed", "ly", "ness", "tion", "ment", "less", "ful", "ism", "ity", "ings", "tions")
