// The badge that says how fresh the page is.

import { config, html, useBeat, useEffect, useState, useStatus } from "./components.js";
import { about, clock, serverNow } from "./format.js";
import { _ } from "./i18n.js";

const WORDS = {
  connecting: () => [_("Connecting"), _("The first figures are on their way.")],
  live: () => [_("Live"), _("Changes come as they happen.")],
  polling: () => [
    _("Polling"),
    config.socket
      ? _("No socket: the page asks every two seconds, and keeps trying to open one.")
      : _("This server has no sockets: the page asks every two seconds."),
  ],
  stale: () => [_("Stale"), _("The server or its database does not answer. What you see is old; the page keeps asking.")],
  paused: () => [_("Paused"), _("The page was out of sight. It goes on when you look at it.")],
  signed_out: () => [_("Logged out"), _("Load the page again to log in.")],
  refused: () => [_("Refused"), _("You may not look at the Deck any more.")],
};

function freshness({ mode, at, since }) {
  if (mode === "stale" && since) return _("since %(time)s", { time: clock(new Date(since)) });
  if (at === null) return "";
  const passed = Math.max(0, (serverNow() - at) / 1000);
  return passed < 1.5 ? _("now") : _("%(time)s old", { time: about(passed) });
}

export function LiveBadge() {
  useBeat();
  const status = useStatus();
  const [word, meaning] = WORDS[status.mode]();
  const [said, say] = useState("");
  // Only changes of the mode are read aloud, not every second of age.
  useEffect(() => say(status.mode === "connecting" ? "" : `${word}. ${meaning}`), [status.mode]);
  return html`<span class="chokaq-live" data-mode=${status.mode} title=${meaning}>
    <span class="chokaq-dot" aria-hidden="true"></span>
    ${word}
    <span class="chokaq-live-age" aria-hidden="true">${freshness(status)}</span>
    <span class="chokaq-hidden-visually" role="status">${said}</span>
  </span>`;
}
