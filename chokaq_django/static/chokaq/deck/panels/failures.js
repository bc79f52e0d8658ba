// The largest groups of jobs that died alike.

import { Age, Badge, Card, Empty, Waiting, html, rowsOf, url, useSection } from "../components.js";
import { count } from "../format.js";
import { _, ngettext } from "../i18n.js";

/** That an error came in the middle of the work goes without saying; these two do not. */
const RISKS = {
  none: () => ["good", _("safe to replay"), _("It never began: running it again repeats nothing.")],
  likely: () => ["warn", _("may be done"), _("It was stopped, or its worker died: all of it may have been done already. Look before you run it again.")],
};

export function ReplayRisk({ risk }) {
  const found = RISKS[risk]?.();
  if (!found) return null;
  const [tone, word, title] = found;
  return html`<${Badge} tone=${tone} title=${title}>${word}</${Badge}>`;
}

/** "shop.partner.PartnerError" without the path of its module, which stands in the title. */
const briefly = (type) => type?.slice(type.lastIndexOf(".") + 1);

/** A message without the type in front of it, which stands above it. */
function without(type, message) {
  const prefix = `${type}: `;
  return type && message?.startsWith(prefix) ? message.slice(prefix.length) : message;
}

const TRENDS = {
  new: () => ["bad", _("new")],
  rising: () => ["bad", _("rising")],
  falling: () => ["quiet", _("falling")],
};

/** Only what moves: most groups do not. */
function Trend({ row }) {
  const found = TRENDS[row.trend]?.();
  if (!found) return null;
  const [tone, word] = found;
  const title = ngettext("%(count)s died within the last hour", "%(count)s died within the last hour", row.last_hour);
  return html`<${Badge} tone=${tone} title=${title}>${word}</${Badge}>`;
}

function Group({ row, most }) {
  const href = url("failure", {}, { fingerprint: row.fingerprint }) ?? url("dlq", { fingerprint: row.fingerprint });
  return html`<li class="chokaq-group" data-fingerprint=${row.fingerprint}>
    <a href=${href} class="chokaq-group-count chokaq-bad" title=${_("Jobs in the DLQ, from counters")}>${count(row.count)}</a>
    <div class="chokaq-group-text">
      <p class="chokaq-row">
        <a href=${href} class="chokaq-strong chokaq-break" title=${row.error_type ?? ""}>${briefly(row.error_type) ?? row.reason}</a>
        <${Trend} row=${row} />
      </p>
      <p class="chokaq-clip chokaq-muted chokaq-small" title=${row.message ?? ""}>${without(row.error_type, row.message) ?? _("The error text is hidden from you.")}</p>
      <p class="chokaq-list-main">
        <span class="chokaq-small chokaq-muted chokaq-clip">
          <${Age} at=${row.last_seen} /> · ${row.queues.join(", ")}${row.error_type ? ` · ${row.reason}` : ""}
          ${row.assignee ? ` · ${_("with %(who)s", { who: row.assignee })}` : row.acknowledged ? ` · ${_("acknowledged")}` : ""}
          ${row.came_again ? ` · ${_("came again")}` : ""}
        </span>
        <span class="chokaq-list-side"><${ReplayRisk} risk=${row.replay_risk} /></span>
      </p>
      <progress class="chokaq-group-share" max=${most} value=${row.count} aria-hidden="true"></progress>
    </div>
  </li>`;
}

export function Failures() {
  const section = useSection("groups");
  if (!section) return html`<${Card} id="failures" title=${_("What fails")}><${Waiting} /></${Card}>`;
  const rows = rowsOf(section);
  const most = Math.max(1, ...rows.map((row) => row.count));
  return html`<${Card} id="failures" asOf=${section.as_of} title=${_("What fails")} tools=${html`<a href=${url("failures") ?? url("dlq")}>${_("All groups")}</a>`}>
    ${rows.length
      ? html`<ol class="chokaq-groups">
          ${rows.map((row) => html`<${Group} key=${row.fingerprint} row=${row} most=${most} />`)}
        </ol>`
      : html`<${Empty} title=${_("Nothing is dead")}>
          <p>${_("Jobs that die come here, those of one cause together, to be repaired and brought back.")}</p>
        </${Empty}>`}
    ${section.more > 0 && html`<p class="chokaq-card-foot">${ngettext("%(count)s more group", "%(count)s more groups", section.more)}</p>`}
  </${Card}>`;
}
