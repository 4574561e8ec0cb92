// The parts of a rule behind "More", which few rules need: name, comment, schedule, ramp, and how users are hashed.
import { addButton, choice, iconButton, labelled, make, percentOrText, textInput } from "../config/elements.js";
import { inWords, momentInput } from "../config/moments.js";
import { suggestNames } from "./seen_attributes.js";

const unfolded = new WeakSet();

/** Make the folded parts. The line that unfolds them lists those that are set. */
export function moreParts(rule, tools) {
  const set = parts(rule);
  const details = make("details", { class: "hy-more", open: unfolded.has(rule), ontoggle: () => (details.open ? unfolded.add(rule) : unfolded.delete(rule)) },
    make("summary", {}, "More", set.length ? make("span", { class: "hy-muted" }, set.join(" · ")) : null),
    make("div", { class: "hy-more-parts" },
      text(rule, "name", "Name", "such as Beta testers", tools),
      comment(rule, tools),
      inUse(rule, tools),
      moment(rule, "startAt", "Starts", tools),
      moment(rule, "endAt", "Ends", tools),
      ramp(rule, tools),
      ranges(rule, tools),
      text(rule, "bucketBy", "Share by", "an attribute, such as company; by user if empty", tools),
      text(rule, "salt", "Salt", "the flag's key if empty", tools)));
  return details;
}

function parts(rule) {
  return [
    rule.startAt && `from ${inWords(rule.startAt)}`,
    rule.endAt && `until ${inWords(rule.endAt)}`,
    rule.ramp && `${rule.ramp.length} step${rule.ramp.length === 1 ? "" : "s"}`,
    rule.ranges && `${rule.ranges.length} range${rule.ranges.length === 1 ? "" : "s"}`,
    rule.bucketBy && `by ${rule.bucketBy}`,
    rule.salt && "own salt",
  ].filter(Boolean);
}

/** Set a part, or remove it if the text is empty. */
function put(rule, name, value, save) {
  if (value === "" || value === undefined) delete rule[name];
  else rule[name] = value;
  save();
}

function text(rule, name, label, placeholder, { save }) {
  const input = textInput(rule[name] ?? "", { placeholder, "aria-label": label }, () => put(rule, name, input.value, save));
  if (name === "bucketBy") suggestNames(input);
  return labelled(`.${name}`, label, input);
}

function comment(rule, { save }) {
  const area = make("textarea", { class: "hy-input", rows: 2, placeholder: "why the rule is as it is", "aria-label": "Comment", oninput: () => put(rule, "comment", area.value, save) });
  area.value = rule.comment ?? "";
  return labelled(".comment", "Comment", area);
}

function moment(rule, name, label, { save }) {
  const input = momentInput(rule[name], { "aria-label": label }, (value) => put(rule, name, value, save));
  return labelled(`.${name}`, label, input, make("span", { class: "hy-muted" }, "UTC"));
}

function inUse(rule, { redraw }) {
  const select = choice([["true", "on"], ["false", "off: matches no user"]], String(rule.enabled ?? true), { "aria-label": "State" }, () => {
    if (select.value === "true") delete rule.enabled;
    else rule.enabled = false;
    redraw();
  });
  return labelled(".enabled", "State", select);
}

/** Make the ranges of buckets in which users must be, besides the share. */
function ranges(rule, tools) {
  const parts = rule.ranges ?? [];
  const change = (changed) => {
    if (changed.length) rule.ranges = changed;
    else delete rule.ranges;
    tools.redraw();
  };
  const rows = parts.map((part, at) => {
    const input = (name, label, options, read) => {
      const control = textInput(String(part[name] ?? ""), { ...options, "aria-label": `Range ${at + 1} ${label}` }, () => {
        part[name] = read(control.value);
        tools.save();
      });
      return control;
    };
    const salt = input("salt", "salt", { placeholder: "such as the key of a group" }, String);
    const [start, end] = ["from", "to"].map((name) => make("div", { class: "hy-field hy-narrow" }, input(name, name, { inputmode: "decimal" }, percentOrText)));
    return make("div", { class: "hy-row", "data-path": `.ranges[${at}]` }, start, make("span", { class: "hy-muted" }, "to"), end,
      make("span", { class: "hy-muted" }, "% of"), make("div", { class: "hy-field" }, salt),
      iconButton("close", `Remove range ${at + 1}`, () => change(parts.filter((other) => other !== part))));
  });
  const add = addButton(parts.length ? "and another range" : "Only users in a range of buckets", () => change([...parts, { salt: "", from: 0, to: 50 }]));
  return labelled(".ranges", "Ranges", make("div", { class: "hy-editor-cards hy-grow" }, ...rows, add));
}

function ramp(rule, tools) {
  const steps = rule.ramp ?? [];
  const change = (changed) => {
    if (changed.length) rule.ramp = changed;
    else delete rule.ramp;
    tools.redraw();
  };
  const rows = steps.map((step, at) => {
    const when = momentInput(step.at, { "aria-label": `Step ${at + 1} starts` }, (value) => {
      step.at = value;
      tools.save();
    });
    const share = textInput(String(step.percentage ?? ""), { inputmode: "decimal", "aria-label": `Step ${at + 1} percentage` }, () => {
      step.percentage = percentOrText(share.value);
      tools.save();
    });
    return make("div", { class: "hy-row", "data-path": `.ramp[${at}]` }, make("div", { class: "hy-field" }, when),
      make("span", { class: "hy-muted" }, "UTC, from then on"), make("div", { class: "hy-field hy-narrow" }, share), make("span", { class: "hy-muted" }, "%"),
      iconButton("close", `Remove step ${at + 1}`, () => change(steps.filter((other) => other !== step))));
  });
  const add = addButton(steps.length ? "and another step" : "Raise the share step by step", () => change([...steps, { at: "", percentage: 100 }]));
  return labelled(".ramp", "Ramp", make("div", { class: "hy-editor-cards hy-grow" }, ...rows, add));
}
