"""Training examples of the tasks of GLUE and SuperGLUE.

They are the constants of `t5/data/glue_utils.py`, and what `zoo prepare` counts
for complete data sets: the training splits of TFDS `glue:2.0.0` and
`super_glue:1.0.2` after the tasks' steps. So ReCoRD has one example per answer
(100,730 rows give 138,854), and `wsc_simple_train` only the 259 of 554 rows in
which the two spans corefer. 0 are tasks for evaluation alone.
"""

# Without WNLI: it is WSC in another form, and WSC's training set is mixed.
GLUE = {
  "glue_cola_v002": 8_551,
  "glue_sst2_v002": 67_349,
  "glue_mrpc_v002": 3_668,
  "glue_qqp_v002": 363_849,
  "glue_stsb_v002": 5_749,
  "glue_mnli_v002": 392_702,
  "glue_qnli_v002": 104_743,
  "glue_rte_v002": 2_490,
  "glue_mnli_mismatched_v002": 0,
  "glue_mnli_matched_v002": 0,
  "glue_ax_v002": 0,
}

SUPER_GLUE = {
  # Definite pronouns (Rahman and Ng 2012) in the form of WSC.
  "dpr_v001_simple": 1_322,
  "super_glue_wsc_v102_simple_train": 259,
  "super_glue_wsc_v102_simple_eval": 0,
  "super_glue_boolq_v102": 9_427,
  "super_glue_cb_v102": 250,
  "super_glue_copa_v102": 400,
  "super_glue_multirc_v102": 27_243,
  "super_glue_record_v102": 138_854,
  "super_glue_rte_v102": 2_490,
  "super_glue_wic_v102": 5_428,
  "super_glue_axb_v102": 0,
  "super_glue_axg_v102": 0,
}

SUPER_GLUE_SENTINEL = {
  "dpr_v001_simple_1_sentinel": 1_322,
  "super_glue_wsc_v102_simple_1_sentinel_train": 259,
  "super_glue_wsc_v102_simple_1_sentinel_eval": 0,
  "super_glue_boolq_v102_1_sentinel": 9_427,
  "super_glue_cb_v102_1_sentinel": 250,
  "super_glue_copa_v102_1_sentinel": 400,
  "super_glue_multirc_v102_1_sentinel": 27_243,
  "super_glue_record_v102_1_sentinel": 138_854,
  "super_glue_rte_v102_1_sentinel": 2_490,
  "super_glue_wic_v102_1_sentinel": 5_428,
  "super_glue_axb_v102_1_sentinel": 0,
  "super_glue_axg_v102_1_sentinel": 0,
}
