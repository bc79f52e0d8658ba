// The console: what has happened, newest first.

import { Card, Empty, ShortId, Time, Waiting, html, jobUrl, url, useSection, useState } from "../components.js";
import { queueUrl } from "../config.js";
import { milliseconds } from "../format.js";
import { _ } from "../i18n.js";

const KINDS = {
  archived: () => ["good", _("done")],
  failed: () => ["bad", _("died")],
  resurrected: () => ["info", _("back")],
  purged: () => ["warn", _("purged")],
  operator: () => ["info", _("act")],
  circuit: () => ["warn", _("circuit")],
};
const STATES = { closed: () => _("closed"), open: () => _("open"), half_open: () => _("half open") };
const ACTS = {
  annotate: () => _("notes on a job"),
  bulk_abort: () => _("cancel bulk operation"),
  bulk_cancel: () => _("bulk cancel"),
  bulk_edit: () => _("bulk edit"),
  bulk_pause: () => _("pause bulk operation"),
  bulk_purge: () => _("bulk purge"),
  bulk_remove: () => _("bulk remove"),
  bulk_restore: () => _("bulk restore"),
  bulk_resume: () => _("resume bulk operation"),
  bulk_resurrect: () => _("bulk resurrect"),
  bulk_revert: () => _("bulk revert"),
  bulk_set_rate: () => _("change drip"),
  bulk_skip_canary: () => _("go on without canary"),
  cancel: () => _("cancel"),
  close_circuit: () => _("close circuit"),
  drain_worker: () => _("drain worker"),
  edit: () => _("edit"),
  hide_queue: () => _("hide queue"),
  open_circuit: () => _("open circuit"),
  pause_queue: () => _("pause queue"),
  purge: () => _("purge"),
  remove: () => _("remove"),
  reset_circuit: () => _("reset circuit"),
  reset_queue: () => _("reset limits"),
  reset_setting: () => _("reset setting"),
  restore: () => _("restore"),
  resume_queue: () => _("resume queue"),
  resurrect: () => _("resurrect"),
  reveal: () => _("look behind the mask"),
  run_again: () => _("run again"),
  set_concurrency: () => _("set concurrency"),
  set_queue: () => _("set limits"),
  set_setting: () => _("set setting"),
  show_queue: () => _("show queue"),
  stop_worker: () => _("stop worker"),
  triage: () => _("notes on a failure"),
};
/** What newer code calls something that this one does not know. */
const plain = (name) => name?.replaceAll("_", " ");
const CHOICES = () => [
  ["all", _("All")],
  ["failed", _("Deaths")],
  ["operator", _("Acts")],
];

function words(event) {
  const job = event.job && html`<a class="chokaq-break" href=${jobUrl(event.job)}>${event.type}</a> <${ShortId} id=${event.job} />`;
  switch (event.kind) {
    case "archived":
      return html`${job} <span class="chokaq-muted">${_("in %(time)s", { time: milliseconds(event.duration_ms) })}</span>`;
    case "failed":
      return html`${job} <span class="chokaq-bad">${event.reason}</span> <span class="chokaq-muted chokaq-break">${event.error_type}</span>`;
    case "circuit":
      return html`<span class="chokaq-break">${event.type}</span> <span class="chokaq-strong">${STATES[event.state]?.() ?? plain(event.state)}</span>
        ${event.by && html` <span class="chokaq-muted">${_("by %(who)s", { who: event.by })}</span>`}`;
    case "operator":
      return html`<span class="chokaq-strong">${ACTS[event.action]?.() ?? plain(event.action)}</span> <span class="chokaq-break">${event.target}</span>
        ${event.by && html` <span class="chokaq-muted">${_("by %(who)s", { who: event.by })}</span>`}
        ${event.reason && html` <span class="chokaq-muted chokaq-break">“${event.reason}”</span>`}`;
    default:
      return html`${job ?? event.target}`;
  }
}

function Line({ event }) {
  const [tone, word] = (KINDS[event.kind] ?? (() => ["quiet", event.kind]))();
  return html`<li class="chokaq-line">
    <${Time} at=${event.at} />
    <span class=${`chokaq-line-kind chokaq-${tone}`}>${word}</span>
    <span class="chokaq-line-text">${words(event)} ${event.queue && html`<a class="chokaq-muted chokaq-break" href=${queueUrl(event.queue)}>${event.queue}</a>`}</span>
  </li>`;
}

export function Events() {
  const section = useSection("events");
  const [kind, setKind] = useState("all");
  if (!section) return html`<${Card} id="events" title=${_("Console")}><${Waiting} /></${Card}>`;
  const rows = section.rows.filter((event) => kind === "all" || event.kind === kind);
  const tools = html`<span class="chokaq-segments" role="group" aria-label=${_("Which events")}>
      ${CHOICES().map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${kind === name} onClick=${() => setKind(name)}>${label}</button>`)}
    </span>
    <a href=${url("audit")}>${_("Audit")}</a>`;
  return html`<${Card} id="events" asOf=${section.as_of} title=${_("Console")} tools=${tools}>
    ${rows.length
      ? html`<ol class="chokaq-console" tabindex="0" aria-label=${_("Events, newest first")}>
          ${rows.map((event) => html`<${Line} key=${event.id} event=${event} />`)}
        </ol>`
      : html`<${Empty} title=${_("Nothing has happened yet")}>
          <p>${_("Jobs that end, acts of operators and circuits that open are told here as they happen.")}</p>
        </${Empty}>`}
  </${Card}>`;
}
