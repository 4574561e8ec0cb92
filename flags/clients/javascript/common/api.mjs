// Requests to the service, and the pauses between those that fail.

/** Return `request(path, body, options)`: a POST with a body, otherwise a GET. */
export function createApi({ url, key, fetch = (...given) => globalThis.fetch(...given), timeout = 10_000 }) {
  const authorization = { Authorization: `Bearer ${key}` };
  const json = { "Content-Type": "application/json" };
  const base = url.replace(/\/+$/, "");
  return (path, body, { headers, ...options } = {}) =>
    fetch(base + path, {
      method: body === undefined ? "GET" : "POST",
      body,
      headers: { ...authorization, ...(body === undefined ? {} : json), ...headers },
      credentials: "omit",
      signal: AbortSignal.timeout(timeout),
      ...options,
    });
}

/** The milliseconds that `Retry-After` of an answer asks for, at most an hour, or 0. */
export function askedPause(response) {
  return Math.min(3_600, Number(response?.headers.get("Retry-After")) || 0) * 1_000;
}

/** Milliseconds until the next attempt: longer with each failure, and different for each client. */
export function pauseAfter(failures, response) {
  return Math.max(askedPause(response), Math.min(60_000, 500 * 2 ** failures) * (0.5 + Math.random() / 2));
}

/** Return a function that passes on each kind of warning once. */
export function warnOnce(warn = (text) => console.warn(text)) {
  const given = new Set();
  return (kind, text) => {
    if (given.has(kind)) return;
    given.add(kind);
    warn(`Halyard: ${text}`);
  };
}
