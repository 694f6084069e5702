// The switch of the theme, and pages that fetch themselves again. Everything works without it, but for the switch.
"use strict";

const root = document.documentElement;
const KEPT = "kpybroker-theme";
const kept = localStorage.getItem(KEPT);
if (kept) root.dataset.theme = kept;

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

// A page is fetched again only while somebody sees it, and neither types, nor selects, nor reads something opened.
let main = document.getElementById("main");
function isTyped(field) {
  if (field.type === "checkbox" || field.type === "radio") return field.checked !== field.defaultChecked;
  if (field.tagName !== "SELECT") return field.value !== field.defaultValue;
  return field.selectedIndex !== Math.max(0, [...field.options].findIndex((each) => each.defaultSelected));
}
function isBusy() {
  const active = document.activeElement;
  return document.hidden || main.querySelector("details[open]") || String(getSelection())
    || (active && main.contains(active) && active.matches("input, select, textarea, button"))
    || [...main.querySelectorAll("input, select, textarea")].some(isTyped);
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

function show(fresh) {
  seen = new Date();
  const focus = document.activeElement && document.activeElement.id;
  const left = [...main.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  main.replaceChildren(...fresh.childNodes);
  main.dataset.every = fresh.dataset.every || "";
  [...main.querySelectorAll(".scroll")].forEach((each, number) => { each.scrollLeft = left[number] || 0; });
  if (focus && document.getElementById(focus)) document.getElementById(focus).focus();
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
