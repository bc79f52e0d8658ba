// The queues: what waits where, since when, and whether it moves.

import { Act, Badge, Card, Empty, Meter, Waiting, html, how, rowsOf, url, useSection, useState } from "../components.js";
import { queueUrl } from "../config.js";
import { count, rate, seconds } from "../format.js";
import { _, ngettext } from "../i18n.js";

export const STATES = {
  open: () => ["good", _("Open")],
  paused: () => ["warn", _("Paused")],
  hidden: () => ["quiet", _("Hidden")],
  closed: () => ["plan", _("Outside window")],
};
const LAG_TONES = { warning: "warn", critical: "bad" };
const BADNESS = { critical: 0, warning: 1, ok: 2 };

/** The state of a queue as a badge; a queue that is open and fine says nothing. */
export function QueueState({ row, quiet = false }) {
  const [tone, word] = STATES[row.state]();
  if (quiet && row.state === "open") return null;
  return html`<${Badge} tone=${tone} title=${windowText(row)}>${word}</${Badge}>`;
}

export function windowText(row) {
  return row.window ? _("Its window: %(start)s to %(end)s, %(zone)s", row.window) : undefined;
}

/** The longest wait, coloured by its level, which a word in the title says too. */
export function lagClass(row) {
  return LAG_TONES[row.lag_level] ? `chokaq-${LAG_TONES[row.lag_level]}` : "";
}

export function lagTitle(row, asOf) {
  const words = { ok: _("in time"), warning: _("late"), critical: _("very late") }[row.lag_level];
  return `${_("How long the oldest due job has waited: %(level)s.", { level: words })} ${how("exact", asOf)}`;
}

function running(row) {
  return row.fetched + row.processing;
}

function eta(row) {
  if (!row.due) return "–";
  return row.eta_seconds === null ? "∞" : seconds(row.eta_seconds);
}

export function PauseButton({ row, iconOnly = true }) {
  if (row.state === "hidden") return null;
  return row.state === "paused"
    ? html`<${Act} page="queues" act="resume" fields=${{ name: row.name }} icon="play" iconOnly=${iconOnly}
        label=${_("Resume")} title=${_("Resume %(name)s: its jobs are claimed again", { name: row.name })} />`
    : html`<${Act} page="queues" act="pause" fields=${{ name: row.name }} icon="pause" iconOnly=${iconOnly} label=${_("Pause")}
        title=${_("Pause %(name)s: nothing new is claimed, running jobs go on", { name: row.name })}
        confirm=${{ title: _("Pause %(name)s?", { name: row.name }), text: _("Nothing new is claimed from it. Running jobs go on, waiting ones keep their place. Safe: resume whenever you like."), reason: true, label: _("Pause") }} />`;
}

export function HideButton({ row, iconOnly = true }) {
  return row.state === "hidden"
    ? html`<${Act} page="queues" act="show" fields=${{ name: row.name }} icon="eye" iconOnly=${iconOnly} label=${_("Show again")} title=${_("Take %(name)s into use again", { name: row.name })} />`
    : html`<${Act} page="queues" act="hide" fields=${{ name: row.name }} icon="eye-off" iconOnly=${iconOnly} label=${_("Hide")} title=${_("Hide %(name)s: it is out of use", { name: row.name })}
        confirm=${{ title: _("Hide %(name)s?", { name: row.name }), text: _("It leaves the lists and nothing is claimed from it, for a queue that is out of use. Its jobs stay."), reason: true, label: _("Hide"), tone: "bad" }} />`;
}

function QueueRow({ row, asOf, full }) {
  const busy = running(row);
  const full_ = row.max_workers !== null && busy >= row.max_workers;
  return html`<tr class=${row.state === "hidden" ? "is-quiet" : ""} data-queue=${row.name}>
    <th scope="row">
      <span class="chokaq-list-main">
        <a class="chokaq-clip chokaq-queue-name" href=${queueUrl(row.name)} title=${row.name}>${row.name}</a>
        <${QueueState} row=${row} quiet=${!full} />
        ${!full && !row.workers && row.state === "open" && html`<${Badge} tone="bad" title=${_("No live worker takes its jobs")}>${_("no worker")}</${Badge}>`}
      </span>
    </th>
    <td class="chokaq-num" data-label=${_("Due")} title=${how("exact", asOf)}>${count(row.due)}${row.capped ? "+" : ""}</td>
    ${full && html`<td class="chokaq-num chokaq-muted" data-label=${_("Scheduled")} title=${how("exact", asOf)}>${row.scheduled ? count(row.scheduled) : "–"}</td>`}
    <td class="chokaq-num" data-label=${_("Running")}
        title=${how(row.max_workers === null ? _("Claimed or running; no cap") : _("Claimed or running, of at most %(cap)s", { cap: row.max_workers }), asOf)}>
      <span class=${full_ && row.due ? "chokaq-warn" : ""}>${count(busy)}${row.max_workers !== null ? html`<span class="chokaq-muted"> / ${count(row.max_workers)}</span>` : ""}</span>
      ${full && row.max_workers !== null && html` <${Meter} value=${busy} max=${row.max_workers} tone=${full_ ? "warn" : "info"} label=${_("Share of its cap")} />`}
    </td>
    <td class=${`chokaq-num ${lagClass(row)}`} data-label=${_("Longest wait")} title=${lagTitle(row, asOf)} data-level=${row.lag_level}>
      ${row.lag_max ? seconds(row.lag_max) : "–"}
    </td>
    ${full &&
    html`<td class="chokaq-num chokaq-muted" data-label=${_("Mean wait")} title=${how(_("Mean wait of the jobs that began within a minute, estimated"), asOf)}>
      ${seconds(row.lag_avg)}
    </td>`}
    <td class="chokaq-num chokaq-queue-more" data-label=${_("Per second")} title=${how(_("Jobs done per second over the last minute, from buckets of ten seconds"), asOf)}>${rate(row.per_second)}</td>
    <td class="chokaq-num chokaq-queue-more" data-label=${_("Empty in")} title=${how(_("Until what is due now has been done at the rate of the last minute, estimated; ∞: nothing was done"), asOf)}>${eta(row)}</td>
    ${full && html`<td class=${`chokaq-num ${row.workers || row.state !== "open" ? "" : "chokaq-bad"}`} data-label=${_("Workers")} title=${how(_("Live worker processes that take its jobs"), asOf)}>${count(row.workers)}</td>`}
    <td class="chokaq-acts-cell">
      <span class="chokaq-buttons"><${PauseButton} row=${row} /> ${full && html`<${HideButton} row=${row} />`}</span>
    </td>
  </tr>`;
}

function Head({ full }) {
  const columns = full
    ? [_("Queue"), _("Due"), _("Scheduled"), _("Running"), _("Longest wait"), _("Mean wait"), _("Per second"), _("Empty in"), _("Workers")]
    : [_("Queue"), _("Due"), _("Running"), _("Longest wait"), _("Per second"), _("Empty in")];
  return html`<thead>
    <tr>
      ${columns.map((name, n) => html`<th scope="col" class=${n ? "chokaq-num" : ""}>${name}</th>`)}
      <th scope="col"><span class="chokaq-hidden-visually">${_("Acts")}</span></th>
    </tr>
  </thead>`;
}

/** Jobs wait, and nobody takes them as long as somebody holds the queue. */
const isHeld = (row) => row.state === "paused" && row.due > 0;

/** By trouble first, then by name: what is late or held must not be below the fold. */
function sorted(rows) {
  return [...rows].sort((a, b) => BADNESS[a.lag_level] - BADNESS[b.lag_level] || isHeld(b) - isHeld(a) || a.name.localeCompare(b.name));
}

export function Queues({ full = false }) {
  const section = useSection("queues");
  const [hiddenToo, setHiddenToo] = useState(false);
  if (!section) return html`<${Card} id="queues" title=${_("Queues")}><${Waiting} /></${Card}>`;
  const all = rowsOf(section);
  const hidden = all.filter((row) => row.state === "hidden").length;
  const rows = sorted(all.filter((row) => hiddenToo || row.state !== "hidden"));
  const tools = html`${hidden > 0 &&
    html`<button type="button" class="chokaq-button chokaq-button-small" aria-pressed=${hiddenToo} onClick=${() => setHiddenToo(!hiddenToo)}>
      ${hiddenToo ? _("Without hidden ones") : ngettext("%(count)s hidden", "%(count)s hidden", hidden)}
    </button>`}
    ${!full && html`<a href=${url("queues")}>${_("All queues")}</a>`}`;
  return html`<${Card} id="queues" asOf=${section.as_of} title=${_("Queues")} count=${all.length - hidden} tools=${tools}>
    ${rows.length
      ? html`<div class="chokaq-scroll">
          <table class=${`chokaq-table chokaq-table-stack ${full ? "" : "chokaq-queues-brief"}`}>
            <${Head} full=${full} />
            <tbody>
              ${rows.map((row) => html`<${QueueRow} key=${row.name} row=${row} asOf=${section.as_of} full=${full} />`)}
            </tbody>
          </table>
        </div>`
      : html`<${Empty} title=${_("No queue yet")}>
          <p>${_("A queue is there as soon as a job is enqueued into it.")}</p>
          <code>enqueue(MyJob(...), queue="mail")</code>
        </${Empty}>`}
    ${section.more > 0 && html`<p class="chokaq-card-foot">${ngettext("%(count)s more queue is not shown.", "%(count)s more queues are not shown.", section.more)}</p>`}
  </${Card}>`;
}
