"""Causes and their effects: what follows from what in the miniature world.

Each schema is two lines: wordings of the cause, then `=>` and wordings of the
effect, separated by `;`. `{p}` is the person's name or pronoun, `{their}` the
possessive. Every wording is a clause without its full stop.
"""

SCHEMAS = """
{p} dropped the glass; {p} knocked over the glass
  => the glass broke; there were splinters on the floor
{p} forgot the umbrella; {p} was out in the rain
  => {p} got wet; {their} hair was dripping
{p} ran for an hour; {p} climbed the steep mountain
  => {p} was out of breath; {their} legs ached
{p} missed breakfast; {p} had no lunch
  => {p} was starving; {their} stomach growled
{p} stayed up all night; {p} did not sleep
  => {p} yawned; {their} eyes were tired
{p} touched the flame; {p} grabbed the hot pan
  => {p} burned {their} finger; {their} hand had a blister
{p} studied for the exam; {p} learned every lesson by heart
  => {p} got a good grade; {p} passed the test
{p} won the lottery; {p} inherited a fortune
  => {p} became rich; {p} moved to a mansion
{p} told a joke; {p} made a funny face
  => everybody laughed; the children giggled
{p} broke the law; {p} robbed a bank
  => {p} was arrested; the police came for {p}
{p} caught a cold; {p} sat in the draught
  => {p} sneezed; {their} nose was running
{p} ate spoiled fish; {p} swallowed poison
  => {p} felt sick; {p} threw up
{p} left the window open; the window did not close
  => the wind blew the papers away; insects flew inside
{p} lit the stove; {p} put wood on the fire
  => the kitchen became warm; smoke rose from the chimney
{p} slipped on the ice; {p} fell down the stairs
  => {p} broke {their} leg; {p} limped
{p} lost the key; {p} could not find the key
  => the door stayed locked; {p} had to call a locksmith
{p} turned on the tap; {p} pulled the plug
  => the sink filled up; water splashed everywhere
{p} switched off the light; the bulb burned out
  => the hall went dark; nobody could see anything
{p} spoke too loudly; {p} slammed the door
  => the baby woke up; the baby cried
{p} praised the pupil; {p} gave the pupil a prize
  => the pupil smiled; the pupil blushed
{p} overslept; the alarm did not ring
  => {p} was late; {p} missed the bus
{p} drank too much coffee; {p} drank an espresso at midnight
  => {p} was nervous; {their} heart was racing
{p} spilled ink; the pen leaked
  => there was a stain on the paper; the letter could not be read
{p} stepped on a thorn; {p} cut {their} skin
  => {p} bled; {p} needed a bandage
{p} saved money; {p} put coins aside every week
  => {p} could afford a house; {their} account grew
{p} insulted the guest; {p} lied to the guest
  => the guest left in anger; the guest demanded an apology
{p} poured petrol in the tank; {p} repaired the engine
  => the motor started; the machine ran again
{p} kicked the ball; {p} hit the ball hard
  => the ball flew over the fence; the goalkeeper jumped
{p} planted seeds; {p} scattered grain
  => sprouts came up; there was a harvest
{p} heard thunder; {p} saw lightning
  => {p} looked for shelter; {p} hid under the roof
"""
