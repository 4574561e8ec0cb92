import type { Bootstrap, CommonOptions } from "../common/types.d.mts";

export type { Bootstrap };

/** `targetingKey` is the user id. All other fields are attributes, at most 8 levels deep. */
export type Context = { targetingKey?: string } & Record<string, unknown>;

export interface PageOptions extends CommonOptions {
  /** Values that the server rendered into the page, for the first moment. Those of another user are ignored. */
  bootstrap?: Bootstrap;
  /** The environment of the key. A bootstrap of another one is then ignored at once, instead of at the first answer. */
  environment?: string;
}

export interface ClientOptions extends PageOptions {
  /** The user. */
  context?: Context;
}

export interface Client {
  /** Settles when there are values. It rejects if there are none yet; they may come later. */
  ready: Promise<void>;
  /** The value of a flag, or the default if there is none of its type. It reports the exposure, if there is one. */
  value(flag: string, defaultValue: boolean): boolean;
  value(flag: string, defaultValue: string): string;
  value(flag: string, defaultValue: number): number;
  value<T extends object>(flag: string, defaultValue: T): T;
  /** Shows the same page for another user, or with other attributes. */
  setContext(context: Context): Promise<void>;
  /** Queues an event of the user. */
  track(event: string, properties?: Record<string, unknown>): void;
  /** Calls a function with the keys of the flags that changed. Returns a function that ends that. */
  onChange(listener: (flags: string[]) => void): () => void;
  /** Sends the events that wait. It resolves at the first failure, too. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

export function createClient(options: ClientOptions): Client;
