// Adds the reader's local time to every time on the page, unless it is the same. The theme shows a page once its deferred
// scripts have run, which is after this, so nothing moves. Times that come later, as in lists that update, get theirs at once.
(() => {
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
  const DATE = `\\d{1,2} (?:${MONTHS.join("|")}) \\d{4}`;
  const TIME = "\\d\\d:\\d\\d(?::\\d\\d(?:\\.\\d+)?)?";
  const WEEKDAY = `(?:${DAYS.join("|")})`;
  // Such as `25 Nov 2026, 15:03 UTC`, `Friday at 15:03 UTC`, and `50 % from Friday`, which is its first instant.
  const IN_WORDS = new RegExp(`\\b${DATE}, ${TIME} UTC\\b|\\b${WEEKDAY} at ${TIME} UTC\\b|(?<=% from )(?:${DATE}|${WEEKDAY})\\b(?!,? (?:at )?\\d\\d:)`);
  // Where rules are described, a rule that starts at midnight has its date alone: `everyone from 25 Nov 2026`.
  const OF_RULES = "#result_list small, .hy-standings, .hy-differences, .hy-consequences, .hy-rules-in-words";
  const IN_RULES = new RegExp(`${IN_WORDS.source}|(?<=from )${DATE}\\b(?!, \\d\\d:)`);
  const LEFT_ALONE = "time, script, style, textarea, option, code, pre, title, [contenteditable]";
  const MAY_HAVE = / UTC|from /;
  const MOMENT_INPUT = "input[type=datetime-local], input[data-moment]"; // those for text, such as of microseconds, are marked
  const DAY = 24 * 60 * 60 * 1000;
  const format = new Intl.DateTimeFormat("en-GB", {
    year: "numeric", month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
  });
  const zone = format.resolvedOptions().timeZone;

  /** A moment as the reader's clock shows it: `25 Nov 2026`, `16:03`, and the whole with seconds and the zone. */
  function describe(moment) {
    const parts = Object.fromEntries(format.formatToParts(moment).map(({ type, value }) => [type, value]));
    const day = `${Number(parts.day)} ${MONTHS[parts.month - 1]} ${parts.year}`;
    const time = `${parts.hour}:${parts.minute}`;
    const weekday = DAYS[new Date(`${parts.year}-${parts.month.padStart(2, "0")}-${parts.day.padStart(2, "0")}`).getUTCDay()];
    return { day, weekday, time, zone: parts.timeZoneName, whole: `${day}, ${time}:${parts.second} ${parts.timeZoneName} (${zone})` };
  }

  /** What to add to a text that shows a moment; empty if the text has it already. */
  function addition(text, local) {
    const shown = text.match(/\b\d\d:\d\d/)?.[0];
    const localDay = local.day.slice(0, -5);
    const day = text.match(/\b\d{1,2} [A-Z][a-z]{2}\b/)?.[0] ?? localDay;
    if (!shown || (shown === local.time && day === localDay)) return "";
    return `${day === localDay ? "" : `${localDay}, `}${local.time} ${local.zone}`;
  }

  /** What to add to the words of a moment in UTC, which may name the day of the week alone. */
  function additionToWords(words, moment) {
    const [shown, local] = [inUTC(moment), describe(moment)];
    const added = addition(shown, local);
    const isWeekday = new RegExp(`^${WEEKDAY}`).test(words);
    return isWeekday && added ? added.replace(local.day.slice(0, -5), local.weekday) : added;
  }

  /** A moment in words, such as `25 Nov 2026, 15:03:21 UTC`. */
  function inUTC(moment) {
    return `${moment.getUTCDate()} ${MONTHS[moment.getUTCMonth()]} ${moment.getUTCFullYear()}, ${moment.toISOString().slice(11, 19)} UTC`;
  }

  function complete(element) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime()) || element.querySelector(".hy-local")) return;
    const local = describe(moment);
    const words = element.dataset.words ? additionToWords(element.dataset.words, moment) : addition(element.textContent, local);
    const inBoth = `${inUTC(moment)}\n${local.whole}`;
    if (words || !/\d\d:\d\d/.test(element.textContent)) element.title = inBoth;
    if (words) element.append(" ", madeLocal(words));
  }

  function madeLocal(words) {
    const added = document.createElement("span");
    added.className = "hy-local";
    added.textContent = words;
    return added;
  }

  /** The moment in words, of which those without a date name one of the next six days. */
  function momentOf(words) {
    const [hour, minute, second] = (words.match(/\d\d:[\d:]+/)?.[0] ?? "00:00").split(":");
    const [, day, month, year] = words.match(/^(\d+) (\w+) (\d+)/) ?? [];
    if (year) return new Date(Date.UTC(year, MONTHS.indexOf(month), day, hour, minute, second ?? 0));
    const now = new Date();
    const ahead = (DAYS.indexOf(words.match(/^\w+/)[0]) - now.getUTCDay() + DAYS.length) % DAYS.length;
    return new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate() + ahead, hour, minute, second ?? 0));
  }

  /** Make elements of the times in a sentence, such as `since 25 Nov 2026, 15:03 UTC`. */
  function markSentence(node) {
    const parent = node.parentElement;
    const found = parent && node.data.match(parent.closest(OF_RULES) ? IN_RULES : IN_WORDS);
    if (!found) return;
    const moment = momentOf(found[0]);
    if (parent instanceof SVGElement) { // a tooltip has text only
      const words = additionToWords(found[0], moment);
      if (words && !node.data.includes(words)) node.data = node.data.replace(found[0], `${found[0]} (${words})`);
      return;
    }
    if (parent.closest(LEFT_ALONE)) return;
    const time = document.createElement("time");
    time.dateTime = moment.toISOString();
    time.dataset.words = found[0];
    const rest = node.splitText(found.index);
    rest.data = rest.data.slice(found[0].length);
    time.textContent = found[0];
    rest.before(time);
    complete(time);
    markSentence(rest);
  }

  const inputs = new WeakMap(); // with their local times

  /** Show the local time of an input, which is in UTC: after it, after the word UTC, or at the end of a day's label. */
  function accompany(input) {
    const next = input.closest(".hy-field")?.nextElementSibling ?? input.nextElementSibling;
    const shown = inputs.get(input) ?? madeLocal("");
    shown.textContent = input.type === "date" ? boundOf(input) : localOf(input.value);
    shown.hidden = !shown.textContent;
    if (shown.isConnected) return;
    inputs.set(input, shown);
    if (input.type === "date") input.labels[0]?.querySelector("span").append(" ", shown);
    else (next?.textContent.startsWith("UTC") ? next : input).after(shown);
  }

  function localOf(text) {
    const moment = new Date(/(Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text.replace(" ", "T")}Z`);
    return text && !Number.isNaN(moment.getTime()) ? addition(inUTC(moment), describe(moment)) : "";
  }

  /** When a day of UTC begins or ends for the reader: `until 28 Nov, 01:00 GMT+1`. */
  function boundOf({ value, dataset }) {
    const start = new Date(`${value}T00:00Z`);
    if (!value || Number.isNaN(start.getTime())) return "";
    const isEnd = dataset.moment === "to";
    const moment = new Date(start.getTime() + (isEnd ? DAY : 0));
    const local = describe(moment);
    return addition(inUTC(moment), local) && `${isEnd ? "until" : "from"} ${addition(inUTC(start), local)}`;
  }

  function look(node) {
    if (node instanceof Text) {
      markSentence(node);
    } else if (node instanceof Element) {
      if (node.matches("time[datetime]")) complete(node);
      for (const time of node.querySelectorAll("time[datetime]")) complete(time);
      for (const input of node.querySelectorAll(MOMENT_INPUT)) accompany(input);
      const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT, (text) => (MAY_HAVE.test(text.data) ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP));
      const sentences = [];
      while (texts.nextNode()) sentences.push(texts.currentNode);
      sentences.forEach(markSentence);
    }
  }

  document.addEventListener("readystatechange", () => { // first when all is read, and no deferred script has run
    look(document.body);
    const later = new MutationObserver((records) => records.forEach(({ addedNodes }) => addedNodes.forEach(look)));
    later.observe(document.body, { childList: true, subtree: true });
    document.addEventListener("input", ({ target }) => target.matches(MOMENT_INPUT) && accompany(target));
  }, { once: true });
})();
