// What the viewer chooses and the browser remembers: the look, and the zone of times.

import { ZONE_CHANGED } from "./times.js";

const root = document.documentElement;
export const LOOK_CHANGED = "chokaq:look";

function remember(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // storage is forbidden: the choice lasts as long as the page
  }
}

const CHOICES = {
  theme: {
    read: () => root.dataset.chokaqTheme ?? "admin",
    write(value) {
      if (value === "admin") delete root.dataset.chokaqTheme;
      else root.dataset.chokaqTheme = value;
    },
  },
  zone: {
    read: () => root.dataset.chokaqZone ?? "local",
    write(value) {
      root.dataset.chokaqZone = value;
      document.dispatchEvent(new Event(ZONE_CHANGED));
    },
  },
};

function showAll() {
  for (const select of document.querySelectorAll("[data-chokaq-choice]")) {
    select.value = CHOICES[select.dataset.chokaqChoice].read();
  }
}

function choose(name, value) {
  CHOICES[name].write(value);
  remember(`chokaq.${name}`, value);
  showAll();
}

export function startChoices() {
  showAll();
  document.addEventListener("change", ({ target }) => {
    if (target.dataset?.chokaqChoice) choose(target.dataset.chokaqChoice, target.value);
  });
  // Admin's own switch means admin's own looks.
  for (const button of document.getElementsByClassName("theme-toggle")) {
    button.addEventListener("click", () => choose("theme", "admin"));
  }
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key === "chokaq.zone" && newValue) CHOICES.zone.write(newValue);
    if (key?.startsWith("chokaq.")) showAll();
  });
  // Charts are painted, not styled: they have to hear of it.
  const tell = () => document.dispatchEvent(new Event(LOOK_CHANGED));
  new MutationObserver(tell).observe(root, { attributeFilter: ["data-theme", "data-chokaq-theme"] });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}
