// Comfort of the editor, which works without it: a tick that says "nothing" goes when something is typed.

const form = document.getElementById("chokaq-edit");

form?.addEventListener("input", ({ target }) => {
  if (target.type === "checkbox") return;
  const ticks = target.closest(".chokaq-job-input")?.querySelectorAll('[name^="null:"], [name^="absent:"]') ?? [];
  for (const tick of ticks) tick.checked = false;
});

// What is typed is not lost by a slip.
let isTouched = false;
form?.addEventListener("input", () => {
  isTouched = true;
});
form?.addEventListener("submit", () => {
  isTouched = false;
});
window.addEventListener("beforeunload", (event) => {
  if (isTouched) event.preventDefault();
});
