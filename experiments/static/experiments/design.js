// The editors of an experiment's variants and metrics.
import { field, listEditor, make, textInput, weightOrText } from "../config/list_editor.js";

listEditor({
  name: "variants",
  noun: "variant",
  empty: "An experiment needs at least two variants.",
  blank: () => ({ key: "", weight: 50 }),
  card: (variant, { save, replace, at }) => {
    if (variant === null || typeof variant !== "object" || Array.isArray(variant)) return { head: [rawInput(variant, replace)], body: [] };
    const key = textInput(variant.key ?? "", { placeholder: "key, such as green", "aria-label": "Key" }, () => {
      variant.key = key.value;
      save();
    });
    const weight = textInput(String(variant.weight ?? ""), { inputmode: "decimal", "aria-label": "Weight" }, () => {
      variant.weight = weightOrText(weight.value);
      save();
    });
    const row = make("div", { class: "hy-row" },
      field(".key", "Key", key),
      make("span", { class: "hy-caption" }, "weight"),
      field(".weight", "Weight", weight, "hy-narrow"),
      make("span", { class: "hy-muted hy-role" }, at === 0 ? "control" : ""));
    return { head: [row], body: [] };
  },
});

const definitions = JSON.parse(document.getElementById("hy-metrics")?.textContent ?? "{}");
const suggestions = make("datalist", { id: "hy-metric-names" },
  ...Object.entries(definitions).map(([key, words]) => make("option", { value: key }, words)));
document.body.append(suggestions);

/** What a name computes: a defined metric, or else the share of users with an event of this name. */
function wordsOf(name) {
  if (!name) return "";
  return Object.hasOwn(definitions, name) ? definitions[name] : `Share of users with the event ${name} (no metric has this name)`;
}

// The metrics that a started experiment has cannot change: for each, whether it is post hoc.
const fixed = JSON.parse(document.getElementById("hy-fixed-metrics")?.textContent ?? "[]");

listEditor({
  name: "metrics",
  noun: "metric",
  empty: "No metrics: the experiment will have no results to compare.",
  blank: () => "",
  isFixed: (_, at) => at < fixed.length,
  card: (metric, { replace, at }) => {
    if (typeof metric !== "string") return { head: [rawInput(metric, replace)], body: [] };
    if (at < fixed.length) {
      return { head: [make("strong", {}, metric), make("span", { class: "hy-muted" }, fixed[at] ? " post hoc" : "")], body: [] };
    }
    const words = make("p", { class: "hy-muted" }, wordsOf(metric));
    const input = textInput(metric, { list: suggestions.id, placeholder: "a metric, or the name of an event", "aria-label": "Metric" }, () => {
      replace(input.value);
      words.textContent = wordsOf(input.value);
    });
    return { head: [field("", "Metric", input), words], body: [] };
  },
});

/** An input for an invalid item, as JSON. */
function rawInput(value, replace) {
  const input = textInput(JSON.stringify(value), { class: "hy-input hy-json", "aria-label": "As JSON" }, () => {
    try {
      replace(JSON.parse(input.value));
      input.classList.remove("hy-wrong");
    } catch {
      input.classList.add("hy-wrong");
    }
  });
  return input;
}
