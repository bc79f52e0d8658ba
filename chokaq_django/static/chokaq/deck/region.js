// Parts of a page that the server draws: fetched anew when the feed says that there is something else to draw.

import { showTimes } from "./times.js";

const SETTLE = 300; // milliseconds in which changes become one fetch

/** Keeps the element with this id as the server would draw it now. `soon()` asks for that. */
export class Region {
  constructor(id) {
    this.element = document.getElementById(id);
    this.timer = null;
    this.isWaiting = false;
    this.isPressed = false;
    const again = () => this.isWaiting && this.soon();
    this.element.addEventListener("focusout", again);
    this.element.addEventListener("pointerdown", (event) => {
      this.isPressed = event.button === 0;
    });
    // The last two: menus and other windows may keep the release for themselves.
    for (const name of ["pointerup", "pointercancel", "contextmenu", "blur"]) {
      window.addEventListener(name, () => {
        this.isPressed = false;
        again();
      });
    }
    document.addEventListener("close", again, true); // of a dialog
  }

  soon(after = SETTLE) {
    this.timer ??= setTimeout(() => this.#draw(), after);
  }

  /** Not while somebody is typing in it, presses a button or is asked whether to: what was begun would be lost. */
  #isBusy() {
    if (this.isPressed || document.querySelector("dialog[open]")) return true;
    const typed = document.activeElement;
    return this.element.contains(typed) && typed.matches("input, select, textarea") && typed.value !== "";
  }

  async #draw() {
    this.timer = null;
    this.isWaiting = this.#isBusy();
    if (this.isWaiting) return;
    const answer = await fetch(location.href, { credentials: "same-origin", redirect: "manual" }).catch(() => null);
    if (!answer?.ok) return; // the badge says that the server does not answer
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById(this.element.id);
    this.isWaiting = this.#isBusy();
    if (!fresh || this.isWaiting) return;
    const opened = new Set([...this.element.querySelectorAll("details[open] > summary")].map((summary) => summary.textContent));
    const focused = this.element.contains(document.activeElement) ? document.activeElement.id : "";
    Object.assign(this.element.dataset, fresh.dataset);
    this.element.replaceChildren(...fresh.childNodes);
    for (const details of this.element.querySelectorAll("details")) {
      if (opened.has(details.querySelector("summary").textContent)) details.open = true;
    }
    if (focused) document.getElementById(focused)?.focus();
    showTimes(this.element);
  }
}
