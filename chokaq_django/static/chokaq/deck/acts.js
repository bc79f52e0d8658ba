// Forms that act: they ask first where they should, and are sent without leaving the page where the page is live.
//
// form[data-live]                     sent by fetch(); the answer's messages become toasts
// data-confirm (form or its button)   the question; data-confirm-title, data-confirm-word (to be typed),
//                                     data-confirm-reason (asks why; sent as "reason"), data-tone

import { config } from "./config.js";
import { _ } from "./i18n.js";
import { toast } from "./toast.js";

const TONES = { success: "good", warning: "warn", error: "bad", info: "info", debug: "info" };
const confirmed = new WeakSet();

function part(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function field(label, input, help) {
  const box = part("div", "chokaq-field");
  input.id = `chokaq-ask-${input.name}`;
  const name = part("label", "", label);
  name.htmlFor = input.id;
  box.append(name, input);
  if (help) box.append(part("p", "chokaq-help", help));
  return box;
}

/** Ask in a dialog: null for no, or {reason} for yes. `word`: what has to be typed. `reason`: whether to ask why. */
export function ask({ title, text, label, word = "", reason = false, tone = "" }) {
  const dialog = part("dialog", "chokaq-dialog");
  const form = part("form");
  form.method = "dialog";
  const body = part("div", "chokaq-dialog-body");
  const heading = part("h2", "", title || label || _("Are you sure?"));
  heading.id = "chokaq-ask-title";
  dialog.setAttribute("aria-labelledby", heading.id);
  if (text) body.append(part("p", "", text));
  const why = part("input");
  if (reason) {
    Object.assign(why, { type: "text", name: "reason", maxLength: 500, autocomplete: "off" });
    body.append(field(_("Reason"), why, _("Optional; kept in the audit.")));
  }
  const typed = part("input");
  const yes = part("button", `chokaq-button chokaq-button-primary${tone === "bad" ? " chokaq-button-dangerous" : ""}`);
  yes.textContent = label || _("Do it");
  yes.value = "yes";
  if (word) {
    Object.assign(typed, { type: "text", name: "word", autocomplete: "off", spellcheck: false, required: true });
    body.append(field(_("Type %(word)s to go on", { word }), typed));
    yes.disabled = true;
    typed.addEventListener("input", () => {
      yes.disabled = typed.value.trim() !== word;
    });
  }
  const no = part("button", "chokaq-button", _("Back"));
  no.value = "no";
  no.type = "button";
  no.addEventListener("click", () => dialog.close("no"));
  const end = part("div", "chokaq-form-end");
  end.append(no, yes);
  form.append(heading, body, end);
  dialog.append(form);
  document.body.append(dialog);
  dialog.showModal();
  (word ? typed : reason ? why : yes).focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? { reason: why.value } : null);
    });
  });
}

function questionOf(form, button) {
  const source = [button, form].find((element) => element?.dataset.confirm !== undefined);
  if (!source) return null;
  const data = source.dataset;
  return {
    title: data.confirmTitle,
    text: data.confirm,
    word: data.confirmWord,
    reason: data.confirmReason !== undefined,
    tone: data.tone,
    label: data.confirmLabel || button?.getAttribute("aria-label") || button?.textContent.trim(),
  };
}

function withReason(form, reason) {
  let input = form.elements.namedItem("reason");
  if (!input) {
    input = part("input");
    Object.assign(input, { type: "hidden", name: "reason" });
    form.append(input);
  }
  input.value = reason;
}

/** Send a form; true when the server took it. What it says is shown. */
export async function send(form, button = null) {
  const data = new FormData(form);
  if (button?.name) data.set(button.name, button.value);
  return post(form.getAttribute("action") || location.href, data);
}

/** Send `data` (FormData or an object) to an address of the Deck. */
export async function post(address, data) {
  const body = data instanceof FormData ? data : new URLSearchParams(data);
  let answer;
  try {
    answer = await fetch(address, {
      method: "POST",
      body,
      headers: { Accept: "application/json", "X-CSRFToken": config.csrf },
      credentials: "same-origin",
      redirect: "manual",
    });
  } catch {
    toast(_("The server does not answer. Look before you try again: it may have been done."), "bad");
    return false;
  }
  if (answer.type === "opaqueredirect") {
    toast(_("You are not logged in any more. Load the page again."), "bad");
    return false;
  }
  if (answer.status === 403) {
    toast(_("Refused: you do not have the permission for this, or the page is too old. Load it again."), "bad");
    return false;
  }
  let said = null;
  try {
    said = await answer.json();
  } catch {
    // no JSON: something in between has answered
  }
  if (!answer.ok || !said) {
    toast(_("The server answered with an error (%(status)s). Look before you try again.", { status: answer.status }), "bad");
    return false;
  }
  let fine = true;
  for (const { level, text } of said.messages ?? []) {
    toast(text, TONES[level] ?? "info");
    if (level === "error") fine = false;
  }
  return fine;
}

async function act(form, button) {
  const buttons = [...form.querySelectorAll("button, input[type=submit]")].filter((item) => !item.disabled);
  for (const item of buttons) item.disabled = true;
  try {
    const fine = await send(form, button);
    form.dispatchEvent(new CustomEvent("chokaq:sent", { bubbles: true, detail: { fine } }));
  } finally {
    for (const item of buttons) item.disabled = false;
  }
}

export function startActs() {
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    const button = event.submitter;
    if (event.defaultPrevented || !(form instanceof HTMLFormElement) || form.method !== "post") return;
    const live = "live" in form.dataset;
    const question = confirmed.has(form) ? null : questionOf(form, button);
    confirmed.delete(form);
    if (!live && !question) return;
    event.preventDefault();
    if (question) {
      const answer = await ask(question);
      button?.focus();
      if (!answer) return;
      if (question.reason) withReason(form, answer.reason);
    }
    if (live) {
      await act(form, button); // by hand: its row may have left the page while the dialog was open
    } else {
      confirmed.add(form);
      form.requestSubmit(button);
    }
  });
}
