// The keys of the flag's variants in the form, for the editors that offer them.

const SOURCE = 'textarea[data-editor="variants"]';

/** The selector of the field that changes with them. */
export const VARIANTS = SOURCE;

export function variantKeys() {
  try {
    const variants = JSON.parse(document.querySelector(SOURCE)?.value || "[]");
    return variants.map(({ key }) => key).filter((key) => typeof key === "string" && key);
  } catch {
    return [];
  }
}
