// Evaluation in this process, by the ruleset.

import { failure } from "../common/context.mjs";
import { entryOf } from "./entries.mjs";
import { followRuleset } from "./ruleset.mjs";

export function evaluateLocally(options) {
  let follower;

  function current() {
    const ruleset = follower?.current();
    if (!ruleset) throw failure("PROVIDER_NOT_READY", "There is no ruleset yet.");
    return ruleset;
  }

  /** The flags that pages may know. */
  function evaluateAll(user) {
    const { flags, environment, revision } = current();
    const visible = [...flags.values()].filter((flag) => !flag.archived && flag.clientVisible !== false);
    const metadata = { flagSetId: environment, revision };
    return { flags: visible.map(({ key }) => entryOf(current(), key, user)), metadata };
  }

  /** Whether the experiment drives one of the flags. */
  const knows = (experiment) => driversIn(current()).has(experiment);

  return {
    knows,
    start() {
      follower = followRuleset(options);
      return follower.ready;
    },
    evaluate: (flag, user) => entryOf(current(), flag, user),
    evaluateAll,
    close: () => follower?.close(),
  };
}

const drivers = new WeakMap(); // the experiments of each ruleset

function driversIn(ruleset) {
  if (!drivers.has(ruleset)) {
    const rules = [...ruleset.flags.values()].flatMap((flag) => flag.rules);
    drivers.set(ruleset, new Set(rules.map(({ experiment }) => experiment)));
  }
  return drivers.get(ruleset);
}
