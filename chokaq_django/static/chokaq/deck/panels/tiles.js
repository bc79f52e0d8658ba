// How many jobs are where, and how fast they go.

import { Sparkline, how, html, url, useSection } from "../components.js";
import { count, percent, rate, short } from "../format.js";
import { _ } from "../i18n.js";

function tilesOf(tiles) {
  const due = tiles.pending.value - tiles.scheduled.value;
  return [
    {
      name: "pending", label: _("Pending"), tone: "info", href: url("active", { status: "pending" }),
      note: _("%(count)s due", { count: count(Math.max(0, due)) }), meaning: _("Jobs that wait, due or not."),
    },
    {
      name: "scheduled", label: _("Scheduled"), tone: "plan", href: url("active", { status: "scheduled" }),
      note: _("for later"), meaning: _("Jobs whose time has not come, retries included."),
    },
    {
      name: "buffered", label: _("Buffered"), tone: "soft", href: url("active", { status: "fetched" }),
      note: _("not begun"), meaning: _("Jobs that a worker has taken and not begun."),
    },
    {
      name: "processing", label: _("Processing"), tone: "warn", href: url("active", { status: "processing" }),
      note: _("at work"), meaning: _("Jobs that run."),
    },
    {
      name: "succeeded", label: _("Succeeded"), tone: "good", href: url("archive"),
      note: _("ever"), meaning: _("All jobs that ever succeeded, trimmed ones too."),
    },
    {
      name: "failed", label: _("Failed"), tone: "bad", href: url("dlq"), alarm: tiles.failed.value > 0 && tiles.rates["5m"].dead > 0,
      note: _("in the DLQ"), meaning: _("Jobs in the dead letter queue."),
    },
  ];
}

function Tile({ label, tone, href, note, meaning, figure, alarm, asOf }) {
  const plus = figure.capped ? "+" : "";
  const title = `${meaning} ${count(figure.value)}${plus}, ${how(figure.how, asOf)}${figure.capped ? `; ${_("counting stopped there")}` : ""}`;
  return html`<a class=${`chokaq-tile chokaq-${tone} ${alarm ? "is-alarm" : ""}`} href=${href} title=${title}>
    <span class="chokaq-tile-label">${label}</span>
    <span class="chokaq-tile-value">${short(figure.value)}${plus}</span>
    <span class="chokaq-tile-note">${note}</span>
  </a>`;
}

function RateTile({ label, tone, value, unit, note, title, values, alarm }) {
  return html`<div class=${`chokaq-tile chokaq-tile-rate chokaq-${tone} ${alarm ? "is-alarm" : ""}`} title=${title} tabindex="0">
    <span class="chokaq-tile-label">${label}</span>
    <span class="chokaq-tile-value">${value} <small>${unit}</small></span>
    <span class="chokaq-tile-note">${note}</span>
    <${Sparkline} values=${values} tone=${tone} />
  </div>`;
}

const ALARMING = 0.05; // share of outcomes that are deaths, from which the failure tile is red

export function Tiles() {
  const tiles = useSection("tiles");
  if (!tiles) return html`<div class="chokaq-tiles chokaq-tiles-overview chokaq-skeleton" aria-busy="true"></div>`;
  const { "1m": minute, "5m": five } = tiles.rates;
  const when = how(_("from buckets of ten seconds"), tiles.as_of);
  return html`<div class="chokaq-tiles chokaq-tiles-overview">
    ${tilesOf(tiles).map((tile) => html`<${Tile} ...${tile} key=${tile.name} figure=${tiles[tile.name]} asOf=${tiles.as_of} />`)}
    <${RateTile}
      label=${_("Throughput")}
      tone="good"
      value=${rate(minute.done_per_second)}
      unit=${_("/s, 1 m")}
      note=${_("%(rate)s /s, 5 m", { rate: rate(five.done_per_second) })}
      title=${_("Jobs that succeeded per second: %(done)s in a minute, %(five)s in five; %(how)s. The line: ten minutes.", {
        done: count(minute.done), five: count(five.done), how: when,
      })}
      values=${tiles.spark.done}
    />
    <${RateTile}
      label=${_("Failure rate")}
      tone=${minute.dead ? "bad" : "quiet"}
      value=${percent(minute.failure_share)}
      unit=${_("1 m")}
      note=${_("%(share)s, 5 m", { share: percent(five.failure_share) })}
      title=${_("Share of jobs that died among those that ended: %(dead)s in a minute, %(five)s in five, and %(retried)s retried; %(how)s. The line: deaths, ten minutes.", {
        dead: count(minute.dead), five: count(five.dead), retried: count(minute.retried), how: when,
      })}
      values=${tiles.spark.dead}
      alarm=${minute.failure_share >= ALARMING}
    />
  </div>`;
}
