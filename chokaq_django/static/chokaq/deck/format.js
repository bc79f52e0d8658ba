// Numbers, durations and times as text, in the page's language and the viewer's zone.

import { _, sentence } from "./i18n.js";

const language = document.documentElement.lang || "en";
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat(language, { notation: "compact", maximumSignificantDigits: 3 });
const one = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const two = new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const noTenths = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 0 });
const onePercent = new Intl.NumberFormat(language, { style: "percent", minimumFractionDigits: 1, maximumFractionDigits: 1 });
const anyPercent = new Intl.NumberFormat(language, { style: "percent", maximumFractionDigits: 1 });
const UNITS = [
  [86400, (count) => _("%(count)s d", { count })],
  [3600, (count) => _("%(count)s h", { count })],
  [60, (count) => _("%(count)s min", { count })],
  [1, (count) => _("%(count)s s", { count })],
];
const thousandths = (count) => _("%(count)s ms", { count });
export const NOTHING = "–";

let offset = 0; // milliseconds that the server's clock is ahead of the browser's

/** Learn the server's clock from a time that it sent just now. */
export function setServerTime(at) {
  const sent = parse(at)?.getTime();
  if (!Number.isFinite(sent)) return;
  // A message is never younger than it is: the largest offset seen is the nearest to the truth, and clocks drift little.
  const seen = sent - Date.now();
  offset = offset === 0 || seen > offset || offset - seen > 5000 ? seen : offset;
}

/** Now, by the server's clock, in milliseconds. */
export const serverNow = () => Date.now() + offset;

/** A Date from ISO text, epoch seconds or a Date; null for anything else. */
export function parse(value) {
  if (value === null || value === undefined || value === "") return null;
  const date = value instanceof Date ? value : new Date(typeof value === "number" ? value * 1000 : value);
  return Number.isNaN(date.getTime()) ? null : date;
}

export function count(value) {
  return value === null || value === undefined ? NOTHING : whole.format(value);
}

/** A count that fits a tile; above 99,999 it is rounded, and the title must hold the whole one. */
export function short(value) {
  if (value === null || value === undefined) return NOTHING;
  return Math.abs(value) >= 100000 ? compact.format(value) : whole.format(value);
}

export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return NOTHING;
  if (perSecond === 0) return "0";
  return perSecond >= 100 ? whole.format(perSecond) : perSecond >= 1 ? one.format(perSecond) : two.format(perSecond);
}

export function percent(share) {
  if (share === null || share === undefined) return NOTHING;
  return (share === 0 || share >= 0.1 ? noTenths : onePercent).format(share);
}

/** Per cent, of 100: "40%". */
export const wholePercent = (value) => noTenths.format(value / 100);

/** Seconds with at most two units: "3 h 20 min"; short ones with a tenth unless they are not wanted. */
export function seconds(value, tenths = true) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NOTHING;
  if (value < 0) return `−${seconds(-value, tenths)}`;
  const inSeconds = UNITS.at(-1)[1];
  if (value === 0) return inSeconds("0");
  if (value < 1) return thousandths(whole.format(value * 1000));
  if (value < 10 && tenths) return inSeconds(one.format(value));
  const parts = [];
  let rest = Math.round(value);
  for (const [size, unit] of UNITS) {
    const amount = Math.floor(rest / size);
    rest -= amount * size;
    if (amount) parts.push(unit(whole.format(amount)));
    else if (parts.length) break;
    if (parts.length === 2) break;
  }
  return parts.join(" ");
}

/** A difference with its sign: "+3 s", "−5 min". */
export const signedSeconds = (value) => (value > 0 ? `+${seconds(value)}` : seconds(value));

/** A text of the server in the page's language; as it came where nobody has said of what it is made. */
export function said(parts, text) {
  if (!parts) return text;
  return sentence(parts, inWords);
}

/** A value of a sentence: a number, a span, a share such as "12.5%", or a text. */
function inWords(value) {
  if (typeof value === "number") return count(value);
  if (value?.seconds !== undefined) return span(value.seconds);
  return /^\d+(\.\d+)?%$/.test(value) ? anyPercent.format(Number.parseFloat(value) / 100) : value;
}

/** Whole seconds with at most two units, as the server says them. */
const span = (value) => seconds(value < 1 ? value : Math.round(value), false);

export const milliseconds = (value) => (value === null || value === undefined ? NOTHING : seconds(value / 1000));

/** Seconds as one rounded unit: "3 min". */
export function about(value) {
  if (value < 1) return _("now");
  const [size, unit] = UNITS.find(([size]) => value >= size);
  return unit(whole.format(Math.floor(value / size)));
}

/** How long ago, or in how long. */
export function age(value) {
  const date = parse(value);
  if (!date) return NOTHING;
  const passed = (serverNow() - date.getTime()) / 1000;
  if (Math.abs(passed) < 1) return _("now");
  return passed > 0 ? _("%(time)s ago", { time: about(passed) }) : _("in %(time)s", { time: about(-passed) });
}

export const isUtc = () => document.documentElement.dataset.chokaqZone === "utc";

const formats = new Map();
function formatter(style) {
  const key = `${style}${isUtc()}`;
  if (!formats.has(key)) {
    const options = { hourCycle: "h23", hour: "2-digit", minute: "2-digit", second: "2-digit" };
    if (style === "full") Object.assign(options, { year: "numeric", month: "2-digit", day: "2-digit" });
    if (isUtc()) options.timeZone = "UTC";
    formats.set(key, new Intl.DateTimeFormat("sv-SE", options)); // 2026-11-30 14:03:22, whatever the language
  }
  return formats.get(key);
}

/** Date and time to the second, in the viewer's zone or UTC, with "UTC" behind it there. */
export function moment(value) {
  const date = parse(value);
  return date ? formatter("full").format(date) + (isUtc() ? " UTC" : "") : NOTHING;
}

/** The time of day. */
export function clock(value) {
  const date = parse(value);
  return date ? formatter("clock").format(date) : NOTHING;
}

/** For titles: the time in both zones. */
export function bothZones(value) {
  const date = parse(value);
  if (!date) return "";
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" }).format(date);
  return `${local} (${zone}) · ${date.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}
