// Behaviour that every page of the Deck, and every list of admin inside it, shares; see the top of deck.css.

import { startActs } from "./acts.js";
import { startChoices } from "./choices.js";
import { config } from "./config.js";
import { followCounts, lookUpCounts } from "./counts.js";
import { pageFeed } from "./feed.js";
import { _ } from "./i18n.js";
import { startShortcuts } from "./shortcuts.js";
import { startTimes } from "./times.js";
import { toast } from "./toast.js";

function startNavigation() {
  for (const button of document.querySelectorAll(".chokaq-nav-toggle")) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-expanded", String(button.getAttribute("aria-expanded") !== "true"));
    });
  }
}

function startCopying() {
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest?.("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      toast(_("Copied."), "good");
    } catch {
      toast(_("The browser does not let this page copy."), "warn");
    }
  });
}

/** What can be pushed sideways can be reached by the keyboard, even where it has no link. */
function startScrolling() {
  const look = ({ target }) => {
    if (target.scrollWidth > target.clientWidth && !target.querySelector("a[href], button, input, select, textarea")) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  };
  const observer = new ResizeObserver((entries) => entries.forEach(look));
  for (const element of document.querySelectorAll(".chokaq-scroll:not([tabindex])")) observer.observe(element);
}

startChoices();
startTimes();
startNavigation();
startActs();
startShortcuts();
startCopying();
startScrolling();

const { snapshot } = document.querySelector(".chokaq-nav")?.dataset ?? {};
if (config.topics.includes("overview")) followCounts(pageFeed());
else if (snapshot) lookUpCounts(snapshot);

if (document.getElementById("chokaq-live") && config.topics.length) {
  // Only pages that show live figures load what draws them.
  const [{ html, mount }, { LiveBadge }] = await Promise.all([import("./components.js"), import("./live.js")]);
  mount("chokaq-live", html`<${LiveBadge} />`);
}
