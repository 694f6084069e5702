// The theme that a viewer has chosen, before the first paint: this file is small, and the page waits for it.
"use strict";

try {
  const kept = localStorage.getItem("kpybroker-theme");
  if (kept) document.documentElement.dataset.theme = kept;
} catch {
  // Without storage the theme is the system's.
}
