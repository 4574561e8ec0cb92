// One connection to an event stream. It does not keep the process alive.

import { get as getHttp } from "node:http";
import { get as getHttps } from "node:https";

const MAX_SILENCE = 45_000; // milliseconds; the service sends something every 15 seconds

/**
 * Call `onOpen`, then `onMessage` with each document, and `onEnd` when the stream has ended. Returns `close`.
 * A message that cannot be read ends the stream: it comes from something between the service and this process.
 */
export function listen(url, { onOpen, onMessage, onEnd }) {
  const get = url.startsWith("https:") ? getHttps : getHttp;
  const request = get(url, { headers: { Accept: "text/event-stream" }, agent: false, timeout: MAX_SILENCE });
  let text = "";
  request.on("socket", (socket) => socket.unref());
  request.on("timeout", () => request.destroy());
  request.on("error", () => {}); // "close" follows
  request.on("close", onEnd);
  request.on("response", (response) => {
    if (response.statusCode !== 200) return request.destroy();
    onOpen();
    response.setEncoding("utf8");
    response.on("data", (part) => {
      const lines = (text + part).split("\n");
      text = lines.pop();
      try {
        lines.filter((line) => line.startsWith("data:")).forEach((line) => onMessage(JSON.parse(line.slice(5))));
      } catch {
        request.destroy();
      }
    });
    response.on("error", () => {});
  });
  return () => request.destroy();
}
