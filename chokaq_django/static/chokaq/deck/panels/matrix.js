// What runs now, job by job.

import { Badge, Card, Empty, Progress, ShortId, Since, Waiting, html, jobUrl, rowsOf, url, useSection } from "../components.js";
import { queueUrl } from "../config.js";
import { _, ngettext } from "../i18n.js";

const STATUS = {
  fetched: () => ["soft", _("Buffered")],
  processing: () => ["warn", _("Running")],
};

function JobRow({ row, withQueue }) {
  const [tone, word] = (STATUS[row.status] ?? (() => ["quiet", row.status]))();
  return html`<tr data-job=${row.id}>
    <th scope="row">
      <a class="chokaq-clip chokaq-matrix-name" href=${jobUrl(row.id)} title=${row.type}>${row.type}</a>
      <span class="chokaq-small chokaq-muted chokaq-clip">
        <${ShortId} id=${row.id} />${withQueue && html` · <a href=${queueUrl(row.queue)}>${row.queue}</a>`}
      </span>
    </th>
    <td data-label=${_("State")}>
      <${Badge} tone=${tone}>${word}</${Badge}> ${row.cancelling && html`<${Badge} tone="bad">${_("Asked to stop")}</${Badge}>`}
    </td>
    <td class=${`chokaq-num ${row.attempt > 1 ? "chokaq-warn" : ""}`} data-label=${_("Attempt")}>
      ${_("%(used)s of %(most)s", { used: row.attempt, most: row.max_attempts })}
    </td>
    <td class="chokaq-num" data-label=${_("For")}>${row.started_at ? html`<${Since} at=${row.started_at} />` : "–"}</td>
    <td data-label=${_("Progress")} class="chokaq-matrix-progress">
      ${row.progress === null
        ? html`<span class="chokaq-muted">–</span>`
        : html`<${Progress} value=${row.progress} label=${_("Progress of %(id)s", { id: row.id })} />`}
      ${row.message && html`<span class="chokaq-clip chokaq-small chokaq-muted" title=${row.message}>${row.message}</span>`}
    </td>
    <td class="chokaq-nowrap" data-label=${_("Worker")}><${ShortId} id=${row.worker ?? "–"} /></td>
  </tr>`;
}

export function Matrix({ topic, withQueue = true }) {
  const section = useSection("matrix", topic);
  if (!section) return html`<${Card} id="matrix" title=${_("Jobs at work")}><${Waiting} /></${Card}>`;
  const rows = rowsOf(section);
  const columns = [_("Job"), _("State"), _("Attempt"), _("For"), _("Progress"), _("Worker")];
  const numeric = [_("Attempt"), _("For")];
  return html`<${Card} id="matrix" className=${withQueue ? "chokaq-matrix" : ""} asOf=${section.as_of} title=${_("Jobs at work")} count=${rows.length + (section.more ?? 0)}
    tools=${html`<a href=${url("active", { status: "processing" })}>${_("As a list")}</a>`}>
    ${rows.length
      ? html`<div class="chokaq-scroll chokaq-scroll-tall" tabindex="0" role="group" aria-labelledby="chokaq-card-matrix">
          <table class="chokaq-table chokaq-table-stack">
            <thead>
              <tr>
                ${columns.map((name) => html`<th scope="col" class=${numeric.includes(name) ? "chokaq-num" : ""}>${name}</th>`)}
              </tr>
            </thead>
            <tbody>
              ${rows.map((row) => html`<${JobRow} key=${row.id} row=${row} withQueue=${withQueue} />`)}
            </tbody>
          </table>
        </div>`
      : html`<${Empty} title=${_("No job runs at this moment")}>
          <p>${_("Jobs appear here while a worker has them: most for less than a blink.")}</p>
        </${Empty}>`}
    ${section.more > 0 && html`<p class="chokaq-card-foot">${ngettext("%(count)s more is at work.", "%(count)s more are at work.", section.more)}</p>`}
  </${Card}>`;
}
