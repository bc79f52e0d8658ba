// Texts of the panels. The page loads Django's own catalogue (deck/jsi18n/) before any module; without it, English.

function fill(text, values) {
  return text.replace(/%\((\w+)\)s/g, (whole, name) => (name in values ? String(values[name]) : whole)).replaceAll("%%", "%");
}

/** The text in the page's language; `values` replace places such as %(name)s. */
export function _(text, values) {
  const found = globalThis.gettext ? globalThis.gettext(text) : text;
  return values ? fill(found, values) : found;
}

/** A sentence of the server, [template, values], in the page's language; `show` turns numbers and { seconds } to text. */
export function sentence([template, values], show) {
  const shown = Object.entries(values).map(([name, value]) => [name, Array.isArray(value) ? sentence(value, show) : show(value)]);
  return _(template, Object.fromEntries(shown));
}

/** The text for one or for many, with %(count)s and further `values` filled in. */
export function ngettext(one, many, count, values = {}) {
  const found = globalThis.ngettext ? globalThis.ngettext(one, many, count) : count === 1 ? one : many;
  return fill(found, { count, ...values });
}
