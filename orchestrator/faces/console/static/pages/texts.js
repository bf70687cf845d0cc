/** Texts taken apart. Pure functions. */

/** Split a text at its backticks. @returns {{code: boolean, text: string}[]} */
export function pieces(text) {
  const parts = String(text ?? '').split(/`([^`\n]+)`/);
  return parts.map((part, index) => ({code: index % 2 === 1, text: part})).filter((part) => part.text !== '');
}

/** The paragraphs of a text; lines within one stay. */
export function paragraphs(text) {
  return String(text ?? '').replace(/\r\n?/g, '\n').split(/\n\s*\n/).map((part) => part.trim()).filter(Boolean);
}

/** The type that the promise of a TypeScript signature holds. */
export function resultType(signature) {
  const [, type] = /\): Promise<([^]*)>(?:\s*\/\*[^]*?\*\/)?\s*$/.exec(signature) ?? [];
  return type ?? signature;
}
