// The page of one job stays right: how far it is and why it waits as that changes, the rest once the job has moved on.
// The server draws all of it; nothing here puts text into the page but as text.

import { pageFeed } from "./feed.js";
import { said, wholePercent } from "./format.js";
import { _ } from "./i18n.js";
import { showTimes } from "./times.js";
import { toast } from "./toast.js";

const root = document.getElementById("chokaq-job");

/** What makes a job another one to look at; the server says the same of the page in data-state. */
function stateOf(job) {
  const parts = [job.location, job.status, job.attempt, job.generation, job.revision, job.cancelling];
  return parts.join("|");
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function put(element, text) {
  if (element && element.textContent !== text) element.textContent = text;
}

/** How far a running job is. */
function showProgress(job) {
  const card = document.getElementById("chokaq-job-progress");
  if (!card || job.progress === null) return;
  card.querySelector("progress").value = job.progress;
  put(card.querySelector(".chokaq-progress-text"), wholePercent(job.progress));
  const message = card.querySelector("[data-progress-message]");
  if (message && job.message !== null) put(message, job.message);
}

/** Why a waiting one waits: true when the same reasons stand on the page, so that only their numbers change. */
function showReasons(job) {
  const items = [...root.querySelectorAll("[data-hold]")];
  const codes = job.waiting.map(({ code }) => code);
  if (codes.join() !== items.map((item) => item.dataset.hold).join()) return false;
  job.waiting.forEach((hold, place) => put(items[place].querySelector("[data-hold-text]"), capital(said(hold.said, hold.text))));
  return true;
}

// -- the rest ----------------------------------------------------------------------------------------------------------

/** Take over what somebody has typed, and where they are typing. */
function keepTyped(old, fresh) {
  for (const input of old.querySelectorAll('input[name]:not([type="hidden"])')) {
    const twin = fresh.querySelector(`input[name="${CSS.escape(input.name)}"]`);
    if (!twin) continue;
    twin.value = input.value;
    twin.checked = input.checked;
    if (input === document.activeElement) {
      const [start, end] = [input.selectionStart, input.selectionEnd];
      requestAnimationFrame(() => {
        twin.focus();
        if (start !== null) twin.setSelectionRange(start, end);
      });
    }
  }
}

const labelOf = (details) => details.querySelector("summary")?.textContent.trim();

/** Take the server's new drawing of every part; what was folded open, or typed, stays so. */
function replaceParts(page) {
  for (const fresh of page.querySelectorAll("[data-part]")) {
    const old = document.querySelector(`[data-part="${fresh.dataset.part}"]`);
    if (!old || old.innerHTML === fresh.innerHTML) continue;
    const open = [...old.querySelectorAll("details[open]")].map(labelOf);
    for (const details of fresh.querySelectorAll("details")) {
      if (open.includes(labelOf(details))) details.open = true;
    }
    if (old.open) fresh.open = true;
    document.adoptNode(fresh);
    keepTyped(old, fresh);
    old.replaceWith(fresh);
  }
  markPlace(page);
  showTimes();
}

/** The navigation marks the list that the job is in now. */
function markPlace(page) {
  const place = page.querySelector(".chokaq-nav [aria-current]")?.getAttribute("href");
  for (const link of document.querySelectorAll(".chokaq-nav a")) {
    if (link.getAttribute("href") === place) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

let loading = false;
let again = false;

async function reload() {
  if (loading) {
    again = true;
    return;
  }
  loading = true;
  try {
    const answer = await fetch(location.href, { credentials: "same-origin", redirect: "error" });
    if (answer.ok) replaceParts(new DOMParser().parseFromString(await answer.text(), "text/html"));
  } catch {
    // The badge says that the server does not answer; the next change tries again.
  } finally {
    loading = false;
    if (again) {
      again = false;
      reload();
    }
  }
}

if (root?.dataset.topic) {
  let known = root.dataset.state;
  pageFeed().on(
    "job",
    (job) => {
      if (!job?.location) return;
      const state = stateOf(job);
      showProgress(job);
      if (state === known && showReasons(job)) return;
      known = state;
      if ("revealed" in root.dataset) toast(_("The job has changed. Load the page again to see how."), "info");
      else reload();
    },
    root.dataset.topic,
  );
}
