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
function isBusy() {
  const active = document.activeElement;
  return document.hidden || main.querySelector("details[open], .plotted:hover, .plotted:focus") || String(getSelection())
    || (active && main.contains(active) && active.matches("input, select, textarea, button"));
}

// The time of what is shown. The page says so when the node does not answer, or answers something else.
const PATIENCE_MS = 10000;
let seen = new Date();
function setAway(line) {
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
  const text = `${line} This page is as it was at ${seen.toISOString().slice(0, 19).replace("T", " ")}Z.`;
  if (away.textContent !== text) away.textContent = text;
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
      const signal = AbortSignal.timeout ? AbortSignal.timeout(PATIENCE_MS) : undefined;
      const response = await fetch(location.href, {headers: {Accept: "text/html"}, signal});
      const found = new DOMParser().parseFromString(await response.text(), "text/html");
      const fresh = found.getElementById("main");
      if (response.ok && fresh) {
        setAway("");
        if (!isBusy()) show(fresh);
      } else {
        const reason = found.querySelector("[role=alert]");
        setAway(`The node answers ${response.status}: ${reason ? reason.textContent : response.statusText}.`);
      }
    } catch (error) {
      setAway("The node does not answer.");
    }
  }
  arm();
}

function arm() {
  const every = Number(main.dataset.every);
  if (every) setTimeout(refresh, every * 1000);
}
arm();
