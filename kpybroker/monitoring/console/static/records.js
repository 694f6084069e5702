// Only the field that counts can be filled: the offset or the time where the records begin.
"use strict";

function follow() {
  const form = document.getElementById("look");
  if (!form) return;
  const start = form.elements.namedItem("start").value;
  for (const name of ["offset", "time"]) form.elements.namedItem(name).disabled = name !== start;
}
for (const kind of ["input", "change"]) {
  document.addEventListener(kind, (event) => { if (event.target.name === "start") follow(); });
}
addEventListener("pageshow", follow);
new MutationObserver(follow).observe(document.getElementById("main"), {childList: true});
follow();
