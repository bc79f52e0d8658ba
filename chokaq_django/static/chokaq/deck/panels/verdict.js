// Is anything stuck, late or failing? Why? What is safe to do? The first thing on the overview.

import { Act, Icon, html, how, queueUrl, rowsOf, url, useSection, useStatus } from "../components.js";
import { clock, count, rate as perSecond, said, seconds } from "../format.js";
import { _, ngettext } from "../i18n.js";
import { actionWord } from "./bulk.js";

const MOST = 4;
const ORDER = ["bad", "warn", "info"];
const TONES = { healthy: "good", degraded: "warn", unhealthy: "bad" };

/** Where one looks next, and what is safe to do, for each code of a finding. */
const NEXT = {
  no_worker: () => ({ command: "python manage.py runworker", links: [[_("Fleet"), url("fleet")]] }),
  queue_without_worker: ({ target }) => ({
    command: `python manage.py runworker --queues=${shellWord(target)}`,
    links: [[_("Its queue"), queueUrl(target)]],
  }),
  worker_silent: () => ({ links: [[_("Fleet"), url("fleet")]] }),
  queue_lag: ({ target }) => ({ links: [[_("Its queue"), queueUrl(target)], [_("Running jobs"), url("active", { status: "processing", queue: target })]] }),
  circuit_open: ({ target }) => ({ links: [[_("Circuits"), url("circuits")], [_("Why they fail"), url("dlq", { type: target, since: "1d" })]] }),
  dlq_growth: () => ({ links: [[_("What fails"), url("failures") ?? url("dlq")]] }),
  migrations_pending: () => ({ command: "python manage.py migrate" }),
  tables_missing: () => ({ command: "python manage.py migrate" }),
};

function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

const STANDS = {
  paused: () => _("A bulk operation is paused."),
  stopped: () => _("A bulk operation has stopped by itself."),
  failed: () => _("A bulk operation has failed."),
  awaits: () => _("A bulk operation waits for somebody to confirm it."),
};

/** What no check calls ill, but whoever is on call wants to know: paused queues with due jobs, bulk operations that stopped.
    Apart from the verdict: a canary that stops an operation has done its work, and nothing is stuck or late because of it. */
function notes(queues, bulk) {
  const found = rowsOf(queues)
    .filter((row) => row.state === "paused" && row.due > 0)
    .map((row) => ({
      tone: "info",
      key: `paused ${row.name}`,
      text: ngettext("The queue %(name)s is paused: %(count)s due job waits.", "The queue %(name)s is paused: %(count)s due jobs wait.", row.due, {
        name: row.name,
      }),
      links: [[_("Its queue"), queueUrl(row.name)]],
      act: html`<${Act} page="queues" act="resume" fields=${{ name: row.name }} icon="play" label=${_("Resume")} />`,
    }));
  for (const row of rowsOf(bulk)) {
    if (row.state === "paused" || row.state === "stopped" || row.state === "failed") {
      found.push({
        tone: row.state === "paused" ? "info" : "warn",
        key: `bulk ${row.id}`,
        text: `${actionWord(row)}, ${count(row.done)} / ${count(row.total)}: ${[STANDS[row.awaits_go ? "awaits" : row.state](), said(row.said, row.message)].filter(Boolean).join(" ")}`,
        links: [[_("Look at it"), url("bulk_one", {}, { id: row.id })]],
      });
    }
  }
  return found;
}

/** A hint with its `commands` set as code. */
function Marked({ text }) {
  return text.split("`").map((part, n) => (n % 2 ? html`<code key=${n}>${part}</code>` : part));
}

function Problem({ tone, text, hint, command, links = [], act }) {
  return html`<li class=${`chokaq-problem chokaq-${tone}`}>
    <span class="chokaq-dot" aria-hidden="true"></span>
    <div class="chokaq-problem-text">
      <strong class="chokaq-strong">${text}</strong>
      ${" "}
      ${command
        ? html`<span class="chokaq-muted">${_("Safe to do:")} <code>${command}</code></span>`
        : hint && html`<span class="chokaq-muted"><${Marked} text=${hint} /></span>`}
    </div>
    <div class="chokaq-buttons">
      ${command &&
      html`<button type="button" class="chokaq-button chokaq-button-small" data-copy=${command}>
        <${Icon} name="copy" /> ${_("Copy the command")}
      </button>`}
      ${act} ${links.filter(([, href]) => href).map(([label, href]) => html`<a class="chokaq-button chokaq-button-small" href=${href}>${label}</a>`)}
    </div>
  </li>`;
}

function calm(tiles, queues) {
  const rate = tiles?.rates["1m"];
  if (!rate) return "";
  const rows = rowsOf(queues);
  const lag = Math.max(0, ...rows.map((row) => row.lag_max ?? 0));
  const due = rows.reduce((sum, row) => sum + row.due, 0); // of queues too in which nothing is ever late
  return [
    _("%(rate)s jobs a second", { rate: perSecond(rate.done_per_second) }),
    lag ? _("longest wait %(time)s", { time: seconds(lag) }) : due ? _("%(count)s due", { count: count(due) }) : _("nothing waits"),
    ngettext("%(count)s died within a minute", "%(count)s died within a minute", rate.dead),
  ].join(" · ");
}

function Problems({ all }) {
  return (
    all.length > 0 &&
    html`<ul>
      ${all.slice(0, MOST).map((problem) => html`<${Problem} ...${problem} key=${problem.key} />`)}
    </ul>`
  );
}

export function Verdict() {
  const health = useSection("health");
  const queues = useSection("queues");
  const bulk = useSection("bulk");
  const tiles = useSection("tiles");
  const { mode } = useStatus();
  if (!health) return html`<div class="chokaq-verdict chokaq-quiet" aria-busy="true"><p>${_("Reading…")}</p></div>`;
  const findings = health.findings.map((finding) => ({
    tone: finding.state === "unhealthy" ? "bad" : "warn",
    key: `${finding.code} ${finding.target}`,
    text: said(finding.said, finding.message),
    hint: said(finding.said_hint, finding.hint),
    ...NEXT[finding.code]?.(finding),
  }));
  const byTone = (a, b) => ORDER.indexOf(a.tone) - ORDER.indexOf(b.tone);
  const problems = findings.sort(byTone);
  const looks = notes(queues, bulk).sort(byTone);
  const worst = TONES[health.state] ?? "bad";
  const words = {
    // A few deaths are below what the checks call ill, but they are failures.
    good: tiles?.rates["1m"]?.dead ? _("Nothing is stuck or late.") : _("Nothing is stuck, late or failing."),
    warn: _("Something needs a look."),
    bad: _("Something is wrong."),
  };
  const more = Math.max(0, problems.length - MOST) + (health.more ?? 0);
  return html`<section class=${`chokaq-verdict chokaq-${worst}`} aria-label=${_("State of the system")} data-state=${health.state}>
    <header>
      <span class="chokaq-verdict-sign" aria-hidden="true"><${Icon} name=${worst === "good" ? "check" : "failures"} /></span>
      <h2 title=${how(_("by the checks of “chokaq health”"), health.as_of)}><span role="status">${words[worst]}</span></h2>
      <p class="chokaq-muted">
        ${mode === "stale" ? _("As it was at %(time)s: the database does not answer.", { time: clock(health.as_of) }) : calm(tiles, queues)}
      </p>
    </header>
    <${Problems} all=${problems} />
    ${more > 0 && html`<p class="chokaq-muted"><a href=${url("health")}>${ngettext("%(count)s more", "%(count)s more", more)}</a></p>`}
    ${looks.length > 0 && html`<h3>${_("Needs a look")}</h3>`}
    <${Problems} all=${looks} />
    ${looks.length > MOST && html`<p class="chokaq-muted"><a href=${url("bulk")}>${ngettext("%(count)s more", "%(count)s more", looks.length - MOST)}</a></p>`}
  </section>`;
}
