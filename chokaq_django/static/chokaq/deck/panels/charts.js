// Charts over time: how much was done, what failed, how long jobs waited and ran.

import uPlot from "../../vendor/uplot/uPlot.esm.js";
import { LOOK_CHANGED } from "../choices.js";
import { Card, html, url, useEffect, useMemo, useRef, useState } from "../components.js";
import { bothZones, count, isUtc, milliseconds, moment, rate } from "../format.js";
import { _ } from "../i18n.js";
import { ZONE_CHANGED } from "../times.js";

const RANGES = () => [
  ["15m", _("15 min")],
  ["1h", _("1 h")],
  ["6h", _("6 h")],
  ["1d", _("1 day")],
  ["7d", _("7 days")],
];
const SOONEST = 10000; // milliseconds between two looks: the server keeps its answer for so long
const HEIGHT = 136;

const WHOLE = [1, 2, 5].flatMap((n) => [0, 1, 2, 3, 4, 5, 6, 7, 8].map((power) => n * 10 ** power)).sort((a, b) => a - b);

const perSecond = (counts, span) => counts.map((value) => (value === null ? null : value / span));

const CHARTS = {
  done: {
    title: () => _("Throughput"),
    unit: (value) => _("%(rate)s /s", { rate: rate(value) }),
    lines: ({ done, span }) => [{ name: _("succeeded"), color: "--chokaq-good", values: perSecond(done, span), area: true }],
  },
  dead: {
    title: () => _("Failures"),
    unit: (value) => count(value),
    whole: true,
    lines: ({ dead, retried }) => [
      { name: _("died"), color: "--chokaq-bad", values: dead, area: true },
      { name: _("retried"), color: "--chokaq-warn", values: retried },
    ],
  },
  wait: {
    title: () => _("Wait time"),
    unit: milliseconds,
    tick: powerOfTen,
    scale: "log",
    lines: ({ wait }) => percentiles(wait),
  },
  run: {
    title: () => _("Run time"),
    unit: milliseconds,
    tick: powerOfTen,
    scale: "log",
    lines: ({ run }) => percentiles(run),
  },
};

/** 100 ms, 1 s, 100 s: one unit, so that it fits beside the axis. */
function powerOfTen(value) {
  return value < 1000 ? `${value} ms` : `${count(value / 1000)} s`;
}

function percentiles({ p50, p95, p99 }) {
  return [
    { name: "p50", color: "--chokaq-info", values: p50 },
    { name: "p95", color: "--chokaq-plan", values: p95 },
    { name: "p99", color: "--chokaq-bad", values: p99 },
  ];
}

// -- one chart -------------------------------------------------------------------------------------------------------

function paint(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Colours as the canvas takes them: whatever CSS calls them, as the browser computes it. */
function resolved(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(${name})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

function faint(color, share) {
  return color.startsWith("color(") ? color.replace(")", ` / ${share})`) : color.replace("rgb(", "rgba(").replace(")", `, ${share})`);
}

function options(chart, lines, width, onCursor) {
  const ink = resolved("--chokaq-ink-quiet");
  const grid = { stroke: resolved("--chokaq-line"), width: 1 };
  const font = `11px ${paint("--font-family-primary") || "system-ui"}`;
  const axis = { stroke: ink, grid, ticks: { show: false }, font, gap: 4 };
  return {
    width,
    height: HEIGHT,
    padding: [8, 18, 0, 0], // room for half a label at the right end
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: "chokaq" } },
    tzDate: (seconds) => (isUtc() ? uPlot.tzDate(new Date(seconds * 1000), "UTC") : new Date(seconds * 1000)),
    scales: {
      x: { time: true },
      y:
        chart.scale === "log"
          ? { distr: 3, range: (_plot, low, high) => uPlot.rangeLog(Math.max(1, low ?? 1), Math.max(10, high ?? 10), 10, true) }
          : { range: (_plot, _low, high) => [0, Math.max(high ?? 0, 1) * 1.08] },
    },
    axes: [
      { ...axis, size: 22, space: 70, values: timeLabels },
      {
        ...axis,
        size: 50,
        space: 30,
        splits: chart.scale === "log" ? powersOfTen : undefined,
        filter: (_plot, ticks) => ticks,
        incrs: chart.whole ? WHOLE : undefined,
        values: (_plot, ticks) => ticks.map((value) => (value === null ? null : (chart.tick ?? chart.unit)(value))),
      },
    ],
    series: [
      {},
      ...lines.map((line) => {
        const color = resolved(line.color);
        return {
          label: line.name,
          show: line.show,
          stroke: color,
          width: 1.5,
          points: { show: false },
          fill: line.area ? faint(color, 0.16) : undefined,
        };
      }),
    ],
    hooks: { setCursor: [(plot) => onCursor(plot.cursor.idx)] },
  };
}

function powersOfTen(_plot, _axis, low, high) {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = Math.ceil((last - first) / 4) || 1; // five lines at most
  const found = [];
  for (let power = first; power <= last; power += step) found.push(10 ** power);
  return found;
}

const HALF_A_LABEL = 18; // pixels

/** The times below a chart; one at its left end would run into the lowest figure beside it. */
function timeLabels(plot, ticks) {
  const long = ticks.length > 1 && ticks[1] - ticks[0] >= 86400;
  return ticks.map((tick) => {
    if (plot.valToPos(tick, "x") < HALF_A_LABEL) return null;
    const text = moment(tick);
    return long ? text.slice(5, 10) : text.slice(11, 16);
  });
}

/** Nothing is drawn at zero on a logarithmic scale: a wait of 0 ms stands at 1. */
function drawable(chart, values) {
  return chart.scale === "log" ? values.map((value) => (value === null ? null : Math.max(1, value))) : values;
}

function Plot({ chart, series, lines, onCursor, label }) {
  const place = useRef(null);
  const plot = useRef(null);
  const [look, setLook] = useState(0);
  const data = useMemo(() => [series.at, ...lines.map((line) => drawable(chart, line.values))], [series, lines]);
  const shown = lines.map((line) => line.show).join();

  useEffect(() => {
    const again = () => setLook((n) => n + 1);
    document.addEventListener(LOOK_CHANGED, again);
    document.addEventListener(ZONE_CHANGED, again);
    return () => {
      document.removeEventListener(LOOK_CHANGED, again);
      document.removeEventListener(ZONE_CHANGED, again);
    };
  }, []);

  useEffect(() => {
    const element = place.current;
    plot.current = new uPlot(options(chart, lines, element.clientWidth, onCursor), data, element);
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [chart, look, shown]);

  useEffect(() => plot.current?.setData(data), [data]);

  return html`<div ref=${place} class="chokaq-plot" role="img" aria-label=${label}></div>`;
}

function newest(values) {
  for (let n = values.length - 1; n >= 0; n -= 1) if (values[n] !== null) return values[n];
  return null;
}

function Legend({ lines, chart, at, index, onToggle }) {
  return html`<div class="chokaq-legend">
    ${lines.map(
      (line) => html`<button type="button" key=${line.name} aria-pressed=${line.show} onClick=${() => onToggle(line.name)}
        title=${line.show ? _("Leave this line out") : _("Show this line")}>
        <span class=${`chokaq-line-name ${line.color.slice(2)}`}>${line.name}</span> <strong>${chart.unit(index === null ? newest(line.values) : line.values[index])}</strong>
      </button>`,
    )}
    <span class="chokaq-muted chokaq-legend-at" title=${bothZones(at)}>${index === null ? "" : moment(at).slice(5)}</span>
  </div>`;
}

function Chart({ name, series }) {
  const chart = CHARTS[name];
  const [off, setOff] = useState([]);
  const [index, setIndex] = useState(null);
  const lines = useMemo(
    () => chart.lines(series).map((line) => ({ ...line, show: !off.includes(line.name) })),
    [series, off],
  );
  const toggle = (line) => setOff(off.includes(line) ? off.filter((item) => item !== line) : [...off, line]);
  const spoken = lines.map((line) => `${line.name} ${chart.unit(newest(line.values))}`).join(", ");
  const held = index !== null && index < series.at.length ? index : null;
  return html`<figure class="chokaq-chart">
    <figcaption>${chart.title()}</figcaption>
    <${Legend} lines=${lines} chart=${chart} index=${held} at=${held === null ? null : series.at[held]} onToggle=${toggle} />
    <${Plot} chart=${chart} series=${series} lines=${lines} label=${_("%(title)s, newest: %(values)s", { title: chart.title(), values: spoken })}
      onCursor=${(at) => setIndex(at ?? null)} />
  </figure>`;
}

// -- all of them -----------------------------------------------------------------------------------------------------

/** Without the last slot, which still runs: what it has so far would look as if all had fallen. */
function finished(series) {
  const cut = (value) => (Array.isArray(value) ? value.slice(0, -1) : value);
  const all = (columns) => Object.fromEntries(Object.entries(columns).map(([name, value]) => [name, cut(value)]));
  return { ...all(series), wait: all(series.wait), run: all(series.run) };
}

/** The series of a range, looked at again as long as the page is seen. */
function useSeries(range, queue, type) {
  const [series, setSeries] = useState(null);
  const [failed, setFailed] = useState(false);
  useEffect(() => {
    let timer = 0;
    let over = false;
    async function look() {
      let pause = SOONEST;
      if (!document.hidden) {
        try {
          const answer = await fetch(url("series", { range, queue, type }), { headers: { Accept: "application/json" }, credentials: "same-origin" });
          if (!answer.ok) throw new Error(answer.status);
          const found = await answer.json();
          if (over) return;
          setSeries(finished(found));
          setFailed(false);
          pause = Math.max(SOONEST, Math.min(60000, (found.span * 1000) / 2));
        } catch {
          if (!over) setFailed(true);
        }
      }
      if (!over) timer = setTimeout(look, pause);
    }
    look();
    const seen = () => {
      if (document.hidden) return;
      clearTimeout(timer);
      look();
    };
    document.addEventListener("visibilitychange", seen);
    return () => {
      over = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, [range, queue, type]);
  return [series, failed];
}

export function Charts({ queue, type, names = ["done", "dead", "wait", "run"] }) {
  const [range, setRange] = useState("15m");
  const [series, failed] = useSeries(range, queue, type);
  const tools = html`${failed && html`<span class="chokaq-bad">${_("no answer")}</span>`}
    <span class="chokaq-segments" role="group" aria-label=${_("Range")}>
      ${RANGES().map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${range === name} onClick=${() => setRange(name)}>${label}</button>`)}
    </span>`;
  return html`<${Card} id="charts" className="chokaq-charts-card" title=${_("Over time")} tools=${tools}>
    <div class="chokaq-charts" aria-busy=${series === null}>
      ${names.map((name) => (series ? html`<${Chart} key=${name} name=${name} series=${series} />` : html`<div key=${name} class="chokaq-chart chokaq-skeleton"></div>`))}
    </div>
  </${Card}>`;
}
