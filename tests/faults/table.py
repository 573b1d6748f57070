"""The planted faults, each with the tests of which one finds it."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Fault:
  """A change of one place.

  Attributes:
    path: the file, relative to the root of the repository.
    before: a text that occurs once in it.
    after: what stands there instead.
    tests: files or folders, relative to the root, one of which finds it.
  """

  path: str
  before: str
  after: str
  tests: tuple[str, ...]

  @property
  def room(self) -> str:
    """The package of the file; of the library, its room."""
    parts = self.path.split("/")
    return parts[1] if parts[0] == "transformer_zoo" else parts[0]


def _of(folder: str, *faults: tuple[str, ...]) -> list[Fault]:
  return [
    Fault(
      f"{folder}/{path}",
      before,
      after,
      tuple(f"tests/{name}" for name in tests),
    )
    for path, before, after, *tests in faults
  ]


_MODULES = _of(
  "transformer_zoo/modules",
  (
    "stacks/both_ways.py",
    "reversed_B1LM = jnp.flip(array_B1LM, axis=(2, 3))",
    "reversed_B1LM = array_B1LM",
    "architectures/elmo_test.py",
  ),
  (
    "recurrent.py",
    "nn.sigmoid(forget_F + self.forget_bias)",
    "nn.sigmoid(forget_F)",
    "architectures/elmo_test.py",
  ),
  (
    "text_vectors.py",
    "is_of_BTL / jnp.maximum(number_BT1, 1)",
    "is_of_BTL / x_BLD.shape[1]",
    "objectives/embeddings_test.py",
  ),
  (
    "attention/masks.py",
    "positions[:, None] >= positions[None, :]",
    "positions[:, None] > positions[None, :]",
    "modules/attention/masks_test.py",
    "architectures/t5_golden_test.py",
  ),
  (
    "attention/masks.py",
    "prefix_BL[:, None, :, None] & prefix_BL[:, None, None, :]",
    "prefix_BL[:, None, :, None] | prefix_BL[:, None, None, :]",
    "modules/attention/masks_test.py",
    "architectures/properties_test.py",
  ),
  (
    "attention/masks.py",
    "query_ids_BL[:, None, :, None] == key_ids_BM[:, None, None, :]",
    "query_ids_BL[:, None, :, None] >= key_ids_BM[:, None, None, :]",
    "modules/attention/masks_test.py",
    "architectures/encoder_decoder_test.py",
  ),
  (
    "attention/masks.py",
    "jnp.where(kind_B1 == 3, places_1L, 0)",
    "jnp.where(kind_B1 == 2, places_1L, 0)",
    "modules/attention/masks_test.py",
    "modules/attention/fused_test.py",
  ),
  (
    "attention/dot_product.py",
    "scores_gradient_BHLM = jnp.where(mask_B1LM, scores_gradient_BHLM, 0.0)",
    "scores_gradient_BHLM = scores_gradient_BHLM + 0.0",
    "modules/attention/dot_product_test.py",
  ),
  (
    "attention/dot_product.py",
    "weights_BHLM if keep_BH1M is None else weights_BHLM * keep_BH1M",
    "weights_BHLM",
    "modules/attention",
    "architectures/dropout_sites_test.py",
  ),
  (
    "attention/dot_product.py",
    "jnp.repeat(x, shared_by, axis=2)",
    "jnp.tile(x, (1, 1, shared_by, 1))",
    "modules/attention/dot_product_test.py",
    "architectures/families_golden_test.py",
  ),
  (
    "positions/relative_bias.py",
    "offset = jnp.where(distance < 0, num_buckets, 0)",
    "offset = jnp.where(distance <= 0, num_buckets, 0)",
    "modules/positions/relative_bias_test.py",
  ),
  (
    "positions/relative_bias.py",
    "jnp.where(distance < exact, distance, logarithmic)",
    "jnp.where(distance <= exact + 1, distance, logarithmic)",
    "modules/positions/relative_bias_test.py",
  ),
  (
    "positions/relative_bias.py",
    "-slopes_H[None, :, None, None] * distance_1LM[:, None]",
    "slopes_H[None, :, None, None] * distance_1LM[:, None]",
    "modules/positions/relative_bias_test.py",
    "architectures/families_golden_test.py",
  ),
  (
    "positions/relative_table.py",
    "np.minimum(buckets[: last + 1], num_buckets)",
    "np.minimum(buckets[: last + 1], num_buckets - 1)",
    "modules/attention/disentangled_test.py",
    "architectures/encoders_golden_test.py",
  ),
  (
    "positions/relative_vectors.py",
    "jnp.clip(positions.distance_1LM, -limit, limit) + limit",
    "jnp.clip(-positions.distance_1LM, -limit, limit) + limit",
    "modules/positions",
    "architectures/variants_golden_test.py",
  ),
  (
    "positions/absolute.py",
    "embedding.look_up(table_PD, positions_BL + self.offset)",
    "embedding.look_up(table_PD, positions_BL)",
    "modules/positions",
    "architectures/families_golden_test.py",
    "architectures/encoders_golden_test.py",
  ),
  (
    "normalization.py",
    "jnp.mean(jnp.square(x_float32), axis=-1, keepdims=True)",
    "jnp.sum(jnp.square(x_float32), axis=-1, keepdims=True)",
    "modules/normalization_test.py",
  ),
  (
    "normalization.py",
    "jax.lax.rsqrt(variance + self.epsilon)",
    "(1 / (jnp.sqrt(variance) + self.epsilon))",
    "modules/normalization_test.py",
    "architectures/encoders_golden_test.py",
  ),
  (
    "normalization.py",
    "jnp.where(varies, total, 1.0) / (centred.shape[-1] - 1)",
    "jnp.where(varies, total, 1.0) / centred.shape[-1]",
    "modules/normalization_test.py",
  ),
  (
    "dropout.py",
    "jnp.asarray(1 / self.keep_rate, self.dtype)",
    "jnp.asarray(self.keep_rate, self.dtype)",
    "modules/dropout_test.py",
  ),
  (
    "dropout.py",
    "if deterministic or self.rate == 0.0:",
    "if self.rate == 0.0:",
    "modules/dropout_test.py",
    "architectures/properties_test.py",
  ),
  (
    "dropout.py",
    "places // of_row * number + index",
    "places // of_row * number",
    "modules/dropout_test.py",
    "training/microbatches_test.py",
    "training/step_test.py",
  ),
  (
    "embedding.py",
    "x_BLD = jax.lax.stop_gradient(look_up(other_VD, tokens_BL))",
    "x_BLD = look_up(other_VD, tokens_BL)",
    "objectives/disentangled_embeddings_test.py",
    "modules/embedding_test.py",
  ),
  (
    "feed_forward.py",
    "return (gradient * (probability + x * density),)",
    "return (gradient * (probability - x * density),)",
    "modules/feed_forward_test.py",
  ),
  (
    "feed_forward.py",
    "return jax.nn.gelu(x, approximate=False)",
    "return jax.nn.gelu(x, approximate=True)",
    "modules/feed_forward_test.py",
    "architectures/encoders_golden_test.py",
  ),
  (
    "heads.py",
    "x_BLD.shape[-1] ** -0.5, x_BLD.dtype",
    "x_BLD.shape[-1] ** 0.5, x_BLD.dtype",
    "modules/heads_test.py",
    "architectures/t5_golden_test.py",
  ),
  (
    "heads.py",
    "jnp.maximum(jnp.sum(weights_BLM, axis=-1, keepdims=True), 1.0)",
    "jnp.maximum(jnp.sum(weights_BLM, axis=-1, keepdims=True), 2.0)",
    "modules/heads_test.py",
  ),
  (
    "initializers.py",
    "stddev / (2 * num_layers) ** 0.5",
    "stddev / num_layers**0.5",
    "modules/initializers_test.py",
  ),
  (
    "attention/first_values.py",
    "jnp.where(self._is_first, value_BLGK, self.value_BLGK)",
    "value_BLGK",
    "architectures/variants_golden_test.py",
  ),
  (
    "stacks/hyper_connections.py",
    "x.depth_111 + 1",
    "x.depth_111",
    "architectures/several_streams_test.py",
  ),
  (
    "stacks/hyper_connections.py",
    "return mixed[..., 0, :], mixed[..., 1:, :], beta",
    "return mixed[..., 0, :], array_BLXD, beta",
    "architectures/variants_golden_test.py",
  ),
  (
    "connections.py",
    "return x + sum(dropout(sublayer(y)) for sublayer in sublayers.values())",
    "return x + sum(sublayer(y) for sublayer in sublayers.values())",
    "modules/connections_test.py",
    "architectures/dropout_sites_test.py",
  ),
  (
    "sparse/experts.py",
    "balance_B = self.num_experts * jnp.sum(",
    "balance_B = jnp.sum(",
    "architectures/mesh_tensorflow_golden_test.py",
  ),
  (
    "stacks/funnel.py",
    ".sum(2)",
    ".max(2)",
    "architectures/mesh_tensorflow_golden_test.py",
  ),
  (
    "stacks/universal.py",
    "jnp.where(goes_on_BL, chance_BL, rest_BL)",
    "jnp.where(stops_BL, chance_BL, rest_BL)",
    "architectures/mesh_tensorflow_golden_test.py",
  ),
  (
    "mixes.py",
    'if self.kind == "mean":',
    'if self.kind == "sum":',
    "modules/mixes_test.py",
  ),
  (
    "span_beam.py",
    "end_BLS = jnp.where(may_answer_BL[..., None], end_BLS, NEVER)",
    "end_BLS = end_BLS + 0.0",
    "modules/span_beam_test.py",
  ),
  (
    "pipeline.py",
    "number = jnp.clip(time - stage, 0, count - 1)",
    "number = jnp.clip(time, 0, count - 1)",
    "modules/pipeline_test.py",
  ),
  (
    "pipeline.py",
    "return layer(x, params, own, values, place, number), None",
    "return layer(x, params, own, values, place, 0 * number), None",
    "modules/pipeline_test.py",
  ),
  (
    "stack.py",
    "lambda leaf_N: leaf_N[number]",
    "lambda leaf_N: leaf_N[-1]",
    "modules/stack_test.py",
  ),
  (
    "stacks/other_layers.py",
    "range(every - 1, number, every)",
    "range(0, number, every)",
    "modules/sparse/experts_test.py",
  ),
  (
    "by_layer.py",
    "s + more for s in self.sizes]",
    "s + more for s in self.sizes[::-1]]",
    "architectures/transformer_test.py",
  ),
)

_ARCHITECTURES = _of(
  "transformer_zoo/architectures",
  (
    "deberta_transformer.py",
    "jnp.where(number == 0, joined_BLD, y_BLD)",
    "jnp.where(number == 1, joined_BLD, y_BLD)",
    "architectures/transformer_test.py",
  ),
  (
    "ensemble.py",
    "jnp.mean(jnp.stack(logits), axis=0)",
    "jnp.sum(jnp.stack(logits), axis=0)",
    "architectures/ensemble_test.py",
  ),
  (
    "xlnet.py",
    "states_NBMD = jax.lax.stop_gradient(states_NBLD)",
    "states_NBMD = states_NBLD",
    "architectures/xlnet_test.py",
  ),
  (
    "xlnet.py",
    "from_ = max(0, first - memory_length)",
    "from_ = max(0, first - memory_length + 1)",
    "architectures/xlnet_test.py",
  ),
  (
    "generator_discriminator.py",
    "return max(1, round(whole * share))",
    "return max(1, round(whole * share)) + 1",
    "architectures/parameters_test.py",
  ),
)

_OBJECTIVES = _of(
  "transformer_zoo/objectives",
  (
    "encoder.py",
    'is_own_BL = batch["encoder_heads"] == number',
    'is_own_BL = batch["encoder_heads"] >= 0',
    "objectives/multi_task_test.py",
  ),
  (
    "encoder.py",
    "apart = {task: term.replace(scale=0.0) for task, term in found.items()}",
    "apart = found",
    "objectives/multi_task_test.py",
  ),
  (
    "encoder.py",
    "last = -1 if self.offset == 1 else 0",
    "last = -1",
    "architectures/elmo_test.py",
  ),
  (
    "embeddings.py",
    "scores_BC -= jnp.where(own_BC, self.margin, 0.0)",
    "scores_BC += jnp.where(own_BC, self.margin, 0.0)",
    "objectives/embeddings_test.py",
  ),
  (
    "embeddings.py",
    "scores_BC /= self.temperature",
    "scores_BC *= self.temperature",
    "objectives/embeddings_test.py",
  ),
  (
    "embeddings.py",
    "jnp.where(is_there_C[None], scores_BC, _NEVER)",
    "jnp.where(is_there_C[None], scores_BC, scores_BC)",
    "objectives/embeddings_test.py",
  ),
  (
    "embeddings.py",
    """if self.similarity == "cosine":
      vectors_BTE = unit(vectors_BTE)""",
    """if self.similarity == "dot":
      vectors_BTE = unit(vectors_BTE)""",
    "objectives/embeddings_test.py",
  ),
  (
    "embeddings.py",
    "_of_own(scores_BC[:, :rows].T, is_anchor_B)",
    "_of_own(scores_BC[:, :rows], is_anchor_B)",
    "objectives/embeddings_test.py",
  ),
  (
    "embeddings.py",
    "texts.labels_B / self.largest",
    "texts.labels_B * self.largest",
    "objectives/embeddings_test.py",
  ),
  (
    "losses.py",
    "others = logits_BLV.shape[-1] - 1",
    "others = logits_BLV.shape[-1]",
    "objectives/losses_test.py",
    "objectives",
  ),
  (
    "distillation.py",
    "return self.temperature**2 * each_BL",
    "return each_BL",
    "objectives/distillation_test.py",
  ),
  (
    "terms.py",
    "return jnp.maximum(self.weight, 1.0)",
    "return self.weight",
    "objectives",
    "training/step_test.py",
  ),
  (
    "terms.py",
    "return sum(_times(t.total, t.scale) / t.divisor for t in terms.values())",
    "return sum(t.total / t.divisor for t in terms.values())",
    "objectives",
    "training/step_test.py",
  ),
  (
    "sequence_to_sequence.py",
    '"correct_sum": jnp.sum(found.correct_BL * weights_BL, axis=-1)',
    '"correct_sum": jnp.sum(found.correct_BL, axis=-1)',
    "objectives/sequence_to_sequence_test.py",
  ),
  (
    "encoder.py",
    "return term.replace(total=term.total + smoothing)",
    "return term.replace(total=term.total - smoothing)",
    "objectives/losses_test.py",
    "objectives/chunked_losses_test.py",
    "objectives/unified_test.py",
    "architectures/encoder_only_test.py",
  ),
  (
    "encoder.py",
    "offsets_BP = places_BP - left_BP - 1",
    "offsets_BP = places_BP - left_BP",
    "objectives/span_boundary_test.py",
    "architectures/encoders_golden_test.py",
  ),
  (
    "replaced_tokens.py",
    "logits_BPV = jax.lax.stop_gradient(logits_BPV)",
    "logits_BPV = logits_BPV * 0.5",
    "objectives/replaced_tokens_test.py",
  ),
  (
    "replaced_tokens.py",
    "factor = term.scale / term.divisor",
    "factor = term.scale",
    "objectives/replaced_tokens_test.py",
    "objectives/disentangled_embeddings_test.py",
  ),
  (
    "few_shot.py",
    "scores_BC = -jnp.sum(nll_BCL, -1) / np.sum(is_token_1CL, -1)",
    "scores_BC = -jnp.sum(nll_BCL, -1)",
    "objectives/few_shot_test.py",
  ),
  (
    "unified.py",
    "order_BL = jnp.where(target_BL, order_BL, 2.0)",
    "order_BL = jnp.where(target_BL, order_BL, 0.5)",
    "objectives/unified_test.py",
  ),
  (
    "unified.py",
    "jnp.where(kind_BL < self.masked + self.random, others_BL, tokens_BL)",
    "jnp.where(kind_BL < self.masked, others_BL, tokens_BL)",
    "objectives/unified_test.py",
  ),
  (
    "unified.py",
    "jnp.where(others_BL == model.pad_id, model.mask_id, others_BL)",
    "jnp.where(others_BL == model.mask_id, model.pad_id, others_BL)",
    "objectives/unified_test.py",
  ),
  (
    "embeddings.py",
    "if head is not None:",
    "if head is None:",
    "objectives/embeddings_test.py",
  ),
)

_PEFT = _of(
  "transformer_zoo/peft",
  (
    "lora.py",
    "return alpha / rank**0.5",
    "return alpha / rank",
    "peft",
  ),
  (
    "lora.py",
    "factor_F = scale_F * jax.lax.stop_gradient(",
    "factor_F = scale_F * (",
    "peft",
  ),
  (
    "lora.py",
    "return y + (factor - 1) * linear + factor * update",
    "return y + (factor - 1) * linear + update",
    "peft/parts_test.py",
  ),
  (
    "rounded.py",
    "return rounding.restored(numbers, scales, jnp).astype(dtype)",
    "return rounding.restored(numbers, scales[:1], jnp).astype(dtype)",
    "peft/rounded_test.py",
  ),
  (
    "ia3.py",
    "return super().__call__(x * as_row(scale_F, x), features)",
    "return super().__call__(x, features) * scale_F.mean()",
    "peft/parts_test.py",
  ),
  (
    "prefixes.py",
    "mask_B1LM = jnp.pad(mask_B1LM, before, constant_values=True)",
    "mask_B1LM = jnp.pad(mask_B1LM, before, constant_values=False)",
    "peft/parts_test.py",
  ),
  (
    "adapters.py",
    "width / (hidden + 0.5 * (width % hidden > 0))",
    "width / hidden",
    "conversion/adapters_directories_test.py",
  ),
  (
    "exchange.py",
    'found.setdefault(f"{place}/{name}", value)',
    'found[f"{place}/{name}"] = value',
    "conversion/peft_directories_test.py",
  ),
  (
    "adapters.py",
    "return y_BLD + self.scale * adapted_BLD",
    "return y_BLD + adapted_BLD",
    "peft",
  ),
  (
    "trainable.py",
    "return episode * self.train_steps // episodes",
    "return (episode + 1) * self.train_steps // episodes",
    "peft/trainable_test.py",
  ),
  (
    "trainable.py",
    "flat[key].size // len(names) * sum(map(self.trains, names))",
    "flat[key].size * sum(map(self.trains, names))",
    "peft/trainable_test.py",
  ),
)

_CORRUPTION = _of(
  "transformer_zoo/corruption",
  (
    "masks/noise_masks.py",
    "spans = max(1, round(noise / self.mean_noise_span_length))",
    "spans = max(1, int(noise / self.mean_noise_span_length))",
    "corruption/masks",
  ),
  (
    "masks/noise_masks.py",
    "other_ends = _segment_ends(draws, length - num_noise, num_spans)",
    "other_ends = _segment_ends(draws, length - num_noise + 1, num_spans)",
    "corruption/masks",
    "corruption/denoising_test.py",
  ),
  (
    "masks/fixed_number.py",
    "noise = np.maximum(noise, 1).astype(np.int64)",
    "noise = np.maximum(noise, 0).astype(np.int64)",
    "corruption/masked_lm_test.py",
  ),
  (
    "masks/word_spans.py",
    "rounding = np.ceil if self.cut_last else np.rint",
    "rounding = np.rint if self.cut_last else np.ceil",
    "corruption/masks",
  ),
  (
    "rewrites/infilling.py",
    "budget = np.ceil(np.round(words * self.noise_density, 6))",
    "budget = np.floor(np.round(words * self.noise_density, 6))",
    "corruption/rewrites",
  ),
  (
    "sentences/documents.py",
    'np.searchsorted(self.ends, places, side="right")',
    'np.searchsorted(self.ends, places, side="left")',
    "corruption/sentences",
    "data/loader/sentence_source_test.py",
  ),
  (
    "sentences/segment_pairs.py",
    "second_left = np.minimum(second, np.maximum(most // 2, most - first))",
    "second_left = np.minimum(second, most // 2)",
    "corruption/sentences",
  ),
  (
    "sentences/sentence_pairs.py",
    "return length - 2 - self.separators",
    "return length - 1 - self.separators",
    "corruption/sentences",
  ),
  (
    "sentences/unified_pairs.py",
    "chances = np.where(both_ways, self.random_probability, 0.0)",
    "chances = np.where(both_ways, 0.0, self.random_probability)",
    "corruption/sentences",
  ),
  (
    "unified_lm.py",
    "cut_B1 = 1 + draws.integers(tokens.shape[1] - 1, 1)",
    "cut_B1 = draws.integers(tokens.shape[1] - 1, 1)",
    "corruption/unified_lm_test.py",
  ),
  (
    "unified_lm.py",
    "TOKEN_TYPES = np.array([(0, 1), (4, 5), (2, 2), (3, 3)], np.int32)",
    "TOKEN_TYPES = np.array([(0, 1), (5, 4), (2, 2), (3, 3)], np.int32)",
    "corruption/unified_lm_test.py",
    "corruption/sentences",
  ),
  (
    "permutation.py",
    "weights=tuple(1 / n for n in range(1, 6)),",
    "weights=tuple(1 / n for n in range(2, 7)),",
    "corruption/objectives_test.py",
    "architectures/xlnet_test.py",
  ),
  (
    "mixture_of_denoisers.py",
    "chances = np.cumsum(shares)[:-1] / shares.sum()",
    "chances = np.cumsum(shares)[1:] / shares.sum()",
    "corruption/mixture_of_denoisers_test.py",
  ),
  (
    "masked_lm.py",
    "return self.replacement(tokens, hidden, draws, vocabulary), hidden",
    "return self.replacement(tokens, ~hidden, draws, vocabulary), hidden",
    "corruption/masked_lm_test.py",
  ),
  (
    "masks/tagged_spans.py",
    "if end - begin <= left and",
    "if end - begin < left and",
    "corruption/masks/tagged_spans_test.py",
  ),
)

_DATA = _of(
  "transformer_zoo/data",
  (
    "mixing.py",
    "rate **= 1 / self.temperature",
    "rate **= self.temperature",
    "data/mixing_test.py",
  ),
  (
    "mixing.py",
    "return self.maximum / self.templates",
    "return self.maximum",
    "data/mixing_test.py",
    "mixtures",
  ),
  (
    "features/converters.py",
    "np.arange(sizes.sum()) - np.repeat(starts, sizes)",
    "np.arange(sizes.sum())",
    "data/features/features_test.py",
  ),
  (
    "features/converters.py",
    "np.arange(len(rows)) - first_of_row + 1, sizes",
    "np.arange(len(rows)) - first_of_row, sizes",
    "data/features/features_test.py",
  ),
  (
    "features/forms.py",
    "second_left = min(second, max(room // 2, room - first))",
    "second_left = min(second, room // 2)",
    "data/features/forms_test.py",
  ),
  (
    "features/prompts.py",
    'batch["decoder_loss_weights"] = np.where(is_prompt, 0, weights)',
    'batch["decoder_loss_weights"] = np.where(is_prompt, 1, weights)',
    "data/features",
    "peft",
  ),
  (
    "trimming.py",
    "return np.concatenate([ids[: length - last], ids[len(ids) - last :]])",
    "return np.concatenate([ids[: length - last], ids[len(ids) - last - 1 :]])",
    "data/trimming_test.py",
  ),
  (
    "loader/order.py",
    "(np.arange(n) + u) / n",
    "(np.arange(n) + u) / (n + 1)",
    "data/loader/order_test.py",
    "data/loader/order_test.py",
  ),
  (
    "loader/mixture_reader.py",
    "keys = (tasks.astype(np.int64) << _TASK_SHIFT) + indices * copies",
    "keys = (tasks.astype(np.int64) << _TASK_SHIFT) + indices",
    "data/loader/loader_options_test.py",
  ),
  (
    "loader/stages.py",
    "stage.first_row + (step - stage.first_step) * stage.batch_size",
    "stage.first_row + step * stage.batch_size",
    "data/loader",
  ),
  (
    "loader/concatenated_source.py",
    "ends = starts + length",
    "ends = starts + length - 1",
    "data/loader/concatenated_source_test.py",
  ),
  (
    "loader/form_source.py",
    "return int(self._ends[min(examples, len(self._ends)) - 1])",
    "return int(self._ends[min(examples, len(self._ends) - 1) - 1])",
    "data/loader",
  ),
  (
    "storage/integrity.py",
    "start = block * BLOCK_BYTES",
    "start = (block + 1) * BLOCK_BYTES",
    "data/storage",
  ),
)

_TRAINING = _of(
  "transformer_zoo/training",
  (
    "step.py",
    "jnp.moveaxis(parts, 0, 1).reshape(-1, *parts.shape[2:])",
    "parts.reshape(-1, *parts.shape[2:])",
    "objectives/embeddings_test.py",
  ),
  (
    "step.py",
    "return TrainState(state.step + 1, params, opt_state), sums",
    "return TrainState(state.step, params, opt_state), sums",
    "training/step_test.py",
  ),
  (
    "step.py",
    "return sum(terms[name].total * ratios[name] for name in terms), terms",
    "return sum(terms[name].total for name in terms), terms",
    "training/microbatches_test.py",
    "training/step_test.py",
    "architectures/encoder_only_test.py",
  ),
  (
    "optimizers/adafactor.py",
    "beta = 1.0 - count.astype(jnp.float32) ** -decay_exponent",
    "beta = 1.0 - state.count.astype(jnp.float32) ** -decay_exponent",
    "training/optimizers",
  ),
  (
    "optimizers/adafactor.py",
    "jnp.sqrt(jnp.mean(jnp.square(x), axis=own_axes, keepdims=True))",
    "jnp.sqrt(jnp.mean(jnp.square(x), keepdims=True))",
    "training/optimizers",
  ),
  (
    "optimizers/adam.py",
    "first / (jnp.sqrt(second) + epsilon)",
    "first / jnp.sqrt(second + epsilon)",
    "training/optimizers",
  ),
  (
    "optimizers/lamb.py",
    "jnp.where((wanted > 0) & (length > 0), wanted / length, 1.0)",
    "jnp.where((wanted > 0) & (length > 0), wanted / length, 0.0)",
    "training/optimizers",
  ),
  (
    "optimizers/layer_wise.py",
    "return decay ** (layers + 1 - int(match[1]))",
    "return decay ** (layers - int(match[1]))",
    "training/optimizers/layer_wise_test.py",
  ),
  (
    "optimizers/schedules.py",
    "rate = base * jax.lax.rsqrt(jnp.maximum(step, warmup_steps) * 1.0)",
    "rate = base * jax.lax.rsqrt(jnp.maximum(step + 1, warmup_steps) * 1.0)",
    "training/optimizers/schedules_test.py",
  ),
  (
    "optimizers/schedules.py",
    "return schedule(start) * left",
    "return schedule(step) * left",
    "training/optimizers/schedules_test.py",
  ),
  (
    "optimizers/rounded_state.py",
    "bits = jnp.where(jnp.isfinite(x), bits + lower, bits)",
    "bits = jnp.where(jnp.isfinite(x), bits, bits)",
    "training/optimizers/rounded_state_test.py",
  ),
  (
    "monitoring/norms.py",
    "squares = jnp.square(leaf.astype(jnp.float32))",
    "squares = jnp.abs(leaf.astype(jnp.float32))",
    "training/monitoring/norms_test.py",
  ),
  (
    "sharding/placement.py",
    "_fill(block[layer - box[0][0], ...], box[1:], array)",
    "_fill(block[layer, ...], box[1:], array)",
    "training/sharding",
    "training/checkpoints",
  ),
  (
    "sharding/meshes.py",
    "num_slices=max(1, len(slices) // num_stages),",
    "num_slices=len(slices),",
    "training/sharding",
  ),
  (
    "checkpoints/checksums.py",
    "return verify_share(folder, 0, 1)",
    "return verify_share(folder, 0, 2)",
    "training/checkpoints/checkpoint_faults_test.py",
  ),
)

_DECODING = _of(
  "transformer_zoo/decoding",
  (
    "beams.py",
    "made = beams.position + 1",
    "made = beams.position",
    "decoding/beams_test.py",
  ),
  (
    "beams.py",
    "sums_BC = jnp.where(ends_BC, -jnp.inf, candidates.sums)",
    "sums_BC = candidates.sums",
    "decoding/beams_test.py",
  ),
  (
    "constraints.py",
    "early = position + 1 < options.min_length",
    "early = position < options.min_length",
    "decoding/constraints_test.py",
  ),
  (
    "constraints.py",
    "self._of_its_own(position - len(common)),",
    "self._of_its_own(position),",
    "decoding/constraints_test.py",
    "decoding",
  ),
  (
    "sampling.py",
    "logits_BWV = logits_BWV / options.temperature",
    "logits_BWV = logits_BWV * options.temperature",
    "decoding/sampling_test.py",
  ),
  (
    "sampling.py",
    "logits_BWV >= largest_BW1 + jnp.log(p)",
    "logits_BWV >= largest_BW1 * p",
    "decoding/sampling_test.py",
  ),
  (
    "search.py",
    "token_BW = jnp.where(ended_BW, pad_id, token_BW)",
    "token_BW = jnp.where(ended_BW, token_BW, token_BW)",
    "decoding/search_test.py",
  ),
)

_EVALUATION = _of(
  "transformer_zoo/evaluation",
  (
    "probes/suites.py",
    "_joined(texts[:place]), texts[place].strip()",
    "_joined(texts[: place + 1]), texts[place].strip()",
    "evaluation/probes/suites_test.py",
  ),
  (
    "metrics/classification.py",
    "predictions = np.where(valid, predictions, 1 - targets)",
    "predictions = np.where(valid, predictions, targets)",
    "evaluation/metrics",
  ),
  (
    "metrics/question_answering.py",
    "precision = num_same / len(predicted_words)",
    "precision = num_same / (len(predicted_words) + 1)",
    "evaluation/metrics",
  ),
  (
    "metrics/question_answering.py",
    "max(_token_f1(answer, predicted) for answer in accepted))\n    else",
    "min(_token_f1(answer, predicted) for answer in accepted))\n    else",
    "evaluation/metrics",
  ),
  (
    "metrics/perplexity.py",
    "nats / max(number, 1), MOST_NATS",
    "nats / max(number + 1, 1), MOST_NATS",
    "evaluation/metrics",
  ),
  (
    "averages.py",
    "return sum(means) / len(means)",
    "return sum(means) / max(len(means) - 1, 1)",
    "evaluation/averages_test.py",
  ),
  (
    "averages.py",
    "average_of_groups(scores, GLUE_GROUPS)",
    "average_of_groups(scores, SUPER_GLUE_GROUPS)",
    "evaluation/averages_test.py",
  ),
  (
    "evaluator.py",
    "loss=(0.0 - math.fsum(log_likelihoods)) / weight,",
    "loss=(0.0 - math.fsum(log_likelihoods)) / len(rows),",
    "evaluation/evaluator_test.py",
  ),
  (
    "scorers/spans.py",
    "(log_probs[ends[0], 0] + log_probs[ends[1], 1]) / 2",
    "(log_probs[ends[0], 0] + log_probs[ends[0], 1]) / 2",
    "evaluation/scorers",
    "runs/answers",
  ),
  (
    "submission.py",
    "min(max(float(prediction), 0.0), 5.0)",
    "min(max(float(prediction), 1.0), 5.0)",
    "evaluation/submission_test.py",
  ),
  (
    "answers/tagged_text.py",
    "found.append((kind, first_of[run[0]], last_of[run[-1]] + 1))",
    "found.append((kind, first_of[run[0]], last_of[run[-1]]))",
    "evaluation/answers",
  ),
  (
    "scorers/spans.py",
    "if inside and end - start < LONGEST:",
    "if inside and end - start <= LONGEST:",
    "modules/span_beam_test.py",
  ),
  (
    "scorers/spans.py",
    "np.flatnonzero(starts == first)",
    "np.flatnonzero(starts != first)",
    "modules/span_beam_test.py",
  ),
  (
    "scorers/spans.py",
    "is_right = ends == [",
    "is_right = ends != [",
    "evaluation/scorers/spans_test.py",
  ),
  (
    "answers/invalid_answers.py",
    'prediction["value"] not in (0, 1)',
    'prediction["value"] in (0, 1)',
    "evaluation/answers/invalid_answers_test.py",
  ),
)

_INTEROP = _of(
  "transformer_zoo/interop",
  (
    "huggingface/attributes.py",
    "for spelling in (row.theirs, *row.spellings)",
    "for spelling in (row.name, row.theirs, *row.spellings)",
    "interop/huggingface/families_test.py",
  ),
  (
    "huggingface/parts.py",
    '"DROPOUT_RATE": "layer.dropout.rate",',
    '"DROPOUT_RATE": "attention.dropout.rate",',
    "interop/huggingface/attributes_test.py",
  ),
  (
    "huggingface/families/deberta.py",
    "return (theirs.T.reshape(-1, theirs.shape[0]),)",
    "return (theirs.reshape(-1, theirs.shape[0]),)",
    "interop/huggingface",
  ),
  (
    "huggingface/families/bert.py",
    'offset = found["pad_token_id"] + 1 if after_padding else 0',
    'offset = found["pad_token_id"] if after_padding else 0',
    "interop/huggingface",
    "conversion",
  ),
  (
    "huggingface/families/xlnet.py",
    "matrix = ours[0].T if self.outwards else ours[0]",
    "matrix = ours[0]",
    "interop/huggingface",
    "conversion",
  ),
)

_TENSORS = _of(
  "transformer_zoo/tensors",
  (
    "links.py",
    "return [part.T for part in parts] if self.transposed else parts",
    "return parts",
    "tensors",
    "interop/huggingface",
  ),
  (
    "safetensors.py",
    "rows = max(1, _PART_BYTES * shape[0] // tensor.num_bytes)",
    "rows = max(0, _PART_BYTES * shape[0] // tensor.num_bytes) or shape[0] - 1",
    "tensors",
  ),
  (
    "safetensors.py",
    "first : min(first + rows, num_rows)",
    "first : first + 1",
    "tensors",
    "conversion",
  ),
)

_EDITING = _of(
  "transformer_zoo/editing",
  (
    "rome.py",
    "count += int(mask_BL.sum())",
    "count += mask_BL.size",
    "editing/rome_test.py",
  ),
  (
    "memit.py",
    "share_BD = (wanted_BD - now_BD) / (len(settings.layers) - number)",
    "share_BD = (wanted_BD - now_BD) / len(settings.layers)",
    "editing/memit_test.py",
  ),
  (
    "mend.py",
    "found[path] = z_TZ[:, : shape[0]], -rate * z_TZ[:, shape[0] :]",
    "found[path] = z_TZ[:, : shape[0]], rate * z_TZ[:, shape[0] :]",
    "editing/mend_test.py",
  ),
  (
    "scores.py",
    "3 / sum(1 / v for v in three) if positive else 0.0",
    "sum(three) / 3 if positive else 0.0",
    "runs/analysis",
    "editing",
  ),
)

_STUDIES = _of(
  "transformer_zoo/studies",
  (
    "statistics/inference.py",
    "parts = parts / num_seeds",
    "parts = parts / max(num_seeds - 1, 1)",
    "studies/statistics",
  ),
  (
    "statistics/inference.py",
    "scipy.stats.t.ppf((1 + LEVEL) / 2, degrees)",
    "scipy.stats.t.ppf(LEVEL, degrees)",
    "studies/statistics",
  ),
  (
    "statistics/ranking.py",
    "error = cell.deviation / math.sqrt(len(cell.values))",
    "error = cell.deviation",
    "studies/statistics",
  ),
  (
    "statistics/resampled_metrics.py",
    "predictions_N = np.where(valid_N, predictions_N, 1 - targets_N)",
    "predictions_N = np.where(valid_N, predictions_N, targets_N)",
    "studies/statistics",
  ),
  (
    "statistics/findings.py",
    "return self.ours * self.published > 0",
    "return self.ours * self.published >= 0",
    "studies/statistics",
  ),
  (
    "execution/choices.py",
    "sign = -1 if any(column.is_loss for column in columns) else 1",
    "sign = 1",
    "studies/execution",
  ),
  (
    "report/charts.py",
    "base.mean - 2 * base.deviation,",
    "base.mean - base.deviation,",
    "studies/report",
  ),
  (
    "report/site.py",
    "if old.version < new.version:",
    "if old.version <= new.version:",
    "studies/report",
  ),
  (
    "report/site.py",
    "<= max(1, _VERDICTS.index(before)):",
    "<= _VERDICTS.index(before):",
    "studies/report",
  ),
  (
    "statistics/comparison.py",
    "inference.examples_variance(row_BS - baseline_BS)",
    "inference.examples_variance(row_BS + baseline_BS)",
    "studies/statistics",
  ),
  (
    "statistics/scores.py",
    "if per_task is not None:",
    "if per_task is None:",
    "studies/statistics",
  ),
  (
    "report/summary.py",
    "(row, column) not in in_print",
    "(row, column) in in_print",
    "studies/statistics",
  ),
)

_FORECAST = _of(
  "transformer_zoo/forecast",
  (
    "cost.py",
    'return bodies[0] * params["length"]',
    "return bodies[0]",
    "forecast/cost_test.py",
  ),
  (
    "roofline.py",
    '"compute": cost.matmul_flops / peak,',
    '"compute": cost.flops / peak,',
    "forecast/roofline_test.py",
  ),
  (
    "collectives.py",
    "return max(0, -(-(end - start) // step))",
    "return max(0, (end - start) // step)",
    "forecast",
  ),
)

_AROUND = (
  _of(
    "transformer_zoo/processes",
    (
      "clusters.py",
      '("MEGASCALE_SLICE_ID") or 0) * len(hosts) + worker',
      '("MEGASCALE_SLICE_ID") or 0) + worker',
      "processes/clusters_test.py",
    ),
    (
      "clusters.py",
      "first = int(environment[name]) * each",
      "first = int(environment[name])",
      "processes/clusters_test.py",
    ),
  )
  + _of(
    "transformer_zoo/curves",
    (
      "runs.py",
      'self._torn = (self._torn + content).split(b"\\n")',
      'self._torn = content.split(b"\\n")',
      "curves",
    ),
  )
  + _of(
    "transformer_zoo/cleaning",
    (
      "rules.py",
      "return len(line.split()) >= least",
      "return len(line.split()) > least",
      "cleaning",
    ),
    (
      "duplicates.py",
      "near = range(claim.start - length + 1, claim.start + length)",
      "near = range(claim.start - length + 1, claim.start + 1)",
      "cleaning",
    ),
    (
      "addresses.py",
      'name.lower().removeprefix("www.")',
      'name.removeprefix("www.")',
      "cleaning",
    ),
  )
  + _of(
    "transformer_zoo/config",
    (
      "text.py",
      "return affected.get(thing, weakest)",
      "return weakest",
      "config_test.py",
      "runs",
    ),
  )
  + _of(
    "mixtures",
    (
      "co_training.py",
      'seqio.MixtureRegistry.add("all_equal", _ALL, default_rate=Equal())',
      'seqio.MixtureRegistry.add("all_equal", _ALL,'
      " default_rate=ExamplesProportional())",
      "mixtures",
    ),
  )
  + _of(
    "transformer_zoo/runs",
    (
      "exported_programs.py",
      "is_text_BT & (places_1T <= prefix_B1)",
      "is_text_BT & (places_1T < prefix_B1)",
      "runs/exported_programs_test.py",
    ),
    (
      "exported_programs.py",
      '"log_likelihood": -found["loss_sum"]',
      '"log_likelihood": found["loss_sum"]',
      "runs/exported_programs_test.py",
    ),
    (
      "step_counts.py",
      "math.ceil(epochs * math.ceil(examples / batch_size))",
      "math.ceil(epochs * (examples // batch_size))",
      "runs/step_counts_test.py",
    ),
    (
      "seeds.py",
      "return not self.last_score > self.constant_score",
      "return not self.last_score >= self.constant_score",
      "runs/seeds_test.py",
    ),
    (
      "seeds.py",
      "json.loads(counts.most_common(1)[0][0])",
      "json.loads(counts.most_common()[-1][0])",
      "runs/seeds_test.py",
    ),
    (
      "past_batch.py",
      '" [SEP] ".join(filter(None, texts))',
      '" ".join(filter(None, texts))',
      "runs/watching_test.py",
      "runs/encoder_runs_test.py",
    ),
    (
      "analysis/attention_maps.py",
      'keys = tokens["encoder"] if crosses else queries',
      "keys = queries",
      "runs/analysis/attention_maps_test.py",
    ),
  )
  + _of(
    "transformer_zoo/cli",
    (
      "common.py",
      "if not name or not number.isdigit():",
      "if not name:",
      "cli",
    ),
    (
      "console.py",
      "if not reason_not_to_ask() and sys.executable:",
      "if reason_not_to_ask() and sys.executable:",
      "cli/console_test.py",
    ),
  )
  + _of(
    "tasks",
    (
      "formats/winograd.py",
      "num_before = _num_repeated(before[::-1], hypothesis[::-1])",
      "num_before = _num_repeated(before, hypothesis)",
      "tasks/formats/winograd_test.py",
      "tasks/benchmarks/super_glue_test.py",
      "tasks/benchmarks/glue_test.py",
    ),
    (
      "formats/tagging.py",
      "(begins | ~inside)[1:]",
      "(~inside)[1:]",
      "tasks/benchmarks/conll2003_test.py",
      "tasks/miniature_taggers_test.py",
    ),
    (
      "formats/numbers.py",
      "decimal.ROUND_HALF_EVEN",
      "decimal.ROUND_HALF_UP",
      "tasks/formats/numbers_test.py",
      "tasks/benchmarks/glue_test.py",
    ),
    (
      "benchmarks/squad.py",
      "functools.partial(post_processors.span_qa, gaps_count=True)",
      "post_processors.span_qa",
      "tasks/benchmarks/squad_test.py",
      "evaluation",
    ),
  )
  + _of(
    "gin_configs",
    (
      "runs/gpt_1_pretrain.gin",
      "2.5e-4",
      "2.5e-3",
      "recipes_test.py",
    ),
    (
      "runs/t0.gin",
      "LEARNING_RATE = 1e-3",
      "LEARNING_RATE = 1e-2",
      "recipes_test.py",
    ),
  )
)

FAULTS = (
  _MODULES
  + _ARCHITECTURES
  + _OBJECTIVES
  + _PEFT
  + _CORRUPTION
  + _DATA
  + _TRAINING
  + _DECODING
  + _EVALUATION
  + _INTEROP
  + _TENSORS
  + _EDITING
  + _STUDIES
  + _FORECAST
  + _AROUND
)
