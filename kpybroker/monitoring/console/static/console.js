// The switch of the theme, the key of the search, and pages that fetch themselves again. Everything works without it,
// but for the switch and the key. The theme itself is set by theme.js.
"use strict";

const root = document.documentElement;
const KEPT = "kpybroker-theme";

function isDark() {
  return root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const theme = document.getElementById("theme");
function nameTheme() {
  theme.textContent = isDark() ? "Light" : "Dark";
}
theme.hidden = false;
nameTheme();
theme.addEventListener("click", () => {
  root.dataset.theme = isDark() ? "light" : "dark";
  localStorage.setItem(KEPT, root.dataset.theme);
  nameTheme();
});

// The slash leads to the search of everything, but for somebody who types.
const FIELDS = "input, select, textarea";
document.addEventListener("keydown", (event) => {
  const find = document.getElementById("find");
  if (!find || event.key !== "/" || event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.target.matches(FIELDS)) return;
  event.preventDefault();
  find.focus();
  find.select();
});

// The menu is one line on a phone. The page that is shown is in sight there.
const current = document.querySelector("header nav [aria-current]");
if (current) {
  const line = current.closest("ul");
  line.scrollLeft = current.offsetLeft - (line.clientWidth - current.offsetWidth) / 2;
}

// A page is fetched again only while somebody sees it, and neither types, nor selects, nor has typed something.
let main = document.getElementById("main");
function isBusy() {
  const active = document.activeElement;
  return document.hidden || main.querySelector(".plotted:hover, .plotted:focus") || String(getSelection())
    || [...main.querySelectorAll(FIELDS)].some(isEdited)
    || (active && main.contains(active) && active.matches(`${FIELDS}, button`));
}

function isEdited(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (!field.options) return field.value !== field.defaultValue;
  const options = [...field.options];
  const first = Math.max(0, options.findIndex((each) => each.defaultSelected));
  return options.some((each, number) => each.selected !== (number === first));
}

// The time of what is shown. The page says so when the node does not answer, or answers something else.
const PATIENCE_MS = 10000;
let seen = new Date();
let isSilent = false;
let refusal = "";
function sayAway() {
  const line = isSilent ? "The node does not answer." : refusal;
  let away = document.querySelector(".away");
  if (!line) {
    if (away) away.remove();
    return;
  }
  if (!away) {
    away = document.createElement("p");
    away.className = "away health bad";
    away.setAttribute("role", "alert");
    main.before(away);
  }
  const again = isSilent ? " It is asked again every two seconds." : "";
  const text = `${line} This page is as it was at ${seen.toISOString().slice(0, 19).replace("T", " ")}Z.${again}`;
  if (away.textContent !== text) away.textContent = text;
}

function within(ms) {
  return AbortSignal.timeout ? AbortSignal.timeout(ms) : undefined;
}

// Elements by their names. Of equal ones each has its number.
function named(elements, nameOf) {
  const found = new Map();
  for (const each of elements) {
    let number = 0;
    while (found.has(`${nameOf(each)} ${number}`)) number += 1;
    found.set(`${nameOf(each)} ${number}`, each);
  }
  return found;
}

// A folded part is named by its id, or by its row and the words of its summary.
function nameOfFolded(part) {
  const row = part.closest("tr");
  return part.id || `${row ? row.cells[0].textContent : ""} ${part.querySelector("summary").textContent}`;
}

function nameOfScrolled(part) {
  const folded = part.closest("details");
  const label = part.getAttribute("aria-labelledby") || part.getAttribute("aria-label");
  return `${folded ? nameOfFolded(folded) : ""} ${label}`;
}

const foldedOf = (part) => named(part.querySelectorAll("details"), nameOfFolded);
const scrolledOf = (part) => named(part.querySelectorAll(".scroll, details[open] pre"), nameOfScrolled);

// What is opened stays opened, and at its place on the screen. It is not taken away while somebody reads it.
function show(fresh) {
  const before = foldedOf(main), after = foldedOf(fresh);
  const opened = [...before].filter(([, each]) => each.open).map(([name]) => name);
  if (opened.some((name) => !after.has(name))) return;
  for (const [name, each] of after) if (before.has(name)) each.open = before.get(name).open;
  seen = new Date();
  const focus = document.activeElement && document.activeElement.id;
  const top = opened.length ? before.get(opened[0]).getBoundingClientRect().top : 0;
  const places = new Map([...scrolledOf(main)].map(([name, each]) => [name, [each.scrollLeft, each.scrollTop]]));
  main.replaceChildren(...fresh.childNodes);
  main.dataset.every = fresh.dataset.every || "";
  for (const [name, each] of scrolledOf(main)) [each.scrollLeft, each.scrollTop] = places.get(name) || [0, 0];
  if (opened.length) scrollBy(0, after.get(opened[0]).getBoundingClientRect().top - top);
  if (focus && document.getElementById(focus)) document.getElementById(focus).focus({preventScroll: true});
}

async function refresh() {
  if (!document.hidden) {
    try {
      const response = await fetch(location.href, {headers: {Accept: "text/html"}, signal: within(PATIENCE_MS)});
      const found = new DOMParser().parseFromString(await response.text(), "text/html");
      const fresh = found.getElementById("main");
      isSilent = false;
      refusal = "";
      if (response.ok && fresh) {
        if (!isBusy()) show(fresh);
      } else {
        const reason = found.querySelector("[role=alert]");
        refusal = `The node answers ${response.status}: ${reason ? reason.textContent : response.statusText}.`;
      }
    } catch (error) {
      isSilent = true;
    }
    sayAway();
  }
  arm();
}

let timer = 0;
function arm() {
  const every = Number(main.dataset.every);
  clearTimeout(timer);
  if (every) timer = setTimeout(refresh, every * 1000);
}
arm();

// Every page, also one that does not fetch itself again, asks whether the node is alive: within five seconds it says
// that it is not, and when it is back.
const LIVE_EVERY_MS = 2000;
const LIVE_PATIENCE_MS = 2500;
async function checkNode() {
  if (!document.hidden) {
    const wasSilent = isSilent;
    try {
      await fetch("/live", {cache: "no-store", signal: within(LIVE_PATIENCE_MS)});
      isSilent = false;
    } catch (error) {
      isSilent = true;
    }
    sayAway();
    if (wasSilent && !isSilent && main.dataset.every) refresh();
  }
  setTimeout(checkNode, LIVE_EVERY_MS);
}
setTimeout(checkNode, LIVE_EVERY_MS);
