// A new bulk operation: how long it lasts at the drip rate that is being typed.

import { seconds } from "./format.js";

const form = document.querySelector("[data-bulk-options]");
const place = document.querySelector("[data-drip]");
const total = Number(document.querySelector("[data-total]")?.dataset.total);
const rate = form?.elements.namedItem("rate");

function show() {
  const perSecond = Number(rate.value);
  place.textContent = perSecond > 0 ? seconds(Math.ceil(total / perSecond)) : "–";
}

if (place && rate) {
  rate.addEventListener("input", show);
  show();
}
