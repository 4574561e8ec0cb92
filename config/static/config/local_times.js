// Adds the reader's local time to every time on the page, unless it is the same. The theme shows a page once its deferred
// scripts have run, which is after this, so nothing moves. Times that come later, as in lists that update, get theirs at once.
(() => {
  const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  const IN_WORDS = new RegExp(`\\b(\\d{1,2}) (${MONTHS.join("|")}) (\\d{4}), (\\d\\d):(\\d\\d)(?::(\\d\\d)(?:\\.\\d+)?)? UTC\\b`);
  const LEFT_ALONE = "time, script, style, textarea, option, code, pre, title, [contenteditable]";
  const format = new Intl.DateTimeFormat("en-GB", {
    year: "numeric", month: "numeric", day: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23", timeZoneName: "short",
  });
  const zone = format.resolvedOptions().timeZone;

  /** A moment as the reader's clock shows it: `25 Nov 2026`, `16:03`, and the whole with seconds and the zone. */
  function describe(moment) {
    const parts = Object.fromEntries(format.formatToParts(moment).map(({ type, value }) => [type, value]));
    const day = `${Number(parts.day)} ${MONTHS[parts.month - 1]} ${parts.year}`;
    const time = `${parts.hour}:${parts.minute}`;
    return { day, time, zone: parts.timeZoneName, whole: `${day}, ${time}:${parts.second} ${parts.timeZoneName} (${zone})` };
  }

  /** What to add to a text that shows a moment; empty if the text has it already. */
  function addition(text, local) {
    const shown = text.match(/\b\d\d:\d\d/)?.[0];
    const localDay = local.day.slice(0, -5);
    const day = text.match(/\b\d{1,2} [A-Z][a-z]{2}\b/)?.[0] ?? localDay;
    if (!shown || (shown === local.time && day === localDay)) return "";
    return `${day === localDay ? "" : `${localDay}, `}${local.time} ${local.zone}`;
  }

  function complete(element) {
    const moment = new Date(element.dateTime);
    if (Number.isNaN(moment.getTime()) || element.querySelector(".hy-local")) return;
    const local = describe(moment);
    const words = addition(element.textContent, local);
    if (!words && /\d\d:\d\d/.test(element.textContent)) return;
    element.title = `${element.title || element.textContent.trim()}\n${local.whole}`;
    if (!words) return;
    const added = document.createElement("span");
    added.className = "hy-local";
    added.textContent = words;
    element.append(" ", added);
  }

  function momentOf([, day, month, year, hour, minute, second]) {
    return new Date(Date.UTC(year, MONTHS.indexOf(month), day, hour, minute, second ?? 0));
  }

  /** Make elements of the times in a sentence, such as `since 25 Nov 2026, 15:03 UTC`. */
  function markSentence(node) {
    const found = node.data.match(IN_WORDS);
    const parent = node.parentElement;
    if (!found || !parent) return;
    const moment = momentOf(found);
    if (parent instanceof SVGElement) { // a tooltip has text only
      const words = addition(found[0], describe(moment));
      if (words && !node.data.includes(words)) node.data = node.data.replace(found[0], `${found[0]} (${words})`);
      return;
    }
    if (parent.closest(LEFT_ALONE)) return;
    const time = document.createElement("time");
    time.dateTime = moment.toISOString();
    const rest = node.splitText(found.index);
    rest.data = rest.data.slice(found[0].length);
    time.textContent = found[0];
    rest.before(time);
    complete(time);
    markSentence(rest);
  }

  function look(node) {
    if (node instanceof Text) {
      markSentence(node);
    } else if (node instanceof Element) {
      if (node.matches("time[datetime]")) complete(node);
      for (const time of node.querySelectorAll("time[datetime]")) complete(time);
      const texts = document.createTreeWalker(node, NodeFilter.SHOW_TEXT, (text) => (text.data.includes("UTC") ? NodeFilter.FILTER_ACCEPT : NodeFilter.FILTER_SKIP));
      const sentences = [];
      while (texts.nextNode()) sentences.push(texts.currentNode);
      sentences.forEach(markSentence);
    }
  }

  document.addEventListener("readystatechange", () => { // first when all is read, and no deferred script has run
    look(document.body);
    const later = new MutationObserver((records) => records.forEach(({ addedNodes }) => addedNodes.forEach(look)));
    later.observe(document.body, { childList: true, subtree: true });
  }, { once: true });
})();
