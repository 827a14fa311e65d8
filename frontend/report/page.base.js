/* The data of the page, and its panes of lines. `state` says what is shown; `show` draws it. */

const CHUNK = 120; // Lines that a browser lays out together, once they are seen.
const state = { view: "code", file: 0, level: 0, kernel: -1, place: null, run: -1, pass: 0, shown: "all", coloring: "role", sort: ["number", 1] };
let data, facts, cleanUp = [];

const $ = (selector, root = document) => root.querySelector(selector);

/** Makes an element: its attributes, those that begin with `on` as listeners, and its children. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const key = (place) => `${place[0]}:${place[1]}`;
const isNowhere = (place) => place[0] < 0;
const nameOf = (place) => `${facts.files[place[0]].path}:${place[1]}`;
const nameOfRun = (run) => (run.kernel < 0 ? "copy" : facts.kernels[run.kernel].name);
const count = (number) => number.toLocaleString("en");

function bytes(number) {
  const units = ["B", "kB", "MB", "GB"];
  let unit = 0;
  for (; number >= 1000 && unit < 3; unit++) number /= 1000;
  return `${unit ? number.toPrecision(3) : number} ${units[unit]}`;
}

/** Unpacks the data: JSON, compressed. */
async function unpacked() {
  const packed = Uint8Array.from(atob($("#data").textContent.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Pairs of numbers as places. */
function unflattened(numbers) {
  const found = [];
  for (let at = 0; at < numbers.length; at += 2) found.push([numbers[at], numbers[at + 1]]);
  return found;
}

/** What a text is made of: the places of each of its lines, from 0, and the lines of each place. */
function linked(places) {
  const lines = new Map();
  places.forEach((found, line) => {
    for (const place of found) {
      const known = lines.get(key(place));
      if (known) known.push(line);
      else lines.set(key(place), [line]);
    }
  });
  return { places, lines };
}

/* Code: panes of lines. */

/**
 * Fills a pane with lines.
 * @param {HTMLElement} pane Where they go.
 * @param {string} html The lines.
 * @param {(line: number) => string} classOf More classes of a line, from 0.
 */
function fill(pane, html, classOf) {
  const lines = html.split("\n");
  const chunks = [];
  for (let begin = 0; begin < lines.length; begin += CHUNK) {
    const part = lines.slice(begin, begin + CHUNK);
    const rows = part.map((line, at) => `<div class="row ${classOf(begin + at)}" data-n="${begin + at + 1}"><span>${line || " "}</span></div>`);
    chunks.push(`<div class="chunk" style="contain-intrinsic-size:auto ${18 * part.length}px">${rows.join("")}</div>`);
  }
  pane.innerHTML = chunks.join("");
  pane.lineCount = lines.length;
}

function row(pane, line) {
  const chunk = pane.children[Math.floor(line / CHUNK)];
  return chunk ? chunk.children[line % CHUNK] : null;
}

/** Marks lines of a pane, and scrolls to one of them. */
function mark(pane, lines, current, scroll = true) {
  for (const old of pane.querySelectorAll(".marked, .current")) old.classList.remove("marked", "current");
  for (const line of lines) row(pane, line)?.classList.add("marked");
  const here = current === undefined || current < 0 ? null : row(pane, current);
  if (!here) return;
  here.classList.add("current");
  if (scroll) {
    // Lines that were not laid out yet have a guessed height: the second time it is right.
    here.scrollIntoView({ block: "center" });
    requestAnimationFrame(() => here.isConnected && here.scrollIntoView({ block: "center" }));
  }
}

/** A pane of code: the arrow keys move in it, Enter and clicks choose a line. */
function codePane(label, choose) {
  const pane = make("div", {
    class: "code",
    tabindex: 0,
    role: "region",
    "aria-label": label,
    onclick: (event) => {
      const found = event.target.closest(".row");
      if (found) choose(Number(found.dataset.n) - 1);
    },
    onkeydown: (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 30, PageUp: -30 }[event.key];
      const here = $(".current", pane);
      const line = here ? Number(here.dataset.n) - 1 : -1;
      if (step) {
        const next = Math.max(0, Math.min(pane.lineCount - 1, line + step));
        here?.classList.remove("current");
        row(pane, next)?.classList.add("current");
        row(pane, next)?.scrollIntoView({ block: "nearest" });
        event.preventDefault();
      } else if (event.key === "Enter" && line >= 0) choose(line);
    },
  });
  return pane;
}
