// Keys. A link or button with data-shortcut="g q" is followed or pressed by them; "?" shows them all.

import { _ } from "./i18n.js";

const PATIENCE = 1200; // milliseconds between the keys of one shortcut
let begun = "";
let timer = 0;

function isTyping(target) {
  return target instanceof Element && target.closest("input, select, textarea, [contenteditable=true], dialog") !== null;
}

function isThere(element) {
  return element.closest("[hidden]") === null && !element.disabled;
}

function all() {
  return [...document.querySelectorAll("[data-shortcut]")].filter(isThere);
}

function label(element) {
  return element.dataset.shortcutLabel || element.getAttribute("aria-label") || element.textContent.trim().replace(/\s+/g, " ");
}

/** Where one looks for something in a list; on other pages, for a job. */
const searchField = () => document.querySelector("#searchbar, #filter-q, #filter-target") ?? document.getElementById("chokaq-find");

/** The rows that j and k step through: the first link of each row of the page's first list. */
function rowLinks() {
  const table = document.querySelector("#result_list, .chokaq-main .chokaq-table");
  const rows = table ? [...table.querySelectorAll("tbody tr")] : [];
  return rows.map((row) => row.querySelector("a[href]")).filter(Boolean);
}

function step(by) {
  const links = rowLinks();
  if (!links.length) return;
  const at = links.findIndex((link) => link.closest("tr").contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : links.length - 1) : Math.min(links.length - 1, Math.max(0, at + by));
  links[next].focus();
  links[next].scrollIntoView({ block: "nearest" });
}

function showHelp() {
  const dialog = document.createElement("dialog");
  dialog.className = "chokaq-dialog";
  const form = document.createElement("form");
  form.method = "dialog";
  const heading = document.createElement("h2");
  heading.id = "chokaq-keys-title";
  heading.textContent = _("Keys");
  dialog.setAttribute("aria-labelledby", heading.id);
  const list = document.createElement("dl");
  list.className = "chokaq-shortcuts";
  const known = all().map((element) => [element.dataset.shortcut, label(element)]);
  if (rowLinks().length) known.push(["j", _("Next row")], ["k", _("Row before")]);
  if (searchField()) known.push(["/", _("Find")]);
  for (const [keys, text] of known) {
    const term = document.createElement("dt");
    for (const key of keys.split(" ")) {
      const cap = document.createElement("kbd");
      cap.className = "chokaq-kbd";
      cap.textContent = key;
      term.append(cap, " ");
    }
    const meaning = document.createElement("dd");
    meaning.textContent = text;
    list.append(term, meaning);
  }
  const end = document.createElement("div");
  end.className = "chokaq-form-end";
  const close = document.createElement("button");
  close.className = "chokaq-button chokaq-button-primary";
  close.textContent = _("Close");
  end.append(close);
  form.append(heading, list, end);
  dialog.append(form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
  close.focus();
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || isTyping(event.target)) return;
  const keys = begun ? `${begun} ${event.key}` : event.key;
  clearTimeout(timer);
  begun = "";
  const element = all().find((item) => item.dataset.shortcut === keys);
  if (element) {
    event.preventDefault();
    element.focus();
    element.click();
  } else if (all().some((item) => item.dataset.shortcut.startsWith(`${keys} `))) {
    event.preventDefault();
    begun = keys;
    timer = setTimeout(() => {
      begun = "";
    }, PATIENCE);
  } else if (keys === "j" || keys === "k") {
    step(keys === "j" ? 1 : -1);
  } else if (keys === "/" && searchField()) {
    event.preventDefault();
    const menu = document.querySelector(".chokaq-nav-toggle");
    if (searchField().id === "chokaq-find" && menu?.offsetParent && menu.getAttribute("aria-expanded") !== "true") menu.click();
    searchField().focus();
  }
}

export function startShortcuts() {
  document.addEventListener("keydown", onKey);
  for (const button of document.querySelectorAll("[data-chokaq-help]")) button.addEventListener("click", showHelp);
}
