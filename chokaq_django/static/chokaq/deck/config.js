// What the server told the page: addresses, permissions, topics of the feed, the CSRF token.

const block = document.getElementById("chokaq-config");

export const config = {
  topics: [],
  permissions: [],
  urls: {},
  socket: "",
  csrf: "",
  ...(block ? JSON.parse(block.textContent) : {}),
};

/** Whether this user held the permission when the page was made; the server asks again at every act. */
export function may(permission) {
  return config.permissions.includes(permission);
}

/** The address of a page by its name in `config.urls`. `query` values go behind it, {id} places are filled from `path`. */
export function url(page, query = {}, path = {}) {
  let address = config.urls[page];
  if (!address) return null;
  for (const [name, value] of Object.entries(path)) {
    address = address.replace(`_${name}_`, encodeURIComponent(value));
  }
  const wanted = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return wanted.length ? `${address}?${new URLSearchParams(wanted)}` : address;
}

export const queueUrl = (name) => url("queue", { name });
export const jobUrl = (id) => url("job", {}, { id });
