// A filter's address says what narrows the list, and nothing of the inputs that are empty.

document.querySelector(".chokaq-filter")?.addEventListener("submit", ({ target }) => {
  for (const input of target.elements) {
    if (input.name && !input.value.trim()) input.disabled = true;
  }
});

// The back button finds them as they were.
window.addEventListener("pageshow", () => {
  for (const input of document.querySelectorAll(".chokaq-filter :disabled")) input.disabled = false;
});
