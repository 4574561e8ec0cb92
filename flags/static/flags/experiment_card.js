// The card of a rule that an experiment wrote: it is shown, not edited, for nobody but the experiment changes it.
import { make } from "../config/elements.js";

export const isOfExperiment = (rule) => rule?.type === "experiment" && Array.isArray(rule.variants);

export function experimentCard(rule) {
  const total = rule.variants.reduce((sum, { weight }) => sum + (Number(weight) || 0), 0);
  return {
    head: [make("strong", {}, `Experiment ${rule.experiment}`), make("span", { class: "hy-muted" }, " decides for everyone while it runs, and is not edited here")],
    body: [
      ...rule.variants.map(({ key, weight, serves }) => make("div", { class: "hy-row hy-split" },
        make("span", { class: "hy-split-variant" }, key),
        make("span", {}, `serves ${{ true: "on", false: "off" }[serves] ?? serves}`),
        make("span", { class: "hy-muted" }, `to ${(100 * weight / total).toFixed(1).replace(".0", "")} %`))),
      ...audience(rule).map((text) => make("p", { class: "hy-note" }, text)),
    ],
  };
}

/** Whom it takes in, where that is not everybody. */
function audience({ percentage = 100, conditions = [], group, forced = {}, variants }) {
  const testers = Object.keys(forced).length;
  return [
    percentage < 100 && `${percentage} % of the audience are in the experiment.`,
    conditions.length > 0 && `${conditions.length} condition${conditions.length === 1 ? "" : "s"} narrow${conditions.length === 1 ? "s" : ""} the audience.`,
    group && `It has ${group.from} to ${group.to} % of the group ${group.key}.`,
    testers > 0 && `For ${testers} tester${testers === 1 ? "" : "s"} the variant is forced.`,
    (percentage < 100 || conditions.length > 0 || group) && `All others see ${variants[0].key}.`,
  ].filter(Boolean);
}
