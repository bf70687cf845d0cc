/** Requests as a command that anybody can run: with a key of their own, never with ours. Pure functions. */

/** @param {string} text @returns {string} as one word of a shell */
export const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** @param {string} url @param {any} [body] a POST when there is one */
export function curl(url, body) {
  const lines = [`curl -s ${quoted(url)}`, '-H "Authorization: Bearer $CODE_EXECUTOR_KEY"'];
  if (body !== undefined) lines.push("-H 'Content-Type: application/json'", `--data-raw ${quoted(JSON.stringify(body))}`);
  return lines.join(' \\\n  ');
}
