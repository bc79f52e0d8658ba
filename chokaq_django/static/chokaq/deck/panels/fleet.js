// The worker processes, and what may be asked of them.

import { Act, Age, Badge, Card, Empty, Meter, Waiting, config, html, may, rowsOf, url, useSection, useStatus } from "../components.js";
import { queueUrl } from "../config.js";
import { NOTHING, count, seconds, short, signedSeconds } from "../format.js";
import { _, ngettext } from "../i18n.js";

const STATES = {
  running: () => ["good", _("Running")],
  draining: () => ["warn", _("Draining")],
  stopping: () => ["warn", _("Stopping")],
  silent: () => ["bad", _("Silent")],
};

function WorkerState({ row }) {
  const [tone, word] = (STATES[row.state] ?? (() => ["quiet", row.state]))();
  const wanted = row.desired_concurrency;
  return html`<span class="chokaq-row">
    <${Badge} tone=${tone}>${word}</${Badge}>
    ${wanted === 0 && row.state === "running" && html`<${Badge} tone="warn">${_("Asked to drain")}</${Badge}>`}
  </span>`;
}

function Concurrency({ row }) {
  useStatus();
  const shown = row.desired_concurrency || row.concurrency;
  if (!may("operate")) return count(shown);
  const name = `${row.host}:${row.pid}`;
  return html`<form method="post" action=${url("fleet")} data-live class="chokaq-inline">
    <input type="hidden" name="csrfmiddlewaretoken" value=${config.csrf} />
    <input type="hidden" name="act" value="concurrency" />
    <input type="hidden" name="worker" value=${row.id} />
    <input type="number" name="concurrency" min="1" max="10000" required key=${shown} defaultValue=${shown} class="chokaq-input-small"
      aria-label=${_("Jobs at once in %(name)s", { name })} title=${_("Jobs in threads at once; lasts until the worker ends")} />
    <button class="chokaq-button chokaq-button-small">${_("Set")}</button>
  </form>`;
}

function Buttons({ row }) {
  const name = `${row.host}:${row.pid}`;
  const fields = { worker: row.id };
  if (row.state === "stopping") return null;
  const drained = row.desired_concurrency === 0;
  return html`<span class="chokaq-buttons">
    ${!drained &&
    html`<${Act} page="fleet" act="drain" fields=${fields} label=${_("Drain")} title=${_("Claim nothing more, and stay")}
      confirm=${{ title: _("Drain %(name)s?", { name }), text: _("It claims nothing more and stays; what runs there ends in its own time. Setting its concurrency takes it back to work."), reason: true, label: _("Drain") }} />`}
    <${Act} page="fleet" act="stop" fields=${fields} tone="dangerous" label=${_("Stop")} title=${_("Finish what runs, then exit")}
      confirm=${{ title: _("Stop %(name)s?", { name }), text: _("It finishes its running jobs within the grace period and exits; what it had buffered goes back to its queue. Nothing here starts it again."), reason: true, label: _("Stop"), tone: "bad" }} />
  </span>`;
}

function QueueNames({ names }) {
  if (!names.length) return html`<span class="chokaq-muted">${_("all")}</span>`;
  return names.map((name, n) => html`${n ? ", " : ""}<a class="chokaq-break" href=${queueUrl(name)}>${name}</a>`);
}

const CLOCK_HELP = () =>
  _("How far its machine's clock is ahead of the database's (+) or behind (−). Jobs start, leases end and workers count as alive by the database's clock, whatever this one says. What a handler computes from its machine's clock is off by as much: a time to run, a date, the times in its logs.");

/** The offset of a machine's clock with its sign; how sure it is, in the title. */
function Clock({ row }) {
  if (row.clock_offset === null || row.clock_offset === undefined) return NOTHING;
  const title = `${CLOCK_HELP()} ${_("Measured to within %(time)s.", { time: seconds(row.clock_doubt) })}`;
  const text = Math.abs(row.clock_offset) < 0.05 ? seconds(0) : signedSeconds(row.clock_offset);
  return html`<span title=${title}>${row.clock_is_off ? html`<${Badge} tone="warn">${text}</${Badge}>` : text}</span>`;
}

function WorkerRow({ row }) {
  return html`<tr data-worker=${row.id} data-state=${row.state}>
    <th scope="row">
      <span class="chokaq-clip chokaq-worker-name" title=${row.host}>${row.host}<span class="chokaq-muted">:${row.pid}</span></span>
      <div class="chokaq-worker-name chokaq-small chokaq-muted chokaq-key chokaq-clip" title=${row.id}>${row.id}</div>
    </th>
    <td data-label=${_("State")}><${WorkerState} row=${row} /></td>
    <td class="chokaq-num" data-label=${_("Busy")} title=${_("Jobs that run, of its slots: threads, and places of its event loop. As it said when it was last seen.")}>
      ${count(row.busy)}<span class="chokaq-muted"> / ${count(row.slots)}</span>
      ${" "}<${Meter} value=${row.busy} max=${row.slots} tone=${row.busy >= row.slots ? "warn" : "info"} label=${_("Share of its slots")} />
      ${row.buffered > 0 && html`<div class="chokaq-small chokaq-muted" title=${_("Claimed and not begun")}>${_("%(count)s buffered", { count: count(row.buffered) })}</div>`}
    </td>
    <td class="chokaq-num" data-label=${_("Seen")}>
      <${Age} at=${row.last_seen} />
      <div class="chokaq-small chokaq-muted">${_("started")} <${Age} at=${row.started_at} /></div>
    </td>
    <td data-label=${_("Queues")}><${QueueNames} names=${row.queues} /></td>
    <td class="chokaq-num" data-label=${_("Memory")}>${row.rss_mb === null ? "–" : `${count(row.rss_mb)} MB`}</td>
    <td class="chokaq-num" data-label=${_("Clock")}><${Clock} row=${row} /></td>
    <td class="chokaq-num" data-label=${_("Done · dead · retried")} title=${_("Since its start, as it counts itself")}>
      ${short(row.succeeded)} · <span class=${row.failed ? "chokaq-bad" : ""}>${short(row.failed)}</span> · ${short(row.retried)}
    </td>
    <td data-label=${_("At once")}><${Concurrency} row=${row} /></td>
    <td class="chokaq-acts-cell"><${Buttons} row=${row} /></td>
  </tr>`;
}

/** A worker in two lines, for the narrow column of the overview. */
function WorkerItem({ row }) {
  const tone = { silent: "bad", running: "good" }[row.state] ?? "warn";
  return html`<li data-worker=${row.id} data-state=${row.state}>
    <div class="chokaq-list-main">
      <span class=${`chokaq-dot chokaq-${tone}`} aria-hidden="true"></span>
      <span class="chokaq-strong chokaq-break">${row.host}<span class="chokaq-muted">:${row.pid}</span></span>
      ${row.state !== "running" && html`<${WorkerState} row=${row} />`}
      <span class="chokaq-list-side" title=${_("Jobs that run, of its slots")}>
        <${Meter} value=${row.busy} max=${row.slots} tone=${row.busy >= row.slots ? "warn" : "info"} label=${_("Share of its slots")} />
        ${" "}${count(row.busy)}<span class="chokaq-muted"> / ${count(row.slots)}</span>
      </span>
    </div>
    <div class="chokaq-small chokaq-muted chokaq-clip">
      ${row.queues.length ? row.queues.join(", ") : _("all queues")} · ${_("seen")} <${Age} at=${row.last_seen} />
    </div>
  </li>`;
}

export function NoWorker({ title = _("No worker runs") }) {
  return html`<${Empty} title=${title}>
    <p>${_("Jobs wait until one does. Start one where the code of the jobs is:")}</p>
    <p><code>python manage.py runworker</code></p>
  </${Empty}>`;
}

export function Fleet({ full = false }) {
  const section = useSection("fleet");
  if (!section) return html`<${Card} id="fleet" title=${_("Fleet")}><${Waiting} /></${Card}>`;
  const rows = rowsOf(section);
  const alive = rows.filter((row) => row.state !== "silent");
  const busy = alive.reduce((sum, row) => sum + row.busy, 0);
  const slots = alive.reduce((sum, row) => sum + row.slots, 0);
  const columns = [
    _("Worker"), _("State"), _("Busy"), _("Seen"), _("Queues"), _("Memory"), _("Clock"), _("Done · dead · retried"), _("At once"), "",
  ];
  const numeric = new Set([_("Busy"), _("Seen"), _("Memory"), _("Clock"), _("Done · dead · retried")]);
  const help = { [_("Clock")]: CLOCK_HELP() };
  const tools = html`${rows.length > 0 && html`<span title=${_("Running jobs of all live workers, of their slots")}>${_("%(busy)s of %(slots)s busy", { busy: count(busy), slots: count(slots) })}</span>`}
    ${!full && html`<a href=${url("fleet")}>${_("All workers")}</a>`}`;
  return html`<${Card} id="fleet" asOf=${section.as_of} title=${_("Fleet")} count=${rows.length} tools=${tools}>
    ${!rows.length && html`<${NoWorker} />`}
    ${rows.length > 0 && !full && html`<ul class="chokaq-list">${rows.map((row) => html`<${WorkerItem} key=${row.id} row=${row} />`)}</ul>`}
    ${rows.length > 0 && full
      ? html`<div class="chokaq-scroll">
          <table class="chokaq-table chokaq-table-stack chokaq-fleet">
            <thead>
              <tr>
                ${columns.map((name) => html`<th scope="col" class=${numeric.has(name) ? "chokaq-num" : ""} title=${help[name]}>${name || html`<span class="chokaq-hidden-visually">${_("Acts")}</span>`}</th>`)}
              </tr>
            </thead>
            <tbody>
              ${rows.map((row) => html`<${WorkerRow} key=${row.id} row=${row} />`)}
            </tbody>
          </table>
        </div>`
      : null}
    ${full && rows.length > 0 && html`<p class="chokaq-card-foot"><span>${_("Another worker:")} <code class="chokaq-key">python manage.py runworker</code></span></p>`}
    ${section.more > 0 && html`<p class="chokaq-card-foot">${ngettext("%(count)s more worker", "%(count)s more workers", section.more)}</p>`}
  </${Card}>`;
}
