/** Requests as a command that anybody can run: with a key of their own, never with ours. Pure functions. */

/** @param {string} text @returns {string} as one word of a shell */
export const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * JSON with what nobody sees spelled out. A terminal obeys some of it: a DEL in what is pasted deletes what stands before it.
 * @param {string} json
 */
export const spelledOut = (json) =>
  json.replace(/[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu, (hidden) =>
    hidden === '\n' ? hidden : [...Array(hidden.length).keys()].map((at) => `\\u${hidden.charCodeAt(at).toString(16).padStart(4, '0')}`).join(''),
  );

/** @param {string} url @param {any} [body] a POST when there is one */
export function curl(url, body) {
  const lines = [`curl -s ${quoted(url)}`, '-H "Authorization: Bearer $CODE_EXECUTOR_KEY"'];
  if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `--data-raw ${quoted(spelledOut(JSON.stringify(body)))}`);
  return lines.join(' \\\n  ');
}
