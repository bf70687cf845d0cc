"""General English knowledge that a catalog's own words do not hold: what means the same, and what a wish needs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from orchestrator.catalog.words import stem

# Each line: words that tool authors and users take for one another.
SAME = """
    get fetch retrieve obtain acquire
    search find lookup query seek
    list enumerate show display
    create make new generate produce build compose
    add insert append attach
    write save store put
    delete remove drop erase destroy discard
    update edit modify change revise alter
    send submit post deliver
    convert transform turn
    translate translation
    calculate compute calculator calculation arithmetic math
    draw plot visualize render paint
    run execute invoke
    start launch begin
    stop kill terminate abort end
    check verify validate confirm
    analyze analysis examine inspect assess evaluate
    recommend suggest advise recommendation suggestion
    summarize summary digest abstract
    open navigate visit goto
    click press tap
    fill type input enter
    merge combine join concatenate
    split divide separate
    compare diff difference comparison contrast
    pick choose select
    copy duplicate clone
    move rename relocate
    download grab
    upload attach
    extract parse scrape
    monitor watch track
    log history
    subscribe follow
    pay payment checkout
    ppt presentation powerpoint pptx slideshow deck
    excel xlsx xls spreadsheet workbook worksheet sheet
    docx word
    markdown md
    txt text plaintext
    picture image photo photograph illustration png jpg jpeg
    chart graph diagram plot
    website site webpage web
    url link hyperlink
    screenshot snapshot capture
    price pricing cost quote fare
    stock share equity
    ticker symbol
    company firm corporation business enterprise
    crypto cryptocurrency bitcoin ethereum btc
    currency forex money
    date day calendar
    time clock
    current now present
    latest newest recent new
    location place spot venue
    coordinate latitude longitude geographic geolocation
    route direction itinerary
    nearby near around surrounding close
    hotel accommodation lodging hostel rental
    repository repo
    branch fork
    issue bug defect
    folder directory
    paper article publication preprint
    documentation docs manual
    trending trend hot popular viral
    rank ranking leaderboard standings
    weather forecast climate
    recipe dish cuisine
    meal dinner lunch breakfast food
    video clip
    movie film
    transcript subtitle caption
    music audio song sound track
    mail email inbox
    message chat dm
    channel room
    meeting appointment event
    database db sql
    schema structure
    library package dependency module
    version release
    info information detail
    user account profile member
    person people human
    customer client contact
    train railway rail
    plane flight airline
    car vehicle auto
    job task todo
    random randomly
    container docker
    cluster kubernetes k8s
    bucket s3 object
    medical clinical
    trial experiment
    gene genetic variant mutation
    wiki wikipedia encyclopedia
    income earnings revenue profit
    exam test
    question problem quiz
    icon logo
    color colour
    font typeface
    picture figure
    header heading title headline
    footer footnote
    page pages
    game gaming
    team squad roster
    player gamer summoner
    hero champion agent character
    item equipment artifact
    skin cosmetic
    note memo
    key keyword
    tag label
    category kind genre
    comment reply
    review feedback
    story post
"""

# Each line: who speaks of these : may need tools that speak of those.
HINTS = """
    today tomorrow yesterday tonight weekend : current date time
    monday tuesday wednesday thursday friday saturday sunday : current date time
    week month year next : date
    schedule plan arrange agenda : calendar date
    timezone hour minute : time
    trip travel journey tour vacation holiday : route place location hotel ticket
    restaurant cafe bar shop park parking hotel attraction sightseeing : place nearby category
    museum school hospital pharmacy bank : place nearby category
    city address street town district : location place geocode
    distance drive walk bike commute : route direction
    flight train bus : ticket station
    ticket : train flight station
    stay night guest room : hotel accommodation
    ingredient cook dish eat diet menu food vegetarian : recipe meal
    invest investment investor portfolio finance financial market share stock : stock financial price ticker
    dividend ratio valuation earnings balance cashflow : stock fundamental statement
    gold silver metal commodity oil : price asset
    usd cny rmb eur gbp jpy dollar yuan euro yen pound : currency exchange
    exchange convert currency : rate
    estimate total sum balance percentage percent average ratio worth budget multiply equation formula : calculate
    buy shopping cheap deal discount product goods sale bargain : product price shopping
    esports player champion character : game
    news headline event : news article
    paper research study scholar academic literature thesis citation arxiv journal : paper article search
    author abstract : paper
    wikipedia encyclopedia biography : article wikipedia
    internet online web google bing : web search
    website page site browser login form button : browser page
    screenshot : page browser
    csv json xml log txt md : file
    pdf doc docx : document
    file document : file path
    report note essay article blog letter : write
    save export : write file
    contents content : read
    code program script function api sdk framework : library documentation code
    react vue angular ui frontend component button css : component
    git commit branch merge : repository git
    github gitlab : repository
    database table record row : query
    npm pypi maven gradle dependency : package version
    vulnerability license deprecated outdated : package dependency
    domain dns ip registrar : domain whois
    server deploy service port : container process
    terminal shell command cpu : process execute
    phone laptop computer gadget : technology product
    startup funding entrepreneur : business technology
    slide ppt presentation pptx powerpoint : presentation slide
    excel xlsx spreadsheet csv : sheet
    docx word letter resume contract : document paragraph
    bar pie line column scatter histogram radar funnel : chart
    proportion share distribution percentage : pie chart
    trend growth change : line chart
    process workflow pipeline : flow diagram
    mindmap mind outline brainstorm : map
    cause effect : diagram
    hierarchy organization : chart
    remember memory knowledge forget : memory note entity
    think reason reflect step : thinking
    lottery shuffle dice draw sample : random
    password secret token : random secure
    disease drug cancer patient gene medicine health symptom treatment : clinical biomedical
    dna protein genome : gene variant
    art painting sculpture artwork exhibition : museum object
    algorithm coding interview contest : problem
    video youtube lecture : transcript
    song tempo beat melody rhythm : audio
    lunar zodiac birth festival horoscope : calendar
    book novel reading : book rank
    movie film tv drama : rank
    social topic discussion : trending
    sports football basketball league match : game team
    photo picture image : image
    metadata exif : image
    canvas sketch shape rectangle : drawing
    seo crawl : sitemap page
    board opening checkmate grandmaster : chess move
    government public statistics census : dataset data
    dataset : data
    temperature rain snow wind humidity : weather
    mood sentiment fear greed : index
    holder insider institution : stock
    option call put strike : option
    email invite notify : send message
    customer order invoice : record
"""


@cache
def same_as() -> Mapping[str, tuple[str, ...]]:
    """Stem → stems that mean the same."""
    groups = [{stem(word) for word in line.split()} for line in SAME.strip().splitlines()]
    found: defaultdict[str, set[str]] = defaultdict(set)
    for group in groups:
        for word in group:
            found[word] |= group - {word}
    return _sorted(found)


@cache
def hinted_by() -> Mapping[str, tuple[str, ...]]:
    """Stem → stems that it makes likely."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in HINTS.strip().splitlines():
        causes, effects = (side.split() for side in line.split(":"))
        for cause in map(stem, causes):
            found[cause] |= {stem(effect) for effect in effects} - {cause}
    return _sorted(found)


def _sorted(found: Mapping[str, set[str]]) -> dict[str, tuple[str, ...]]:
    # The order of a set of strings differs between processes, and with it the last digits of sums of scores.
    return {word: tuple(sorted(others)) for word, others in found.items()}
