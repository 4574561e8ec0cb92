// A place in the browser for one document of JSON. It may be full, forbidden or missing.

export function createStorage(name, { url, key }) {
  const slot = `halyard:1:${url}:${key}`;
  const attempt = (use) => {
    try {
      return use(globalThis[name]);
    } catch {
      return undefined;
    }
  };
  return {
    read: () => attempt((place) => JSON.parse(place.getItem(slot))),
    write: (document) => attempt((place) => place.setItem(slot, JSON.stringify(document))),
  };
}
