/** What all clients take. */
export interface CommonOptions {
  /** The address of the service, such as `https://flags.example.com`. */
  url: string;
  /** The API key. It belongs to one environment. */
  key: string;
  /** Whether to report exposures. Default: true. In mode `remote` of a server, the service records them itself. */
  exposures?: boolean;
  /** The name of the events that report exposures. Default: `experiment_exposure`. It must not be a metric. */
  exposureEvent?: string;
  /** Milliseconds between requests for changes that no event stream has announced. Default: 60,000; 0 asks for none. */
  pollInterval?: number;
  /** Milliseconds until a request is given up. Default: 10,000. */
  timeout?: number;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
  /** Gets each warning once. Default: `console.warn`. */
  warn?: (text: string) => void;
}

/** The values of all flags for one user, which a server renders into a page. */
export interface Bootstrap {
  /** The user whose values these are. */
  targetingKey: string;
  flags: { key: string }[];
  metadata: { flagSetId?: string; revision?: number };
}
