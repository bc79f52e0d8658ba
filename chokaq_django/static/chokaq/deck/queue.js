// One queue as it is now.

import { config, html, mount, how, useSection } from "./components.js";
import { pageFeed } from "./feed.js";
import { count, rate, seconds } from "./format.js";
import { _ } from "./i18n.js";
import { Charts } from "./panels/charts.js";
import { Matrix } from "./panels/matrix.js";
import { HideButton, PauseButton, QueueState, lagClass, lagTitle, windowText } from "./panels/queues.js";
import { Region } from "./region.js";

const topic = `queue:${config.queue}`;

function Tile({ label, value, note, tone = "quiet", title }) {
  return html`<div class=${`chokaq-tile ${tone}`} title=${title} tabindex="0">
    <span class="chokaq-tile-label">${label}</span>
    <span class="chokaq-tile-value">${value}</span>
    <span class="chokaq-tile-note">${note}</span>
  </div>`;
}

function Figures() {
  const row = useSection("queue", topic);
  if (!row) return html`<div class="chokaq-tiles chokaq-skeleton" aria-busy="true"></div>`;
  const exact = how("exact", row.as_of);
  const busy = row.fetched + row.processing;
  const plus = row.capped ? "+" : "";
  return html`<div class="chokaq-stack">
    <div class="chokaq-row">
      <${QueueState} row=${row} />
      ${row.window && html`<span class="chokaq-muted">${windowText(row)}</span>`}
      <span class="chokaq-buttons"><${PauseButton} row=${row} iconOnly=${false} /> <${HideButton} row=${row} iconOnly=${false} /></span>
    </div>
    <div class="chokaq-tiles">
      <${Tile} label=${_("Due")} value=${`${count(row.due)}${plus}`} tone="chokaq-info" note=${_("wait and could run")} title=${exact} />
      <${Tile} label=${_("Scheduled")} value=${count(row.scheduled)} tone="chokaq-plan" note=${_("due later")} title=${exact} />
      <${Tile} label=${_("Running")} value=${count(busy)} tone="chokaq-warn"
        note=${row.max_workers === null ? _("no cap") : _("of at most %(cap)s", { cap: count(row.max_workers) })} title=${exact} />
      <${Tile} label=${_("Longest wait")} value=${row.lag_max ? seconds(row.lag_max) : "–"} tone=${`${lagClass(row)} ${row.lag_level === "ok" ? "" : "is-alarm"}`}
        note=${row.lag_avg === null ? _("of the oldest due job") : _("mean %(time)s", { time: seconds(row.lag_avg) })} title=${lagTitle(row, row.as_of)} />
      <${Tile} label=${_("Per second")} value=${rate(row.per_second)} tone="chokaq-good" note=${_("over a minute")} title=${_("From buckets of ten seconds")} />
      <${Tile} label=${_("Empty in")} value=${row.due ? (row.eta_seconds === null ? "–" : seconds(row.eta_seconds)) : "–"} tone="chokaq-soft"
        note=${row.due && row.eta_seconds === null ? _("never, at this rate") : _("at this rate")} title=${_("Until what is due now has been done at the rate of the last minute, estimated")} />
      <${Tile} label=${_("Workers")} value=${count(row.workers)} tone=${row.workers ? "chokaq-quiet" : "chokaq-bad is-alarm"} note=${_("take its jobs")} title=${_("Live worker processes that take its jobs")} />
    </div>
  </div>`;
}

function Page() {
  return html`<div class="chokaq-stack">
    <${Figures} />
    <${Charts} queue=${config.queue} />
    <${Matrix} topic=${topic} withQueue=${false} />
  </div>`;
}

// Who holds it, and the acts on it, are the server's to draw.
const acts = [new Region("chokaq-queue-held"), new Region("chokaq-queue-acts")];
let known = null;

pageFeed().on(
  "queue",
  (row) => {
    if (!row) return;
    const now = [row.state, row.max_workers, row.window && Object.values(row.window)].join();
    if (known !== null && now !== known) for (const region of acts) region.soon();
    known = now;
  },
  topic,
);

mount("chokaq-panels", html`<${Page} />`);
