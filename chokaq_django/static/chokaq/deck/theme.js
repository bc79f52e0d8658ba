// Runs in the head, before anything is painted: a page never flashes in another theme than the one chosen.

"use strict";
{
  const root = document.documentElement;
  const THEMES = ["blueprint", "carbon"];

  function read(name) {
    try {
      return localStorage.getItem(name);
    } catch {
      return null; // storage is forbidden: nothing is remembered
    }
  }

  function show(theme) {
    if (THEMES.includes(theme)) {
      root.dataset.chokaqTheme = theme;
    } else {
      delete root.dataset.chokaqTheme; // as admin looks: light, dark or as the system says
    }
  }

  root.dataset.chokaqScript = ""; // there is a script: what only helps without one may hide
  root.dataset.chokaqZone = read("chokaq.zone") === "utc" ? "utc" : "local";
  show(read("chokaq.theme"));

  // Another tab has chosen.
  window.addEventListener("storage", (event) => {
    if (event.key === "chokaq.theme") show(event.newValue);
  });
}
