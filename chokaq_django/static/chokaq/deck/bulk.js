// Bulk operations that move. The server draws everything; figures are kept current by the feed, and where an operation
// enters another state its part of the page is fetched anew, because its buttons and sentences are others then.

import { pageFeed } from "./feed.js";
import { count, seconds } from "./format.js";
import { Region } from "./region.js";

const FIGURES = ["done", "total", "applied", "requested", "refused", "left_alone", "succeeded", "died"];
const PACE_OVER = 15; // seconds over which the speed is measured
const JOBS_EVERY = 3000; // milliseconds between two fetches of a page whose jobs and chart move on
const OUTCOMES_EVERY = 5000; // the same while jobs of an operation that is over have not ended

const region = new Region("chokaq-bulk");
const root = region.element;
const isList = "bulkList" in root.dataset;
const paces = new Map();

/** Whether this is another text than was there. */
function show(element, name, text) {
  let changed = false;
  for (const place of element.querySelectorAll(`[data-live="${name}"]`)) {
    if (place.textContent.trim() === text) continue;
    place.textContent = text;
    changed = true;
  }
  return changed;
}

/** Seconds that are left: by the rate, or by what was done lately. */
function left(row) {
  const open = row.total - row.done;
  if (row.rate) return open / row.rate;
  const now = performance.now() / 1000;
  const seen = (paces.get(row.id) ?? []).filter(([at]) => now - at < PACE_OVER);
  seen.push([now, row.done]);
  paces.set(row.id, seen);
  const [at, done] = seen[0];
  return row.done > done ? (open * (now - at)) / (row.done - done) : null;
}

/** Whether the buttons and sentences are those of before, and whether a figure has moved. */
function update(element, row) {
  const moved = FIGURES.filter((name) => show(element, name, count(row[name]))).length > 0;
  const percent = row.started_at === null ? 0 : row.total ? (100 * row.done) / row.total : 100;
  for (const bar of element.querySelectorAll('progress[data-live="percent"]')) bar.value = percent;
  if (row.state === "running" && row.canary_decision !== "waiting") {
    const rest = left(row);
    if (rest !== null) show(element, "eta", seconds(Math.ceil(rest)));
  }
  return { same: element.dataset.state === row.state && element.dataset.canary === row.canary_decision, moved };
}

if (isList) {
  pageFeed().on("bulk", ({ rows, order }) => {
    const shown = new Map([...root.querySelectorAll("[data-bulk]")].map((element) => [element.dataset.bulk, element]));
    let same = !isFirstPage() || order.every((id) => shown.has(id) || isFiltered());
    for (const [id, element] of shown) if (rows[id]) same = update(element, rows[id]).same && same;
    if (!same) region.soon();
  });
} else {
  pageFeed().on("operation", (row) => {
    if (!row || row.id !== root.dataset.bulk) return;
    const { same, moved } = update(root, row);
    if (!same) region.soon();
    else if (moved) region.soon(JOBS_EVERY); // the list of its jobs, and the chart
  });
}

// The feed tells of an operation, and not of the jobs that it let go.
setInterval(() => {
  if (!document.hidden && root.querySelector("[data-outcomes-open]")) region.soon();
}, OUTCOMES_EVERY);

function isFiltered() {
  return ["state", "action", "by"].some((name) => new URLSearchParams(location.search).get(name));
}

function isFirstPage() {
  return !new URLSearchParams(location.search).has("before");
}
