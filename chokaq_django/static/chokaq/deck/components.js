// What panels are made of. Preact without a build step: html`<${Part} name=${value} />`. Text is only ever interpolated,
// so that whatever a job is called stays text.

import { html, render, useEffect, useMemo, useRef, useState } from "../vendor/preact/htm-preact-standalone.js";
import { config, may, url } from "./config.js";
import { pageFeed } from "./feed.js";
import { about, age, bothZones, clock, moment, parse, seconds, serverNow, wholePercent } from "./format.js";
import { _ } from "./i18n.js";
import { ZONE_CHANGED } from "./times.js";

export { jobUrl, queueUrl } from "./config.js";
export { config, html, may, render, url, useEffect, useMemo, useRef, useState };

/** Put a component into the element with this id, if the page has it. */
export function mount(id, component) {
  const element = document.getElementById(id);
  if (element) render(component, element);
}

// -- what changes ------------------------------------------------------------------------------------------------------

/** A section of the feed; undefined until it is there. */
export function useSection(name, topic) {
  const [section, setSection] = useState(() => pageFeed().get(name, topic));
  useEffect(() => pageFeed().on(name, setSection, topic), [name, topic]);
  return section;
}

export function useStatus() {
  const [status, setStatus] = useState(() => pageFeed().status);
  useEffect(() => pageFeed().onStatus(setStatus), []);
  return status;
}

const beats = new Set();
setInterval(() => {
  if (!document.hidden) for (const beat of beats) beat(Date.now());
}, 1000);

/** Draws the component again every second, for ages and countdowns. */
export function useBeat() {
  const [, beat] = useState(0);
  useEffect(() => {
    beats.add(beat);
    return () => beats.delete(beat);
  }, []);
}

/** Draws the component again when the viewer changes the zone of times. */
export function useZone() {
  const [, turn] = useState(0);
  useEffect(() => {
    const changed = () => turn((n) => n + 1);
    document.addEventListener(ZONE_CHANGED, changed);
    return () => document.removeEventListener(ZONE_CHANGED, changed);
  }, []);
}

const narrow = matchMedia("(max-width: 820px)"); // as in the stylesheets

/** Whether the screen has room for one column only. */
export function useNarrow() {
  const [is, set] = useState(narrow.matches);
  useEffect(() => {
    const changed = () => set(narrow.matches);
    narrow.addEventListener("change", changed);
    return () => narrow.removeEventListener("change", changed);
  }, []);
  return is;
}

/** The rows of a keyed section in their order. */
export function rowsOf(section) {
  if (!section) return [];
  return (section.order ?? Object.keys(section.rows)).map((key) => section.rows[key]).filter(Boolean);
}

// -- text --------------------------------------------------------------------------------------------------------------

const HOW = {
  exact: () => _("counted"),
  counter: () => _("from counters that every move of a job keeps"),
  estimate: () => _("estimated"),
};

/** For a title: how a figure was got (a way of the feed, or words of one's own), and when. */
export function how(way, asOf) {
  const words = HOW[way]?.() ?? way;
  const at = parse(asOf);
  return at ? _("%(how)s, as of %(time)s", { how: words, time: clock(at) }) : words;
}

export function Icon({ name }) {
  return html`<svg class="chokaq-icon" aria-hidden="true"><use href=${`#chokaq-icon-${name}`}></use></svg>`;
}

export function Badge({ tone = "quiet", title, children }) {
  return html`<span class=${`chokaq-badge chokaq-${tone}`} title=${title}>${children}</span>`;
}

/** An age that grows, with the time in its title. */
export function Age({ at }) {
  useBeat();
  const date = parse(at);
  if (!date) return html`<span class="chokaq-muted">–</span>`;
  return html`<time data-chokaq-own datetime=${date.toISOString()} title=${bothZones(date)}>${age(date)}</time>`;
}

/** For how long something has gone on: an age without the word "ago". */
export function Since({ at }) {
  useBeat();
  const date = parse(at);
  if (!date) return html`<span class="chokaq-muted">–</span>`;
  const passed = Math.max(0, (serverNow() - date.getTime()) / 1000);
  const text = passed < 60 ? `${Math.floor(passed)} s` : seconds(passed);
  return html`<time data-chokaq-own datetime=${date.toISOString()} title=${bothZones(date)}>${text}</time>`;
}

/** A time of day, or with `full` date and time. */
export function Time({ at, full = false }) {
  useZone();
  const date = parse(at);
  if (!date) return html`<span class="chokaq-muted">–</span>`;
  const text = full ? moment(date) : clock(date);
  return html`<time data-chokaq-own datetime=${date.toISOString()} title=${bothZones(date)}>${text}</time>`;
}

/** Seconds until `at`, counted down; `over` stands there afterwards. */
export function Countdown({ at, over }) {
  useBeat();
  const left = (parse(at)?.getTime() - serverNow()) / 1000;
  if (!Number.isFinite(left)) return null;
  return html`<span class="chokaq-nowrap">${left >= 1 ? about(left) : over}</span>`;
}

/** The end of an id, which tells jobs of one moment apart; the whole of it in the title. */
export function ShortId({ id, href }) {
  const text = id.length > 12 ? `…${id.slice(-8)}` : id;
  return href
    ? html`<a class="chokaq-key" href=${href} title=${id}>${text}</a>`
    : html`<span class="chokaq-key" title=${id}>${text}</span>`;
}

// -- shapes ------------------------------------------------------------------------------------------------------------

export function Card({ title, count, asOf, tools, tone, children, foot, className = "", id }) {
  const heading = `chokaq-card-${id}`;
  return html`<section class=${`chokaq-card ${tone ? `chokaq-${tone}` : ""} ${className}`} aria-labelledby=${heading} id=${id}>
    <header class="chokaq-card-head">
      <h2 id=${heading} title=${asOf && how(_("read from the job database"), asOf)}>
        ${title} ${count !== undefined && html`<span class="chokaq-muted">${count}</span>`}
      </h2>
      ${tools && html`<div class="chokaq-card-tools">${tools}</div>`}
    </header>
    ${children} ${foot && html`<footer class="chokaq-card-foot">${foot}</footer>`}
  </section>`;
}

export function Empty({ title, children }) {
  return html`<div class="chokaq-empty">
    <h3>${title}</h3>
    ${children}
  </div>`;
}

/** Stands where a panel will be, until the feed has spoken. */
export function Waiting() {
  return html`<div class="chokaq-empty chokaq-skeleton" aria-busy="true">${_("Reading…")}</div>`;
}

export function Progress({ value, tone, label }) {
  const shown = Math.max(0, Math.min(100, value ?? 0));
  return html`<span class=${`chokaq-progress ${tone ? `chokaq-${tone}` : ""}`}>
    <progress max="100" value=${shown} aria-label=${label}></progress>
    <span class="chokaq-progress-text">${wholePercent(Math.floor(shown))}</span>
  </span>`;
}

/** How much of something is taken, as a small bar. */
export function Meter({ value, max, tone, label }) {
  return html`<span class=${`chokaq-meter ${tone ? `chokaq-${tone}` : ""}`}>
    <progress max=${max || 1} value=${Math.min(value, max)} aria-label=${label}></progress>
  </span>`;
}

/** A line of figures without axes. What it shows must stand beside it as text. */
export function Sparkline({ values, tone = "info" }) {
  const width = 120;
  const height = 28;
  const path = useMemo(() => {
    const top = Math.max(1, ...values);
    const step = width / Math.max(1, values.length - 1);
    const points = values.map((value, n) => `${(n * step).toFixed(1)} ${(height - 2 - (value / top) * (height - 5)).toFixed(1)}`);
    return points.length ? `M${points.join("L")}` : "";
  }, [values]);
  return html`<svg class=${`chokaq-spark chokaq-${tone}`} viewBox="0 0 ${width} ${height}" preserveAspectRatio="none" aria-hidden="true">
    <path class="chokaq-spark-area" d=${path && `${path}L${width} ${height}L0 ${height}Z`}></path>
    <path class="chokaq-spark-line" d=${path}></path>
  </svg>`;
}

// -- acts --------------------------------------------------------------------------------------------------------------

/** A button that acts: a form of its own, sent by acts.js. `confirm` holds what acts.js asks: {text, title, word, reason,
    tone}. Nothing is drawn for a user who may not. */
export function Act({
  page,
  act,
  fields = {},
  permission = "operate",
  icon,
  label,
  words = label,
  tone = "",
  confirm = null,
  disabled = false,
  title = label,
  small = true,
  iconOnly = false,
}) {
  useStatus(); // permissions may have changed
  if (!may(permission)) return null;
  const look = ["chokaq-button", tone && `chokaq-button-${tone}`, small && "chokaq-button-small", iconOnly && "chokaq-button-icon"];
  const question = confirm && {
    "data-confirm": confirm.text,
    "data-confirm-title": confirm.title,
    "data-confirm-word": confirm.word,
    "data-confirm-reason": confirm.reason ? "" : undefined,
    "data-confirm-label": confirm.label,
    "data-tone": confirm.tone,
  };
  return html`<form method="post" action=${url(page)} data-live ...${question ?? {}}>
    <input type="hidden" name="csrfmiddlewaretoken" value=${config.csrf} />
    <input type="hidden" name="act" value=${act} />
    ${Object.entries(fields).map(([name, value]) => html`<input type="hidden" key=${name} name=${name} value=${value} />`)}
    <button class=${look.filter(Boolean).join(" ")} disabled=${disabled} title=${title} aria-label=${iconOnly ? label : undefined}>
      ${icon && html`<${Icon} name=${icon} />`} ${!iconOnly && words}
    </button>
  </form>`;
}
