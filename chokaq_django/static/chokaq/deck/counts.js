// Counts beside the pages of the navigation: only what asks for somebody.

import { short } from "./format.js";

const EVERY = 30000; // milliseconds between two looks of a page that does not follow the overview

function put(name, text, tone = "") {
  const element = document.querySelector(`[data-nav-count="${name}"]`);
  if (!element) return;
  element.textContent = text;
  element.className = `chokaq-nav-count ${tone && `chokaq-${tone}`}`;
}

/** What each section of the overview says. */
const COUNTS = {
  tiles: ({ failed }) => put("dlq", failed.value ? short(failed.value) : "", "quiet"),
  queues: ({ rows }) => {
    const late = Object.values(rows).filter((row) => row.lag_level !== "ok");
    put("queues", late.length || "", late.some((row) => row.lag_level === "critical") ? "bad" : "warn");
  },
  circuits: ({ rows }) => put("circuits", Object.values(rows).filter((row) => row.state !== "closed").length || "", "bad"),
  fleet: ({ rows }) => put("fleet", Object.values(rows).filter((row) => row.state === "silent").length || "", "bad"),
  bulk: ({ rows }) => put("bulk", Object.values(rows).filter((row) => row.ended_at === null).length || "", "quiet"),
  health: ({ state, findings }) => {
    put("health", state === "healthy" || !findings.length ? "" : findings.length, state === "unhealthy" ? "bad" : "warn");
  },
};

/** By the feed of a page that follows the overview. */
export function followCounts(feed) {
  for (const [section, count] of Object.entries(COUNTS)) feed.on(section, count, "overview");
}

/** On other pages: looked up now, and again as long as somebody looks at the page and the server answers. */
export async function lookUpCounts(address) {
  if (!document.hidden) {
    const answer = await fetch(`${address}?topic=overview`, { credentials: "same-origin" }).catch(() => null);
    if (!answer?.ok) return;
    const { messages } = await answer.json();
    for (const { type, sections } of messages) {
      if (type === "snapshot") for (const [section, count] of Object.entries(COUNTS)) sections[section] && count(sections[section]);
    }
  }
  setTimeout(lookUpCounts, EVERY, address);
}
