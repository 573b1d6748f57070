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
"""
