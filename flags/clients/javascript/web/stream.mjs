// The event stream on which the service says that flags have changed.

/** `onChange` gets the tag of each change, and `onEnd` is called when the address is no longer valid. */
export function createStream({ onOpen, onChange, onEnd }) {
  const page = globalThis.document;
  const isHidden = () => page?.visibilityState === "hidden";
  let source;
  let offered;
  let timer;

  function open(offer) {
    if (source && offer?.url === offered.url) return;
    close();
    offered = offer;
    if (!offer || !globalThis.EventSource || isHidden()) return;
    source = new EventSource(offer.url);
    source.onopen = onOpen;
    source.onmessage = ({ data }) => {
      const { type, etag } = JSON.parse(data);
      if (type === "refetchEvaluation") onChange(`${etag}`);
    };
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) return; // the browser connects again by itself
      close();
      onEnd();
    };
    page?.addEventListener("visibilitychange", turn);
  }

  /** A page that stays hidden gives its connection back. When it is seen again, the client asks for all values. */
  function turn() {
    clearTimeout(timer);
    if (isHidden()) timer = setTimeout(close, offered.inactivityDelaySec * 1_000);
  }

  function close() {
    clearTimeout(timer);
    page?.removeEventListener("visibilitychange", turn);
    if (source) source.onerror = null;
    source?.close();
    source = undefined;
  }

  return { open, close, isOpen: () => source?.readyState === EventSource.OPEN };
}
