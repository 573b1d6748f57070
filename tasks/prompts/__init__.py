"""Prompts of our own words, and the tasks that they make.

Each folder has the YAML files of a type of tasks, in the format of
`tasks/your_data/prompt_files.py`. `t0` registers the sets that T0 was trained
and tested on, `gpt` what GPT is asked without fine-tuning, `miniature_suite`
and `few_shot_miniature` the same of the miniature suite. Begin with `t0`.
"""
