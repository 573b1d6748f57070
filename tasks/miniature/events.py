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
"""
