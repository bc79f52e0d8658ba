// Circuits: types whose jobs are held back because they keep failing.

import { Act, Age, Badge, Card, Countdown, Empty, Waiting, html, rowsOf, url, useSection } from "../components.js";
import { count } from "../format.js";
import { _, ngettext } from "../i18n.js";

const STATES = {
  closed: () => ["good", _("Closed"), _("Its jobs run.")],
  open: () => ["bad", _("Open"), _("Its jobs wait and use up no attempts.")],
  half_open: () => ["warn", _("Half open"), _("A few jobs are let through, to see whether it works again.")],
};

function When({ row }) {
  if (row.state === "closed") return html`<span class="chokaq-muted">–</span>`;
  if (row.forced) return html`<span title=${_("Only an operator closes it")}>${_("until an operator closes it")}</span>`;
  if (row.state === "half_open") return html`<span class="chokaq-muted">${_("probing now")}</span>`;
  return html`${_("probe in")} <${Countdown} at=${row.open_until} over=${_("a moment")} />`;
}

function Buttons({ row, brief = false }) {
  const fields = { type: row.type };
  const name = row.type;
  const question = (text, label, tone) => ({ title: `${label}: ${name}`, text, label, tone, reason: true });
  return html`<span class="chokaq-buttons">
    ${row.state !== "closed" &&
    html`<${Act} page="circuits" act="close" fields=${fields} label=${_("Close")} title=${_("Let its jobs run now, without a probe")}
      confirm=${question(_("Its jobs run again at once, without a probe. If the cause is still there, the circuit opens again by itself."), _("Close"))} />`}
    ${row.state === "closed" && row.failures > 0 &&
    html`<${Act} page="circuits" act="reset" fields=${fields} label=${_("Forget failures")} title=${_("Start counting afresh")} />`}
    ${!row.forced && !brief &&
    html`<${Act} page="circuits" act="open" fields=${fields} tone="dangerous" label=${_("Open")} title=${_("Hold its jobs back until an operator closes it")}
      confirm=${question(_("No job of this type starts until somebody closes the circuit; what runs goes on. Waiting jobs use up no attempts."), _("Open"), "bad")} />`}
  </span>`;
}

function CircuitRow({ row }) {
  const [tone, word, title] = STATES[row.state]();
  return html`<tr data-circuit=${row.type} data-state=${row.state}>
    <th scope="row"><a class="chokaq-break" href=${url("dlq", { type: row.type })} title=${_("Its dead jobs")}>${row.type}</a></th>
    <td data-label=${_("State")}>
      <span class="chokaq-row">
        <${Badge} tone=${tone} title=${title}>${word}</${Badge}>
        ${row.forced && html`<span class="chokaq-small chokaq-muted">${row.by ? _("by %(who)s", { who: row.by }) : _("by an operator")}</span>`}
      </span>
    </td>
    <td class="chokaq-num" data-label=${_("Failures")} title=${_("Counted within its window")}>${count(row.failures)}</td>
    <td data-label=${_("Next")}><${When} row=${row} /></td>
    <td class="chokaq-num" data-label=${_("Opened")}><${Age} at=${row.opened_at} /></td>
    <td class="chokaq-acts-cell"><${Buttons} row=${row} /></td>
  </tr>`;
}

/** A circuit in two lines, for the narrow column of the overview. */
function CircuitItem({ row }) {
  const [tone, word, title] = STATES[row.state]();
  return html`<li data-circuit=${row.type} data-state=${row.state}>
    <div class="chokaq-list-main">
      <a class="chokaq-clip chokaq-strong" href=${url("dlq", { type: row.type })} title=${row.type}>${row.type}</a>
      <span class="chokaq-list-side"><${Badge} tone=${tone} title=${title}>${word}</${Badge}></span>
    </div>
    <div class="chokaq-list-main chokaq-small chokaq-muted">
      <span>${ngettext("%(count)s failure", "%(count)s failures", row.failures)}${row.state !== "closed" && html` · <${When} row=${row} />`}</span>
      <span class="chokaq-list-side"><${Buttons} row=${row} brief /></span>
    </div>
  </li>`;
}

export function Circuits({ full = false }) {
  const section = useSection("circuits");
  if (!section) return html`<${Card} id="circuits" title=${_("Circuits")}><${Waiting} /></${Card}>`;
  const rows = rowsOf(section);
  const open = rows.filter((row) => row.state !== "closed").length;
  const columns = [_("Type"), _("State"), _("Failures"), _("Next"), _("Opened")];
  const numeric = new Set([_("Failures"), _("Opened")]);
  return html`<${Card} id="circuits" asOf=${section.as_of} title=${_("Circuits")} count=${open ? ngettext("%(count)s not closed", "%(count)s not closed", open) : _("all closed")}
    tools=${!full && html`<a href=${url("circuits")}>${_("All circuits")}</a>`}>
    ${!full && rows.length > 0 && html`<ul class="chokaq-list">${rows.map((row) => html`<${CircuitItem} key=${row.type} row=${row} />`)}</ul>`}
    ${full && rows.length > 0 &&
      html`<div class="chokaq-scroll">
          <table class="chokaq-table chokaq-table-stack chokaq-acts-below">
            <thead>
              <tr>
                ${columns.map((name) => html`<th scope="col" class=${numeric.has(name) ? "chokaq-num" : ""}>${name}</th>`)}
                <th scope="col"><span class="chokaq-hidden-visually">${_("Acts")}</span></th>
              </tr>
            </thead>
            <tbody>
              ${rows.map((row) => html`<${CircuitRow} key=${row.type} row=${row} />`)}
            </tbody>
          </table>
        </div>`}
    ${!rows.length && html`<${Empty} title=${_("Every circuit is closed")}>
          <p>${_("When jobs of one type fail again and again, its circuit opens: its jobs wait instead of using up their attempts.")}</p>
        </${Empty}>`}
  </${Card}>`;
}
