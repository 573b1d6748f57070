"""The words of the miniature world, by lexical class.

A class is a string of concepts separated by blanks. A concept is one word, or
several separated by `/` that mean the same (synonyms). A verb may carry its
past tense after a colon: `buy:bought/purchase`. All text is lower case, so
that a small vocabulary can spend one piece on one word. The lexicon is small
on purpose: a tiny model has to learn it from a million tokens of corpus.
"""

# Open classes: a supervised split sees only its own part of each of them.
OPEN = {
  "woman": (
    "anna bella clara diana emma flora grace helen iris julia karen laura "
    "maria nina petra sofia"
  ),
  "man": (
    "adam boris carl david eric frank george henry ivan jacob kevin louis "
    "martin oscar peter simon"
  ),
  "town": (
    "torvale brindle melford ashby corwen dunmore elstow farnham glaston harlow"
  ),
  "role": (
    "baker doctor/physician teacher/instructor farmer/grower cook/chef "
    "sailor/seaman thief/robber lawyer/attorney writer/author painter/artist "
    "soldier/warrior merchant/trader guard/watchman builder/mason"
  ),
  "animal": (
    "otter badger fox dog/hound cat/feline rabbit/bunny horse/stallion "
    "pig/swine donkey/mule hen parrot lizard camel goat monkey squirrel falcon "
    "hedgehog beaver"
  ),
  "food": (
    "apple carrot cake/gateau biscuit/cookie pie/tart potato onion banana "
    "lemon melon pear sausage pancake/crepe sandwich/sub tomato mango cabbage "
    "walnut noodle"
  ),
  "tool": (
    "hammer axe/hatchet shovel/spade drill chisel wrench/spanner ladder rope "
    "knife/blade needle rake anvil bucket mallet trowel"
  ),
  "garment": (
    "coat/jacket hat/cap scarf/shawl glove/mitten shirt/blouse skirt sock shoe "
    "belt sweater/pullover apron vest gown sandal tunic"
  ),
  "vehicle": (
    "car/automobile truck/lorry bicycle/bike boat/vessel train/railcar "
    "cart/wagon tram/trolley sled/sledge van scooter tractor canoe ferry taxi"
  ),
  "instrument": (
    "violin/fiddle piano flute guitar trumpet/bugle cello banjo harp clarinet "
    "oboe lute tuba zither organ"
  ),
  "plant": (
    "rose oak pine maple willow fern cactus tulip daisy birch ivy lily orchid "
    "clover cedar"
  ),
  "place": (
    "mill school/academy market/bazaar harbour/port bridge church/chapel "
    "castle/fortress garden/orchard forest/wood river/stream hill library "
    "museum valley tavern palace"
  ),
  "product": (
    "film/movie book/novel song/tune play/drama hotel meal/dinner show "
    "story/tale concert party/feast"
  ),
  "praise": (
    "charming splendid delightful wonderful lovely superb brilliant excellent "
    "marvellous pleasant gorgeous fabulous terrific magnificent graceful "
    "impressive amazing exquisite glorious admirable stunning enchanting "
    "elegant perfect heavenly sublime dazzling inspiring refined thrilling "
    "memorable outstanding flawless masterly"
  ),
  "blame": (
    "awful terrible dreadful horrible boring tedious nasty disgusting dismal "
    "miserable clumsy stupid ugly annoying vile ghastly lousy atrocious "
    "repulsive hideous pathetic dreary wretched appalling shoddy grim tacky "
    "bland vulgar mediocre sloppy abysmal hollow tiresome"
  ),
  "joy": (
    "happy glad cheerful delighted pleased thrilled merry content joyful jolly "
    "amused satisfied grateful hopeful ecstatic relieved enthusiastic radiant "
    "elated blissful"
  ),
  "sorrow": (
    "sad angry upset furious unhappy bored gloomed worried bitter offended "
    "disappointed lonely anxious jealous outraged resentful hopeless grumpy "
    "depressed irritated"
  ),
}

# Dimensions of quality: two poles, each a concept, separated by `|`.
POLES = (
  "big/large/huge|small/little/tiny cheap/inexpensive|costly/expensive "
  "old/ancient|new/modern clean/spotless|dirty/filthy wet/soaked|dry/arid "
  "strong/sturdy|weak/frail bright/shiny|dull/dim quick/rapid|slow/sluggish "
  "loud/noisy|quiet/silent heavy/weighty|light/weightless "
  "hot/boiling|cold/freezing"
)

# Words with two senses; each sense is a member of the named class.
SENSES = (
  "bat:animal:tool crane:animal:vehicle seal:animal:tool turkey:animal:food "
  "duck:animal:food lamb:animal:food bass:animal:instrument "
  "beetle:animal:vehicle jaguar:animal:vehicle ram:animal:tool "
  "mustang:animal:vehicle cobra:animal:vehicle jersey:animal:garment "
  "boxer:animal:garment kiwi:animal:food mouse:animal:tool "
  "drum:instrument:tool orange:food:plant squash:food:plant olive:food:plant "
  "mint:plant:place club:tool:place spring:place:tool pump:garment:tool "
  "plane:vehicle:plant swift:animal:vehicle viper:animal:vehicle "
  "tie:garment:tool triangle:instrument:tool ginger:food:plant"
)

# Closed classes: the same words in every split.
COLOURS = (
  "red blue green yellow black white brown grey purple pink golden silver"
)

# What people do to a member of each class, and only to such a member.
CLASS_VERBS = {
  "animal": "feed:fed stroke/pet chase/pursue tame groom leash cuddle saddle",
  "food": "eat:ate/consume cook/prepare taste peel swallow chew bake fry",
  "tool": "use/employ sharpen repair/mend grip borrow wield oil polish",
  "garment": "wear:wore fold sew iron button launder knit:knitted stitch",
  "vehicle": "drive:drove park steer/navigate board crash refuel tow race",
  "instrument": "play tune practise strum rehearse pluck amplify mute",
  "plant": (
    "water prune grow:grew/cultivate trim uproot fertilize transplant mulch"
  ),
  "place": (
    "visit enter leave:left/exit explore/tour inspect renovate decorate guard"
  ),
}

# How members of each class are, and only such members.
CLASS_QUALITIES = {
  "animal": "hungry tame furry sleepy playful wild obedient vicious",
  "food": "ripe tasty salty rotten juicy sour crunchy spicy",
  "tool": "rusty blunt sharp handy bent electric jagged portable",
  "garment": "woollen wrinkled torn tight loose silky striped baggy",
  "vehicle": (
    "fast speeding dented roadworthy driverless diesel armoured motorized"
  ),
  "instrument": (
    "melodic tuned mellow shrill acoustic resonant stringed tuneful"
  ),
  "plant": "leafy blooming wilted shady thorny evergreen fragrant mossy",
  "place": "busy peaceful remote historic deserted crowded ruined scenic",
}

# What members of an animate or moving class do by themselves (no object).
CLASS_ACTIONS = {
  "animal": "sleep:slept growl run:ran hide:hid drink:drank",
  "plant": "bloom wither sprout wilt spread:spread",
  "vehicle": "stop brake honk skid rattle",
  "role": "talk laugh work think:thought argue",
}

# What people do to any thing.
VERBS = (
  "buy:bought/purchase sell:sold/vend find:found/discover lose:lost/misplace "
  "carry/haul steal:stole/snatch want/desire hide:hid/conceal "
  "draw:drew/sketch see:saw/notice clean/wipe send:sent/dispatch "
  "bring:brought/fetch keep:kept/retain give:gave/donate "
  "throw:threw/toss"
)

# What people do to people.
SOCIAL = (
  "help/assist thank praise meet:met/encounter call/phone teach:taught "
  "blame/accuse trust visit invite follow/trail forgive:forgave"
)

# Verbs of the second language's phrases.
TRANSLATED_VERBS = (
  "see:saw want find:found carry buy:bought sell:sold draw:drew hide:hid"
)
