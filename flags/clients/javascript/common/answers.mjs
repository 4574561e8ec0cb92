// What OpenFeature's methods return, from an entry of an answer of OFREP.

/** Return the details of a flag. `kind` is the `typeof` that is asked for; `reason` replaces that of the entry. */
export function detailsOf(key, entry, kind, defaultValue, reason) {
  const fail = (errorCode, errorMessage) => failed(defaultValue, errorCode, errorMessage);
  if (!entry) return fail("FLAG_NOT_FOUND", `No flag has the key ${key}.`);
  if (entry.errorCode) return fail(entry.errorCode, entry.errorDetails);
  const { value, variant, metadata: flagMetadata } = entry;
  if (typeof value !== kind) return fail("TYPE_MISMATCH", `The value of ${key} is a ${typeof value}, not a ${kind}.`);
  return { value, variant, reason: reason ?? entry.reason, flagMetadata };
}

export function failed(value, errorCode, errorMessage) {
  return { value, reason: "ERROR", errorCode, errorMessage };
}
