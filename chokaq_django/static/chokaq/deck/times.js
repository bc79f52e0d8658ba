// Keeps <time datetime> of the page right: in the viewer's zone or UTC, ages growing. Panels draw their own.

import { age, bothZones, moment } from "./format.js";

export const ZONE_CHANGED = "chokaq:zone";
const EVERY = 1000; // milliseconds

function show(element) {
  if ("chokaqOwn" in element.dataset) return; // a panel's
  const value = element.getAttribute("datetime");
  const text = "age" in element.dataset ? age(value) : moment(value);
  if (element.textContent !== text) element.textContent = text;
  const title = element.dataset.age === "both" ? moment(value) : bothZones(value);
  if (title && element.title !== title) element.title = title;
}

export function showTimes(root = document, selector = "time[datetime]") {
  for (const element of root.querySelectorAll(selector)) show(element);
}

export function startTimes() {
  showTimes();
  document.addEventListener(ZONE_CHANGED, () => showTimes());
  setInterval(() => {
    if (!document.hidden) showTimes(document, "time[datetime][data-age]");
  }, EVERY);
}
