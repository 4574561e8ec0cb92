// The keys of the flag's variants as they stand in the form, for those who choose among them.

const SOURCE = 'textarea[data-editor="variants"]';

/** What to watch to hear of changes. */
export const VARIANTS = SOURCE;

export function variantKeys() {
  try {
    const variants = JSON.parse(document.querySelector(SOURCE)?.value || "[]");
    return variants.map(({ key }) => key).filter((key) => typeof key === "string" && key);
  } catch {
    return [];
  }
}
