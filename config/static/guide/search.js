// The search of the guide. It looks through an index that the service sends once somebody begins to search.
const MOST_RESULTS = 12;
const SNIPPET_LENGTH = 130;

const form = document.querySelector("[data-search]");
const input = form.querySelector("input");
const list = form.querySelector("[role=listbox]");
const status = form.querySelector("[role=status]");
let index = null;
let selected = -1;

form.hidden = false;

async function load() {
  index ??= fetch(form.dataset.search).then((response) => response.json());
  try {
    return await index;
  } catch {
    index = null; // the next key tries again
    return [];
  }
}

/** The sections that hold all words, best first. Titles count for more than text, and beginnings of words for more than middles. */
function rank(sections, query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return sections
    .map((section) => ({ section, score: words.length ? score(section, words) : 0 }))
    .filter((result) => result.score > 0)
    .sort((a, b) => b.score - a.score)
    .slice(0, MOST_RESULTS)
    .map((result) => result.section);
}

function score(section, words) {
  const [title, page, text] = [section.title, section.page, section.text].map((part) => part.toLowerCase());
  let total = title === words.join(" ") ? 50 : 0;
  for (const word of words) {
    const points = 20 * closeness(title, word) + 8 * closeness(page, word) + closeness(text, word);
    if (!points) return 0;
    total += points;
  }
  return total;
}

/** 0 where the word is missing, 3 where a word of the text begins with it, 1 where it is inside of one. */
function closeness(text, word) {
  const at = text.indexOf(word);
  if (at < 0) return 0;
  return at === 0 || text.includes(` ${word}`) || /\W/.test(text[at - 1]) ? 3 : 1;
}

async function show() {
  const query = input.value.trim();
  if (!query) return close();
  const sections = await load();
  if (query !== input.value.trim()) return;
  const results = rank(sections, query);
  list.replaceChildren(...results.map((section, number) => option(section, number, query)));
  if (!results.length) list.append(element("p", `Nothing found for “${query}”.`));
  status.textContent = results.length === 1 ? "1 result" : `${results.length} results`;
  list.hidden = false;
  input.setAttribute("aria-expanded", "true");
  select(results.length ? 0 : -1);
}

function option(section, number, query) {
  const link = element("a");
  Object.assign(link, { href: section.url, id: `found-${number}`, tabIndex: -1 });
  link.setAttribute("role", "option");
  const isPage = section.title === section.page;
  const trail = isPage ? section.chapter : `${section.chapter} › ${section.page}`;
  link.append(marked(element("strong"), section.title, query), element("small", trail));
  link.append(marked(element("span"), snippet(section.text, query), query));
  link.addEventListener("click", close);
  return link;
}

/** The part of a text around the first word that was found in it. */
function snippet(text, query) {
  const places = query.toLowerCase().split(/\s+/).map((word) => text.toLowerCase().indexOf(word)).filter((at) => at >= 0);
  const from = Math.max(0, (places.length ? Math.min(...places) : 0) - 40);
  const part = text.slice(from, from + SNIPPET_LENGTH);
  return (from ? "…" : "") + part + (from + SNIPPET_LENGTH < text.length ? "…" : "");
}

function marked(parent, text, query) {
  const words = query.split(/\s+/).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  for (const [number, part] of text.split(new RegExp(`(${words.join("|")})`, "i" + "g")).entries()) {
    parent.append(number % 2 ? element("mark", part) : part);
  }
  return parent;
}

function element(name, text = "") {
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function select(number) {
  const options = [...list.querySelectorAll("[role=option]")];
  selected = options.length ? (number + options.length) % options.length : -1;
  options.forEach((link, at) => link.setAttribute("aria-selected", String(at === selected)));
  if (selected < 0) return input.removeAttribute("aria-activedescendant");
  input.setAttribute("aria-activedescendant", options[selected].id);
  options[selected].scrollIntoView({ block: "nearest" });
}

function close() {
  list.hidden = true;
  status.textContent = "";
  input.setAttribute("aria-expanded", "false");
  input.removeAttribute("aria-activedescendant");
}

input.addEventListener("input", show);
input.addEventListener("focus", () => { load(); show(); });
input.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown") select(selected + 1);
  else if (event.key === "ArrowUp") select(selected - 1);
  else if (event.key === "Escape") { if (list.hidden) input.blur(); else close(); }
  else return;
  event.preventDefault();
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (!list.hidden) list.querySelector("[aria-selected=true]")?.click();
});
form.addEventListener("focusout", (event) => { if (!form.contains(event.relatedTarget)) close(); });
// A press on a result must not take the focus away, which would close the list before the click.
list.addEventListener("pointerdown", (event) => event.preventDefault());
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest?.("input, textarea, select, [contenteditable]");
  const isAsked = (event.key === "/" && !isTyping) || (event.key === "k" && (event.ctrlKey || event.metaKey));
  if (!isAsked) return;
  event.preventDefault();
  input.focus();
  input.select();
});
