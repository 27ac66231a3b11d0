"""English word lists: abbreviations, titles, places, words that are not names; and whether a question is in English."""


def word_set(text: str) -> frozenset[str]:
    """The words of a list."""
    return frozenset(text.split())


# Their full stop never ends a sentence, because a name or a number follows.
BEFORE_NAMES = word_set(
    "mr. mrs. ms. messrs. mme. mlle. mons. dr. st. ste. prof. rev. hon. fr. sr. gen. col. capt. lieut. lt. "
    "maj. sgt. cpl. cmdr. adm. gov. sen. rep. pres. supt. mt. ft. vs. nos. vol. pp. pg. eq. eds. cf. viz. "
    "approx."
)
# Their full stop may end a sentence as well; the next word decides.
ABBREVIATIONS = word_set(
    "jr. esq. inc. ltd. co. corp. bros. etc. dept. univ. ave. blvd. rd. jan. feb. apr. jul. aug. sept. oct. "
    "nov. dec."
)
# A capitalised one of these after an abbreviation begins a sentence ("in the U.S. The film").
STARTERS = word_set(
    "The A An In On At It Its He She They We You I His Her Their This That These Those There After Before "
    "When While As But And Or So If For From With By To Although However During Since One Both What Who How "
    "Why Then"
)
# Before a name, or inside it: King Lear, Stephen King.
TITLES = word_set(
    "mr mrs ms miss misses mister messrs mme mlle mons dr sir madam madame ma'am mademoiselle monsieur "
    "signor signora signorina herr frau don donna lady lord lords ladies master mistress dame king queen "
    "prince princess duke duchess earl count countess comtesse comte baron baroness baronet marquis marquess "
    "marquise viscount viscountess emperor empress tsar czar kaiser sultan pope cardinal bishop archbishop "
    "father mother brother sister aunt uncle cousin grandma grandpa grandmother grandfather papa mamma mama "
    "mum mom dad daddy captain colonel major general lieutenant sergeant corporal commander commodore "
    "admiral private president vice minister senator governor mayor congressman chancellor judge justice "
    "professor doctor reverend rev squire nurse saint inspector constable detective officer chief hon "
    "honourable honorable majesty highness lordship ladyship excellency honour rev prof gen col capt lieut "
    "lt maj sgt cpl cmdr adm gov sen rep pres supt fr mons deacon archdeacon abbot abbess vicar rector dean "
    "chairman chairwoman commissioner deputy secretary treasurer executive director ambassador "
    "representative congresswoman sheriff producer coach founder"
)
NAMES_OF_MEN = word_set(
    "james john robert michael william david richard joseph thomas charles christopher daniel matthew "
    "anthony mark donald steven paul andrew joshua kenneth kevin brian george edward ronald timothy jason "
    "jeffrey ryan jacob gary nicholas eric jonathan stephen larry justin scott brandon benjamin samuel "
    "gregory frank alexander raymond patrick jack dennis henry peter adam arthur harold walter albert fred "
    "frederick ernest philip martin roger louis hugh fitzwilliam tom bob bill jim joe sam ben harry simon "
    "alan oliver edmund ralph leonard victor oscar hans karl"
)
NAMES_OF_WOMEN = word_set(
    "mary patricia jennifer linda elizabeth barbara susan jessica sarah karen lisa nancy betty margaret "
    "sandra ashley kimberly emily donna michelle carol amanda dorothy melissa deborah stephanie rebecca "
    "sharon laura cynthia kathleen amy angela shirley anna brenda pamela emma nicole helen samantha "
    "katherine christine rachel carolyn janet catherine maria heather diane ruth julie olivia joyce virginia "
    "victoria lauren martha judith anne ann jane alice charlotte helena georgiana lydia kitty fanny harriet "
    "isabella caroline louisa eleanor marianne sophia clara ada florence grace lucy rose edith ellen agnes "
    "eliza julia melanie"
)
DAYS_AND_MONTHS = word_set(
    "monday tuesday wednesday thursday friday saturday sunday mondays tuesdays wednesdays thursdays "
    "fridays saturdays sundays january february march april may june july august september october "
    "november december jan. feb. apr. jul. aug. sept. oct. nov. dec. christmas easter michaelmas "
    # Without those that are names or words as well: Jan, Jun, Mon, Sat, Sun.
    "whitsuntide midsummer lent feb apr aug sep sep. sept oct nov dec tue tue. tues wed wed. thu thu. thur "
    "thurs fri fri."
)
NUMBER_WORDS = word_set(
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million "
    "billion half twice dozen percent"
)
# The same number in other forms.
_FORMS = (
    "1 one first 1st i, 2 two second 2nd ii, 3 three third 3rd iii, 4 four fourth 4th iv, "
    "5 five fifth 5th v, 6 six sixth 6th vi, 7 seven seventh 7th vii, 8 eight eighth 8th viii, "
    "9 nine ninth 9th ix, 10 ten tenth 10th x, 11 eleven eleventh 11th xi, 12 twelve twelfth 12th xii, "
    "13 thirteen 13th xiii, 14 fourteen 14th xiv, 15 fifteen 15th xv, 16 sixteen 16th xvi, "
    "17 seventeen 17th xvii, 18 eighteen 18th xviii, 19 nineteen 19th xix, 20 twenty 20th xx, 30 thirty, "
    "40 forty, 50 fifty, 60 sixty, 70 seventy, 80 eighty, 90 ninety, 100 hundred, 1000 thousand"
)
NUMBER_FORMS = tuple(tuple(forms.split()) for forms in _FORMS.split(", "))

ALONE = (
    word_set(
        "i i'm i'se o oh ah god gods lord heaven heavens providence almighty bible ok tv dvd dvds cd cds "
        "ep eps hi hello hey okay thanks thank bye goodbye wow yeah yep yes nope hmm haha hurrah cheers "
        "congrats congratulations sorry please dear welcome regards sincerely lp lps ceo cfo coo mp mvp "
        "am pm fm ad bce ce phd ph ba b.a. m.a. mba obe mbe cbe vhs dna isbn usd vol. op"
    )
    | DAYS_AND_MONTHS
)
# Inside a name only: Ludwig van Beethoven, Charles de Gaulle, Simon & Garfunkel.
PARTICLES = word_set("van von der den de di da du del della la le ten ter bin ibn al el y &")
# Before a capital these begin a place even at a sentence's start: "New York is …".
PLACE_PREFIXES = word_set(
    "new north south east west northern southern eastern western saint st. mount lake fort san"
)
# What places are called, and what organizations are: Ludendorff Bridge, Bank of England.
PLACE_NOUNS = word_set(
    "county city town village river street road avenue lane square bridge hall park castle abbey cathedral "
    "hotel inn island islands bay sea ocean mountain mountains hill hills valley airport station district "
    "region province stadium arena tower forest point beach area township borough building highway route "
    "boulevard canal creek peninsula coast isle isles cape gulf strait firth port harbour harbor palace mall "
    "resort resorts subdivision territory trail municipality prefecture subdistrict parish junction terminal "
    "terrace dome coliseum cemetery penitentiary plateau falls desert downtown midtown uptown parkway "
    "speedway raceway states kingdom republic empire duchy principality emirate sultanate viceroyalty "
    "commonwealth northwest northeast southwest southeast metro house"
)
ORGANIZATION_NOUNS = word_set(
    "university college school academy institute army navy force corps regiment division company corporation "
    "inc. ltd. co. records entertainment pictures studios magazine press times news journal club team league "
    "association society party bank railway airlines committee council department ministry office bureau "
    "agency inc ltd llc plc limited group network railroad federation confederation legion brigade battalion "
    "squadron forces command alliance board guild senate parliament congress assembly representatives "
    "government commission administration authority organization organisation foundation trust fund reserve "
    "diocese archdiocese synod service services productions publishing media orchestra opera schools "
    "colleges universities institutes churches church motors technologies communications brewery factory "
    "store corp. fc f.c. union library museum hospital conference initiative tribe court chamber program "
    "programme"
)
# Parts of names of places that are no reason to say that a name is not a person's.
MORE_PLACE_NOUNS = word_set(
    "basin streets roads lanes rivers lakes plains plain woods wood fields field delta channel gate gardens "
    "garden wharf quay pier crescent close drive court mount ridge canyon reef glacier oblast suburb campus "
    "room"
)
# Endings of names of places.
PLACE_ENDINGS = tuple(
    word_set(
        "land lands burg burgh ville shire stan heim berg stadt ford bury chester mouth wick grad polis ia borough "
        "dorf furt haven sk pur abad gaten strasse"
    )
)
# Before a name of a place, and before one of a person.
BEFORE_PLACES = word_set(
    "in at near from to through toward towards across around outside inside via into within throughout"
)
BEFORE_PEOPLE = word_set(
    "by with asked ask told said says son daughter wife husband friend neighbour colleague named author "
    "writer artist merchant king queen inventor mathematician philosopher economist historian officer"
)
BEFORE_ORGANIZATIONS = word_set(
    "company firm manufacturer publisher broadcaster airline supermarket bank brewery"
)
# After the name of a person.
AFTER_PEOPLE = word_set(
    "who whose whom said says wrote writes argued argues noted notes proposed proposes told married thinks "
    "believed believes discovered invented became died explains explained asked led painted lived won keeps "
    "works lives described refused signed will has had is was"
)
# A name with one of these is not a person's, so a single word of it means something else: London Bridge, London.
NOT_PEOPLE = (
    PLACE_PREFIXES
    | PLACE_NOUNS
    | ORGANIZATION_NOUNS
    | word_set(
        "theatre theater united war battle films film series show cup championship championships award "
        "awards prize festival state national international great central royal grand act center centre "
        "treaty siege order register peerage baronetage constitution revolution campaign chapel bachelor "
        "project system research management technology engineering science sciences games game olympics "
        "paralympics tournament trophy medal prix finals bowl tour draft football baseball basketball "
        "hockey legend legends tales adventures chronicles comics album albums chart music radio "
        "television channel gallery collection performance actor actress native movie tracks singles "
        "books symphony monarchy dynasty rebellion mission market racing world champion greater lower "
        "upper metropolitan public &"
    )
)
# Words for peoples, religions and languages, and brands.
PEOPLES = word_set(
    "american americans british english french dutch irish scottish welsh italian spanish portuguese german "
    "austrian swiss belgian danish swedish norwegian finnish icelandic polish czech hungarian romanian "
    "bulgarian serbian croatian greek turkish russian ukrainian soviet jewish arab arabic persian iranian "
    "iraqi israeli egyptian indian pakistani chinese japanese korean vietnamese thai indonesian malaysian "
    "filipino philippine australian canadian mexican brazilian argentine colombian cuban jamaican african "
    "nigerian kenyan ethiopian asian european latin nordic celtic byzantine ottoman catholic protestant "
    "orthodox lutheran muslim islamic hindu buddhist republican democratic communist sicilian albanian "
    "lithuanian tasmanian mongolian tamil hindi malayalam telugu anglican islam olympic"
)
BRANDS = word_set(
    "playstation xbox nintendo windows billboard netflix toyota honda nissan nba nfl nhl mlb ncaa ucla wnba "
    "fifa uefa bbc nbc cbs abc mtv espn hbo cnn"
)
# Peoples, places and brands: a name with one of these is not a person's either, but each is a name by itself.
PLACES = (
    PEOPLES
    | BRANDS
    | word_set(
        "america europe asia africa antarctica canada mexico brazil argentina peru colombia venezuela "
        "cuba panama britain scotland wales netherlands belgium germany austria switzerland italy spain "
        "portugal poland hungary romania bulgaria serbia croatia slovenia slovakia greece turkey ukraine "
        "russia finland sweden norway denmark iceland egypt iran iraq syria lebanon afghanistan pakistan "
        "bangladesh nepal china taiwan japan korea vietnam thailand malaysia singapore indonesia "
        "philippines australia nigeria kenya ethiopia ghana zimbabwe california florida illinois "
        "pennsylvania massachusetts ohio michigan minnesota wisconsin missouri kentucky connecticut "
        "oregon arizona colorado alabama louisiana mississippi oklahoma iowa kansas nebraska utah idaho "
        "hawaii alaska maryland arkansas wyoming ontario quebec alberta manitoba saskatchewan queensland "
        "tasmania chicago philadelphia toronto montreal vancouver ottawa calgary seattle detroit "
        "pittsburgh baltimore atlanta miami milwaukee minneapolis cincinnati nashville memphis sacramento "
        "moscow rome milan venice vienna prague budapest warsaw stockholm copenhagen oslo amsterdam "
        "brussels munich hamburg madrid barcelona lisbon athens istanbul jerusalem cairo tokyo beijing "
        "shanghai seoul mumbai delhi melbourne brisbane manchester liverpool birmingham edinburgh glasgow "
        "cardiff belfast dublin cambridge oxford yorkshire atlantic pacific mediterranean caribbean "
        "hollywood broadway jakarta manila taipei bangkok manhattan indianapolis louisville albania "
        "lithuania us u.s. usa uk u.k."
    )
)
# Surnames as well: no person's name begins with one of these, but it may end with one (Jack London).
PLACES_FIRST = PLACES | word_set(
    "london boston houston washington dallas cleveland denver berlin paris france england ireland india "
    "israel texas tennessee montana nevada indiana maine york buffalo"
)
# They begin and join titles of books and films ("The Curse Of …") and are not names by themselves.
FUNCTION_WORDS = frozenset(map(str.lower, STARTERS)) | word_set(
    "of into onto upon over under about is are was were be been has have had do does did not no yes my your "
    "our me us him them whom whose which where whether than nor yet because until till though all any each "
    "every some such more most other another will would shall should can could may might must let don't "
    "didn't can't won't isn't ain't"
)
# Endings of common words: an unknown word with one of these at the start of a sentence is rarely a name.
COMMON_ENDINGS = ("ing", "ed", "ly", "ness", "tion", "ment", "less", "ful", "ism", "ity", "ings", "tions")
# Words of most English questions that the languages below do not have.
ENGLISH_ONLY = word_set(
    "the of what who whom whose when where which why how did does are were has have been being that this "
    "these those it its his him she they them their there from with into about would should could must "
    "cannot than because you your my our and but any each if can many much whats whos"
)
# Words of questions in other languages that are neither English nor parts of names.
OTHER_LANGUAGES = word_set(
    # German
    "wer wem wessen wann woher wohin warum wieso weshalb womit welche welcher welches welchem welchen wieviel "
    "wieviele viele sind wurde wurden wird werden haben nicht eine einen einem einer eines und für "
    "nach vom zum zur beim kostet gibt muss kann "
    # French
    "que quoi quand où pourquoi combien quel quelle quels quelles sont était avec cette "
    "nous vous elles une été coûte "
    # Spanish
    "quién quiénes quien qué cuándo cuando dónde donde cómo cuál cuáles cuánto cuánta cuántos cuántas cuanto "
    "cuantos cuantas cuesta está están fue fueron por "
    # Italian
    "perché quando quale quali quanto quanti quanta quante è della delle degli nella gli "
    # Portuguese
    "quem quando onde porque qual quais quantos quantas são está não "
    # Dutch
    "wanneer waar waarom hoeveel welke het zijn werd heeft naar voor niet "
    # Swedish, Danish, Norwegian
    "vem vad när varför vilken vilket vilka många är och hvem hvad hvornår hvor hvorfor hvilken hvilket hvordan "
    "hva når blev ikke "
    # Polish, Czech
    "kto gdzie kiedy dlaczego ilu się który która które kdo kdy proč jaký kolik který jsou "
    # Hungarian, Romanian, Indonesian
    "hogy hol mikor miért hány unde când câți câte siapa kapan dimana mengapa berapa "
    # Finnish, Turkish
    "kuka mikä missä mistä milloin miksi miten kuinka montako paljonko nerede nereye nasıl neden kaç hangi zaman"
)
# Words of other languages that English, names or titles have as well: a few together tell.
SHARED_WORDS = word_set(
    "was die der das den dem des im war hat ist ein wo wen wie hatte auf aus bis ich mit la le les un du en "
    "et se qui est sur pour comment aux ces dans ils il si lo chi ha che cosa dove era sono nel el los las "
    "di da del de es una con como para hay esta foi uma te er op een hoe dit om jak ile jest co ne mi kim "
    "var hur og mange kde costa fica wat come ora"
)
# Those that ask, if a question begins with them.
SHARED_QUESTION_WORDS = word_set("wo wen wie qui comment chi come dove como hoe wat var jak")
# English questions have one of these among their first words, or begin with one of the auxiliaries.
QUESTION_WORDS = word_set("who whom whose what which when where why how")
AUXILIARIES = word_set("is are was were do does did has have had can could will would should may must")
