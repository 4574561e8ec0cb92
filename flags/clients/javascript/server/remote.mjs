// Evaluation by the service, with a request for each flag.

import { askedPause, createApi } from "../common/api.mjs";
import { failure } from "../common/context.mjs";

const PATH = "/ofrep/v1/evaluate/flags";

export function evaluateRemotely({ request, ...options }) {
  let notBefore = 0; // while the service asks for a pause

  async function ask(path, { userId, attributes }, request) {
    if (Date.now() < notBefore) throw failure("GENERAL", "The service asked for a pause: there are too many requests.");
    const body = JSON.stringify({ context: { ...attributes, ...(userId && { targetingKey: userId }) } });
    // A connection that the service has closed fails at the next request on it, so there is a second attempt.
    const response = await request(path, body).catch((error) => {
      if (error.name === "TimeoutError") throw error; // it would take as long again
      return request(path, body);
    });
    if (response.status === 429) notBefore = Date.now() + askedPause(response);
    const answer = await response.json().catch(() => ({}));
    if (response.ok || answer.errorCode) return answer;
    throw failure("GENERAL", answer.errorDetails ?? `The service answers ${response.status}.`);
  }

  /** With a key of scope client, the service answers what a page may know. */
  function evaluateAll(user) {
    const { key, clientKey = key.startsWith("hyd_c_") ? key : undefined } = options;
    if (!clientKey) throw failure("GENERAL", "In mode remote, bootstrap needs the option clientKey.");
    return ask(PATH, user, createApi({ ...options, key: clientKey }));
  }

  return {
    start: async () => {},
    evaluate: (flag, user) => ask(`${PATH}/${encodeURIComponent(flag)}`, user, request),
    evaluateAll,
    close: () => {},
  };
}
