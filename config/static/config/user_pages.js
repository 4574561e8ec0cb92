// Links from the ids of an application's users that a form lists to the pages of these users.
import { make } from "./elements.js";
import { toLine } from "./lines.js";

const MOST = 20;
const page = document.querySelector("meta[name=hy-user-page]").content;

/** Make a link to the page of a user. It opens beside the form, which may have edits that are not saved. */
export function linkToUser(id, text = id, attributes = {}) {
  return make("a", { class: "hy-user", href: `${page}?id=${encodeURIComponent(id)}`, target: "_blank", ...attributes }, text);
}

/** Make a line of such links. Its `show(ids)` says which. */
export function lineOfUsers() {
  const line = make("p", { class: "hy-users-named hy-muted" });
  const show = (ids) => {
    const named = [...new Set(ids.filter((id) => id.trim()))];
    line.hidden = !named.length;
    const links = named.slice(0, MOST).flatMap((id) => [linkToUser(id, toLine(id)), " "]);
    line.replaceChildren(links.length ? "Pages of these users: " : "", ...links, named.length > MOST ? `and ${(named.length - MOST).toLocaleString("en")} more` : "");
  };
  return { line, show };
}
