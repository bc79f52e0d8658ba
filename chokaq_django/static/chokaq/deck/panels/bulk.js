// Bulk operations that run or ended just now.

import { Age, Badge, Card, Progress, html, rowsOf, url, useSection } from "../components.js";
import { count, rate, said } from "../format.js";
import { _ } from "../i18n.js";

const STATES = {
  preparing: () => ["info", _("Preparing")],
  running: () => ["info", _("Running")],
  paused: () => ["warn", _("Paused")],
  done: () => ["good", _("Done")],
  cancelled: () => ["quiet", _("Cancelled")],
  stopped: () => ["bad", _("Stopped by itself")],
  failed: () => ["bad", _("Failed")],
  awaits: () => ["info", _("Waits for you")],
};
const ACTIONS = {
  resurrect: () => _("Resurrect"),
  purge: () => _("Purge"),
  cancel: () => _("Cancel"),
  remove: () => _("Remove"),
  edit: () => _("Edit"),
  restore: () => _("Restore"),
  revert: () => _("Revert"),
};

export const actionWord = (row) => ACTIONS[row.action]?.() ?? row.action;

function Operation({ row }) {
  const href = url("bulk_one", {}, { id: row.id });
  const share = row.total ? (100 * row.done) / row.total : 0;
  const [tone, word] = (STATES[row.awaits_go ? "awaits" : row.state] ?? (() => ["quiet", row.state]))();
  const action = actionWord(row);
  return html`<tr data-bulk=${row.id}>
    <th scope="row">${href ? html`<a href=${href}>${action}</a>` : action}</th>
    <td data-label=${_("State")}><${Badge} tone=${tone} title=${said(row.said, row.message)}>${word}</${Badge}></td>
    <td data-label=${_("Progress")}><${Progress} value=${row.state === "done" ? 100 : share} label=${_("Progress")} /></td>
    <td class="chokaq-num" data-label=${_("Done")} title=${_("Jobs dealt with, of the frozen selection")}>${count(row.done)} / ${count(row.total)}</td>
    <td class="chokaq-num" data-label=${_("Refused")}>${count(row.refused)}</td>
    <td class="chokaq-num" data-label=${_("Succeeded · died")}>
      ${row.watches
        ? html`<span title=${_("As far as the operation watched: until it ended")}>${count(row.succeeded)} · <span class=${row.died ? "chokaq-bad" : ""}>${count(row.died)}</span></span>`
        : html`<span title=${_("Not watched: its page looks up what became of the jobs")}>-</span>`}
    </td>
    <td class="chokaq-num" data-label=${_("Rate")}>${row.rate ? _("%(rate)s /s", { rate: rate(row.rate) }) : _("full speed")}</td>
    <td data-label=${_("By")}>${row.by}</td>
    <td class="chokaq-num" data-label=${_("Begun")}><${Age} at=${row.started_at} /></td>
  </tr>`;
}

/** Nothing at all where no operation is open: most days have none. */
export function Bulk() {
  const section = useSection("bulk");
  const rows = rowsOf(section);
  if (!rows.length) return null;
  const columns = [_("Act"), _("State"), _("Progress"), _("Done"), _("Refused"), _("Succeeded · died"), _("Rate"), _("By"), _("Begun")];
  const plain = new Set([_("Act"), _("State"), _("Progress"), _("By")]);
  return html`<${Card} id="bulk" asOf=${section.as_of} title=${_("Bulk operations")} count=${rows.length} tools=${html`<a href=${url("bulk")}>${_("All operations")}</a>`}>
    <div class="chokaq-scroll">
      <table class="chokaq-table chokaq-table-stack">
        <thead>
          <tr>
            ${columns.map((name) => html`<th scope="col" class=${plain.has(name) ? "" : "chokaq-num"}>${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map((row) => html`<${Operation} key=${row.id} row=${row} />`)}
        </tbody>
      </table>
    </div>
  </${Card}>`;
}
