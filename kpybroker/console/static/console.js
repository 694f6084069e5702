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
  return document.hidden || main.querySelector("details[open]") || String(getSelection())
    || (active && main.contains(active) && active.matches("input, select, textarea, button"));
}

async function refresh() {
  if (!isBusy()) {
    try {
      const response = await fetch(location.href, {headers: {Accept: "text/html"}});
      if (response.ok) {
        const fresh = new DOMParser().parseFromString(await response.text(), "text/html").getElementById("main");
        if (fresh && !isBusy()) {
          const focus = document.activeElement && document.activeElement.id;
          const left = [...main.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
          main.replaceChildren(...fresh.childNodes);
          main.dataset.every = fresh.dataset.every || "";
          [...main.querySelectorAll(".scroll")].forEach((each, number) => { each.scrollLeft = left[number] || 0; });
          if (focus && document.getElementById(focus)) document.getElementById(focus).focus();
        }
      }
    } catch (error) {
      main.setAttribute("aria-busy", "true");
    }
  }
  arm();
}

function arm() {
  const every = Number(main.dataset.every);
  if (every) setTimeout(refresh, every * 1000);
}
arm();
