// Short messages in the corner. Trouble stays until it is closed; the rest goes by itself.

import { _ } from "./i18n.js";

const STAYS = 6000; // milliseconds
const MOST = 5;

function region() {
  let found = document.getElementById("chokaq-toasts");
  if (!found) {
    found = document.createElement("div");
    found.id = "chokaq-toasts";
    found.className = "chokaq-toasts";
    found.setAttribute("role", "status"); // polite: read when the reader has a moment
    // Above dialogs: a modal one makes the rest of the page inert, but a popover stands in the top layer too.
    if ("popover" in found) found.popover = "manual";
    document.body.append(found);
  }
  if (found.popover && !found.matches(":popover-open")) found.showPopover();
  return found;
}

/** Say something; `tone` is good, info, warn or bad. */
export function toast(text, tone = "info") {
  const area = region();
  while (area.children.length >= MOST) area.firstElementChild.remove();
  const item = document.createElement("div");
  item.className = `chokaq-toast chokaq-${tone}`;
  const words = document.createElement("p");
  words.textContent = text;
  const close = document.createElement("button");
  close.type = "button";
  close.textContent = "×";
  close.setAttribute("aria-label", _("Close this message"));
  close.addEventListener("click", () => item.remove());
  item.append(words, close);
  area.append(item);
  if (tone === "good" || tone === "info") setTimeout(() => item.remove(), STAYS);
}
