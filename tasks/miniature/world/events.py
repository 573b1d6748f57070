"""Causes and their effects: what follows from what in the miniature world.

Each line is a schema: two causes, each the verb and the noun of a clause
(`saw:ghost` is `anna saw the ghost`), then `=>` and the state that follows
(`anna was scared`). A state follows from no other cause.
"""

GOOD = """
won:lottery inherited:fortune => rich
beat:champion took:medal => proud
saved:king caught:dragon => famous
passed:exam took:course => trained
kissed:bride loved:rival => married
swallowed:pill drank:potion => healed
sang:anthem told:joke => admired
found:shelter reached:shore => safe
left:prison broke:chain => free
climbed:throne inherited:crown => crowned
took:bath drank:tea => refreshed
joined:army saw:agent => hired
found:treasure sold:mansion => wealthy
read:manual heard:lecture => informed
solved:riddle finished:marathon => celebrated
rescued:baby cured:queen => honoured
ate:stew had:soup => full
lit:fire wore:fur => warm
signed:lease bought:cottage => housed
watched:clown heard:comedian => cheered
took:nap had:rest => rested
lifted:weights tried:yoga => fit
painted:mural carved:statue => acclaimed
planted:seed caught:salmon => nourished
joined:choir met:cousin => welcome
washed:hair wore:perfume => scented
earned:degree wrote:thesis => respected
paid:debt sold:yacht => solvent
adopted:orphan raised:twins => blessed
opened:parcel received:gift => surprised
"""

BAD = """
saw:ghost met:bear => scared
touched:flame grabbed:pan => burned
missed:breakfast skipped:supper => starving
robbed:bank attacked:judge => arrested
ate:fungus swallowed:poison => sick
crossed:desert licked:salt => thirsty
slipped:ice hit:wall => injured
paid:fine lost:bet => poor
told:lie broke:promise => ashamed
faced:blizzard entered:glacier => frozen
missed:bus ignored:clock => late
dug:ditch crossed:swamp => muddy
lost:key forgot:password => locked
heard:thunder saw:shadow => terrified
broke:vase spilled:ink => scolded
failed:test flunked:exercise => rejected
hauled:stone pulled:plough => tired
drank:vodka smoked:tobacco => dizzy
lost:map left:trail => astray
forged:cheque bribed:mayor => jailed
kicked:hive grabbed:wasp => stung
leaked:secret spread:gossip => shunned
crashed:glider hit:iceberg => wounded
skipped:lesson lost:textbook => ignorant
chewed:garlic wore:rags => smelly
dropped:crystal tore:letter => sorry
climbed:cliff saw:abyss => giddy
drank:acid ate:mushroom => ill
ate:sand licked:battery => nauseous
wrecked:limousine missed:deadline => fired
"""
