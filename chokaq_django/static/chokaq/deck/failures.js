// The groups stay as they are: the server draws them again when the feed says that one of them has changed.

import { pageFeed } from "./feed.js";
import { Region } from "./region.js";

const OFTEN = 3_000; // milliseconds between two drawings: in a burst, every tick brings another count

const region = new Region(document.getElementById("chokaq-failures") ? "chokaq-failures" : "chokaq-failure");
const fingerprint = region.element.dataset.fingerprint;

/** What is drawn of a group; its age grows by itself. */
const stateOf = (row) => [row.fingerprint, row.count, row.last_hour, row.acknowledged, row.assignee, row.came_again].join("|");

let known = null;

pageFeed().on("groups", (section) => {
  if (!section) return;
  const rows = fingerprint ? [section.rows[fingerprint]].filter(Boolean) : section.order.map((key) => section.rows[key]);
  const now = [fingerprint ? "" : section.more, ...rows.map(stateOf)].join("\n");
  if (known !== null && now !== known) region.soon(OFTEN);
  known = now;
});
