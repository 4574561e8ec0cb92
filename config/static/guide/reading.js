// Lets readers copy code and scroll by keyboard, and marks the section that they read.
for (const block of document.querySelectorAll(".code-source")) {
  if (!navigator.clipboard) break;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.querySelector("figcaption").append(button);
}

const boxes = new ResizeObserver((entries) => {
  for (const { target: box } of entries) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
});
for (const box of document.querySelectorAll(".code pre, .table")) boxes.observe(box);

const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
const sections = [...links.keys()].map((anchor) => document.getElementById(anchor)).filter(Boolean);

function markSection() {
  const line = window.innerHeight / 4;
  const atEnd = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 2;
  const passed = sections.filter((section) => section.getBoundingClientRect().top <= line);
  const current = atEnd ? sections.at(-1) : passed.at(-1);
  for (const [anchor, link] of links) {
    if (anchor === current?.id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
if (sections.length) {
  document.addEventListener("scroll", markSection, { passive: true });
  markSection();
}

const menu = document.getElementById("menu");
const current = menu.querySelector("[aria-current]");
if (current) menu.scrollTop = current.offsetTop - menu.clientHeight / 2;
