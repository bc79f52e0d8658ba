// All queues, and what they have done lately.

import { html, mount } from "./components.js";
import { Charts } from "./panels/charts.js";
import { Queues } from "./panels/queues.js";

function Page() {
  return html`<div class="chokaq-stack">
    <${Queues} full />
    <${Charts} />
  </div>`;
}

mount("chokaq-panels", html`<${Page} />`);
