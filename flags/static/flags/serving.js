// What a rule serves: the default variant, one variant, or a split by weights.
import { choice, labelled, make, textInput, weightOrText } from "../config/elements.js";
import { variantKeys } from "./variant_keys.js";

// Keys of variants begin with a letter or a digit, so none is the same.
const SPLIT = "=split";

/** Make the choice of what a rule serves: a variant or a split, or on or off for a flag without variants. */
export function servesFields(rule, tools) {
  const keys = variantKeys();
  if (rule.serves !== undefined || (!keys.length && rule.variant === undefined && rule.split === undefined)) return [switchField(rule, tools)];
  const options = [["", "the default variant"], ...keys.map((key) => [key, key]), ...(keys.length > 1 ? [[SPLIT, "a split by weights"]] : [])];
  const chosen = rule.split !== undefined ? SPLIT : (rule.variant ?? "");
  const select = choice(rule.split !== undefined && keys.length < 2 ? [...options, [SPLIT, "a split by weights"]] : options, chosen, { "aria-label": "Serves" }, () => {
    delete rule.variant;
    delete rule.split;
    if (select.value === SPLIT) rule.split = keys.map((variant) => ({ variant, weight: 1 }));
    else if (select.value) rule.variant = select.value;
    tools.redraw();
  });
  return [labelled(".variant", "Serves", select), ...(rule.split === undefined ? [] : [splitRows(rule, keys, tools)])];
}

function switchField(rule, { redraw }) {
  const select = choice([["true", "on"], ["false", "off"]], String(rule.serves ?? true), { "aria-label": "Serves" }, () => {
    if (select.value === "true") delete rule.serves;
    else rule.serves = false;
    redraw();
  });
  return labelled(".serves", "Serves", select);
}

/** Make the weights: first the variants of the split in order, then the others, which have no weight. */
function splitRows(rule, keys, { save }) {
  const shares = new Map();
  const showShares = () => {
    const total = rule.split.reduce((sum, { weight }) => sum + (Number(weight) || 0), 0);
    for (const [key, output] of shares) {
      const weight = rule.split.find((part) => part.variant === key)?.weight;
      output.textContent = weight === undefined ? "not served" : total ? `${(100 * weight / total).toFixed(1).replace(".0", "")} %` : "";
    }
  };
  const weigh = (variant, text) => {
    const entry = rule.split.find((part) => part.variant === variant);
    if (!text.trim()) rule.split = rule.split.filter((part) => part !== entry);
    else if (entry) entry.weight = weightOrText(text);
    else rule.split = [...rule.split, { variant, weight: weightOrText(text) }];
    save();
    showShares();
  };
  const row = (variant, weight, at) => {
    const input = textInput(String(weight ?? ""), { inputmode: "decimal", "aria-label": `Weight of ${variant}` }, () => weigh(variant, input.value));
    const share = make("output", { class: "hy-muted" });
    shares.set(variant, share);
    return make("div", { class: "hy-row hy-split", "data-path": at === null ? null : `.split[${at}]` },
      make("span", { class: "hy-split-variant" }, variant), make("div", { class: "hy-field hy-narrow" }, input), share);
  };
  const named = rule.split.map(({ variant }) => variant);
  const rows = make("div", { class: "hy-editor-cards hy-indented", "data-path": ".split" },
    ...rule.split.map(({ variant, weight }, at) => row(variant, weight, at)),
    ...keys.filter((key) => !named.includes(key)).map((key) => row(key, null, null)));
  showShares();
  return rows;
}
