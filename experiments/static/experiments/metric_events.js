// The editors of a metric's conditions and steps, with suggestions: events that were seen lately, and their properties.
// Below an event that was never received, a note says so.
import { addButton, choice, field, iconButton, jsonControl, known, make, textInput } from "../config/elements.js";
import { listEditor } from "../config/list_editor.js";
import { whenRestored } from "../config/restored.js";
import { isCondition } from "../flags/conditions.js";
import { convertValue, OPERATORS, valueFields } from "../flags/condition_values.js";

const page = known("hy-event-page", null);
const eventNames = make("datalist", { id: "hy-seen-events" }, ...known("hy-event-names", []).map((name) => make("option", { value: name })));
document.body.append(eventNames);

const pending = new Map();

/** What the server knows about an event: whether it was ever received, and the properties that it lately had. */
function lookUp(name) {
  if (!pending.has(name)) pending.set(name, request(name));
  return pending.get(name);
}

async function request(name) {
  try {
    const response = await fetch(`${page.address}?${new URLSearchParams({ name })}`);
    if (response.ok) return await response.json();
  } catch {
    // Without an answer there are no suggestions, and no note.
  }
  pending.delete(name);
  return { isReceived: true, properties: [] };
}

let lists = 0;

/**
 * Look up the event that an input names, now and after each edit: fill a datalist with its properties, and say below
 * the input if it was never received. Both are put into `place`. Returns the datalist.
 */
function watchEvent(input, place = input.parentElement) {
  const properties = make("datalist", { id: `hy-properties-${lists++}` });
  const note = make("em", { class: "hy-error", role: "status", hidden: true });
  place.append(properties, note);
  const update = async () => {
    const name = input.value;
    const seen = name ? await lookUp(name) : { isReceived: true, properties: [] };
    if (input.value !== name) return; // edited in the meantime
    properties.replaceChildren(...seen.properties.map((property) => make("option", { value: property.name, label: `${property.name} (${property.kind})` })));
    note.hidden = seen.isReceived;
    note.textContent = seen.isReceived ? "" : `The event ${name} was never received in ${page.environment}. Check the spelling, and that it is tracked.`;
  };
  input.addEventListener("change", update);
  update();
  return properties;
}

function blankCondition() {
  return { property: "", operator: "equals", value: "" };
}

function conditionFields(condition, path, tools, properties) {
  const property = textInput(condition.property ?? "", { list: properties.id, placeholder: "property, such as plan", "aria-label": "Property" }, () => {
    condition.property = property.value;
    tools.save();
  });
  const operator = choice(OPERATORS, condition.operator, { "aria-label": "Operator" }, () => {
    const value = convertValue(operator.value, condition.value);
    condition.operator = operator.value;
    if (value === undefined) delete condition.value;
    else condition.value = value;
    tools.redraw();
  });
  return [
    field(`${path}.property`, "Property", property),
    field(`${path}.operator`, "Operator", operator),
    ...valueFields(condition, path, tools),
  ];
}

function conditionsEditor(name, properties) {
  listEditor({
    name,
    noun: "condition",
    empty: "No conditions: all events of this name count.",
    isOrdered: false,
    blank: blankCondition,
    card: (condition, tools) => {
      if (!isCondition(condition)) return { head: [jsonControl("input", condition, { "aria-label": "Condition as JSON" }, tools.replace)], body: [] };
      return { head: [make("div", { class: "hy-row" }, ...conditionFields(condition, "", tools, properties))], body: [] };
    },
  });
}

function stepConditions(step, tools, event) {
  const conditions = Array.isArray(step.where) ? step.where : [];
  const put = (changed) => {
    if (changed.length) step.where = changed;
    else delete step.where;
    tools.redraw();
  };
  const box = make("div", { class: "hy-editor-cards", "data-path": ".where" });
  const notes = make("div"); // below the button, which would else move under the click that ends an edit
  const properties = watchEvent(event, notes);
  const rows = conditions.map((condition, at) => make("div", { class: "hy-row hy-condition", "data-path": `.where[${at}]` },
    ...(isCondition(condition) ? conditionFields(condition, `.where[${at}]`, tools, properties) : [make("code", {}, JSON.stringify(condition))]),
    iconButton("close", "Remove this condition", () => put(conditions.filter((other) => other !== condition)))));
  box.append(...rows, addButton(conditions.length ? "and another condition" : "Add a condition", () => put([...conditions, blankCondition()])), notes);
  return box;
}

function stepsEditor() {
  listEditor({
    name: "steps",
    noun: "step",
    empty: "No steps yet: add the first event that users must have, then the next one.",
    blank: () => ({ event: "" }),
    card: (step, tools) => {
      if (!isCondition(step)) return { head: [jsonControl("input", step, { "aria-label": "Step as JSON" }, tools.replace)], body: [] };
      const event = textInput(step.event ?? "", { list: eventNames.id, placeholder: "event, such as add_to_cart", "aria-label": "Event" }, () => {
        step.event = event.value;
        tools.save();
      });
      return { head: [field(".event", "Event", event)], body: [stepConditions(step, tools, event)] };
    },
  });
}

if (page) {
  for (const [prefix, editor] of [["", "where"], ["denominator_", "denominatorWhere"]]) {
    const event = document.getElementById(`id_${prefix}event`);
    event.setAttribute("list", eventNames.id);
    const properties = watchEvent(event);
    whenRestored(() => event.dispatchEvent(new Event("change")));
    document.getElementById(`id_${prefix}property`).setAttribute("list", properties.id);
    conditionsEditor(editor, properties);
  }
  stepsEditor();
}
