// The values of a plot under the pointer, or under the arrow keys. The words come with the page.
"use strict";

const NEAR = 0.012;

function wordsOf(figure) {
  return [...figure.querySelectorAll(".series")].map((each) => each.dataset.words.split("|"));
}

function markNear(figure, share) {
  const marks = [...figure.querySelectorAll(".mark")].filter((each) => Math.abs(each.dataset.x - share) <= NEAR);
  return marks.map((each) => each.dataset.words).join("; ");
}

function read(figure, number) {
  const words = wordsOf(figure);
  const count = Math.max(...words.map((each) => each.length));
  const at = Math.min(Math.max(number, 0), count - 1);
  const share = (at + 0.5) / count;
  figure.classList.add("reading");
  figure.dataset.number = at;
  figure.querySelectorAll(".legend b").forEach((each, line) => {
    if (each.dataset.last === undefined) each.dataset.last = each.textContent;
    each.textContent = words[line] ? words[line][at] : each.dataset.last;
  });
  const time = new Date(Number(figure.dataset.since) + at * Number(figure.dataset.every));
  const mark = markNear(figure, share);
  figure.querySelector(".at").textContent = time.toISOString().slice(11, 19) + (mark ? ` · ${mark}` : "");
  const cursor = figure.querySelector(".cursor");
  for (const end of ["x1", "x2"]) cursor.setAttribute(end, share * 1000);
  return count;
}

function leave(figure) {
  figure.classList.remove("reading");
  delete figure.dataset.number;
  figure.querySelector(".at").textContent = "";
  figure.querySelectorAll(".legend b").forEach((each) => {
    if (each.dataset.last !== undefined) each.textContent = each.dataset.last;
  });
}

// Pages fetch themselves again, so the listeners are the document's.
function plotted(event) {
  return event.target instanceof Element ? event.target.closest(".plotted") : null;
}

document.addEventListener("pointermove", (event) => {
  for (const each of document.querySelectorAll(".reading")) {
    if (each !== plotted(event) && each !== document.activeElement) leave(each);
  }
  const figure = plotted(event);
  if (!figure) return;
  const box = figure.querySelector(".drawn").getBoundingClientRect();
  const share = (event.clientX - box.left) / box.width;
  const count = Math.max(...wordsOf(figure).map((each) => each.length));
  if (share >= 0 && share < 1) read(figure, Math.floor(share * count));
});

document.addEventListener("keydown", (event) => {
  const figure = plotted(event);
  const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
  if (!figure || !step || figure !== document.activeElement) return;
  event.preventDefault();
  const number = figure.dataset.number;
  read(figure, number === undefined ? Infinity : Number(number) + step);
});

document.addEventListener("focusout", (event) => {
  const figure = plotted(event);
  if (figure) leave(figure);
});
