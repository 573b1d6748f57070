"""SWAG (Zellers et al. 2018): how does a description go on, as text.

TFDS has no SWAG: the files are the authors' own `train.csv` and `val.csv`, in
`swag/` of a data folder.

    video-id, fold-ind, startphrase, ..., ending0, ending1, ending2, ending3,
    label
    'anetv_1', 18419, 'He rides down the hall. He', ..., 'falls.', 'sings.',
    'eats.', 'stops.', 3
    -> 'swag choice1: falls. choice2: sings. choice3: eats. choice4: stops.
        context: He rides down the hall. He', 'choice4'

The labels of test are not public: scores are on validation.
"""

from tasks.formats.multiple_choice import CHOICES
from tasks.your_data.forms import ChoicesTask

# `swag`, and `swag:choices` as BERT reads it: the sentence, and the beginning
# of the next one with each ending.
ChoicesTask.from_csv(
  "swag",
  splits={"train": "swag/train.csv", "validation": "swag/val.csv"},
  inputs=(
    "swag choice1: {ending0} choice2: {ending1} choice3: {ending2} "
    "choice4: {ending3} context: {startphrase}"
  ),
  targets="{label}",
  labels=CHOICES,
  texts=["{sent1}"],
  choices=[
    "{sent2} {ending0}",
    "{sent2} {ending1}",
    "{sent2} {ending2}",
    "{sent2} {ending3}",
  ],
  metrics=["accuracy"],
)
