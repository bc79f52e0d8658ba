// The overview: is anything stuck, late or failing? Why? What is safe to do? Did it work?

import { Waiting, html, mount, useNarrow, useSection } from "./components.js";
import { Bulk } from "./panels/bulk.js";
import { Charts } from "./panels/charts.js";
import { Circuits } from "./panels/circuits.js";
import { Events } from "./panels/events.js";
import { Failures } from "./panels/failures.js";
import { Fleet } from "./panels/fleet.js";
import { Matrix } from "./panels/matrix.js";
import { Queues } from "./panels/queues.js";
import { Tiles } from "./panels/tiles.js";
import { Verdict } from "./panels/verdict.js";

/** Side by side where there is room; below each other, what fails comes before everything that may be long. */
function Overview() {
  const narrow = useNarrow();
  // All of it at once: the figures come in one message, and nothing is pushed down by what comes above it.
  if (!useSection("health")) return html`<${Waiting} />`;
  if (narrow) {
    return html`<div class="chokaq-stack">
      <${Verdict} />
      <${Tiles} />
      <${Bulk} />
      <${Failures} />
      <${Queues} />
      <${Circuits} />
      <${Fleet} />
      <${Matrix} />
      <${Charts} />
      <${Events} />
    </div>`;
  }
  return html`<div class="chokaq-stack">
    <${Verdict} />
    <${Tiles} />
    <${Bulk} />
    <div class="chokaq-grid">
      <div class="chokaq-span-8 chokaq-stack">
        <${Queues} />
        <${Charts} />
        <${Matrix} />
        <${Events} />
      </div>
      <div class="chokaq-span-4 chokaq-stack">
        <${Failures} />
        <${Circuits} />
        <${Fleet} />
      </div>
    </div>
  </div>`;
}

mount("chokaq-panels", html`<${Overview} />`);
