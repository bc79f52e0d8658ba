// What is wrong with the page as it is drawn now: text that is too faint (WCAG 2.2 AA: 4.5 to 1, or 3 to 1 where it is
// large), controls without a name, targets that are too small (24 pixels), and things that are wider than the screen.
() => {
  for (const each of document.getAnimations()) if (each instanceof CSSTransition) each.finish(); // from another look to this one
  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const found = new Set();

  const painted = (colors) => {
    brush.fillStyle = "#fff";
    brush.fillRect(0, 0, 1, 1);
    for (const color of colors) {
      brush.fillStyle = color; // whatever CSS calls it, mixed ones too
      brush.fillRect(0, 0, 1, 1);
    }
    return [...brush.getImageData(0, 0, 1, 1).data].slice(0, 3);
  };
  const luminance = (color) => {
    const [red, green, blue] = color.map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const grounds = (element) => {
    const all = [];
    for (let each = element; each; each = each.parentElement) all.unshift(getComputedStyle(each).backgroundColor);
    return all;
  };
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true }) && !element.closest(".chokaq-hidden-visually, [aria-hidden=true]");
  const called = (element) => `${element.tagName.toLowerCase()}.${element.className} “${(element.textContent || element.name || "").trim().slice(0, 40)}”`;

  const look = (element, color, what) => {
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const below = grounds(element);
    const ratio = contrast(painted(below), painted([...below, color]));
    if (ratio < (isLarge ? 3 : 4.5)) found.add(`${what} ${ratio.toFixed(2)} to 1: ${called(element)}`);
  };

  const frame = document.querySelector(".chokaq-frame");
  const texts = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    const element = text.parentElement;
    if (text.data.trim() && isSeen(element) && !element.closest(":disabled, option")) look(element, getComputedStyle(element).color, "faint text");
  }
  for (const input of frame.querySelectorAll("[placeholder]")) {
    if (isSeen(input)) look(input, getComputedStyle(input, "::placeholder").color, "faint placeholder");
  }

  for (const control of frame.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
    if (!isSeen(control)) continue;
    const name = control.getAttribute("aria-label") || control.textContent.trim() || control.title || (control.labels?.length && control.labels[0].textContent.trim());
    if (!name && !control.value) found.add(`no name: ${called(control)}`);
    if ("labels" in control && control.type !== "submit" && control.tagName !== "BUTTON" && !control.labels.length && !control.getAttribute("aria-label")) {
      found.add(`no label: ${called(control)}`);
    }
    const { width, height } = control.getBoundingClientRect();
    const isButton = control.matches("button, .chokaq-button, select, .chokaq-segments a, input:not([type=checkbox], [type=radio])");
    if (isButton && Math.min(width, height) < 24) found.add(`small, ${width.toFixed()} by ${height.toFixed()}: ${called(control)}`);
  }

  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) found.add(`${scrollWidth} pixels wide on ${innerWidth}`);
  return [...found];
};
