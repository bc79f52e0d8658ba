// Health: the server draws the findings; they are drawn anew when the feed has others.

import { pageFeed } from "./feed.js";
import { Region } from "./region.js";

const region = new Region("chokaq-health");

pageFeed().on("health", ({ state, findings }) => {
  const signature = [state, ...findings.map(({ code, target }) => `${code}:${target ?? ""}`).sort()].join(" ");
  if (signature !== region.element.dataset.signature) region.soon();
});
