// What clients report: exposures, which say that a user saw a variant of an experiment, and events of the application.

import { isText, plain } from "./context.mjs";

const MAX_ATTRIBUTES = 32;
const RESERVED = ["revenue", "currency", "experimentId", "variant"];

/**
 * Return a function that reports an exposure once for each user, experiment and variant in `seen`. The metadata of a
 * flag's answer say whether its user is in an experiment. Other hooks may change them, so `knows` says whether an
 * experiment exists. Reports of others are dropped, because they would never count.
 */
export function createExposures({ queue, warn, knows = () => true, event = "experiment_exposure", ...options }) {
  const { seen = new Set(), capacity = 100_000 } = options;
  return ({ experiment, experimentVariant: variant, inExperiment } = {}, { userId, attributes }) => {
    if (!inExperiment || !userId || !isKey(experiment) || !isKey(variant)) return;
    const key = JSON.stringify([userId, experiment, variant]);
    if (seen.has(key)) return;
    if (!knows(experiment)) {
      return warn(`unknown ${experiment}`, `No experiment has the key ${experiment}: exposures are dropped.`);
    }
    if (seen.size >= capacity) seen.clear(); // reporting twice is harmless: the earliest counts
    if (queue.add(event, userId, { ...stored(attributes), experimentId: experiment, variant })) seen.add(key);
  };
}

const isKey = (each) => typeof each === "string" && each !== "";

/** The user's attributes that an exposure stores: the first that are texts, numbers or booleans. */
function stored(attributes) {
  const isKept = ([name, value]) => name && isText(name, 100) && !RESERVED.includes(name) && isStored(value);
  return Object.fromEntries(Object.entries(attributes).filter(isKept).slice(0, MAX_ATTRIBUTES));
}

/** Whether the service accepts a value. A single invalid one would reject the whole event. */
function isStored(value) {
  if (typeof value === "number") return Math.abs(value) < 2 ** 63;
  return typeof value === "boolean" || isText(value, 200);
}

/** Return `track`: it queues an event of the application, unless it has no user or cannot be sent. */
export function createTrack({ queue, warn }) {
  return (event, userId, details = {}) => {
    if (!userId) return warn("anonymous", `An event needs a targeting key; ${event} was dropped.`);
    try {
      queue.add(event, userId, plain(details));
    } catch (error) {
      warn("properties", `The properties of ${event} cannot be sent: ${error.message}.`);
    }
  };
}
