/** Programs as coloured pieces: small on purpose, it knows words, strings, numbers and comments. Pure functions. */

const WORDS = {
  typescript:
    'abstract as asserts async await break case catch class const continue debugger declare default delete do else enum export extends ' +
    'false finally for from function get if implements import in infer instanceof interface is keyof let namespace new null of ' +
    'private protected public readonly return satisfies set static super switch this throw true try type typeof undefined ' +
    'using var void while yield',
  python:
    'False None True and as assert async await break case class continue def del elif else except finally for from global ' +
    'if import in is lambda match nonlocal not or pass raise return try type while with yield',
  json: 'true false null',
};

const NUMBER = String.raw`\b(?:0[xob][\da-f_]+|\d[\d_]*(?:\.[\d_]+)?(?:e[+-]?\d+)?)n?\b`;
const NAME = String.raw`[\p{L}_$][\p{L}\p{N}_$]*`;

const PATTERNS = {
  typescript: pattern({
    comment: String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`,
    string: String.raw`"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|${'`'}(?:\\[\s\S]|[^${'`'}\\])*${'`'}?`,
    number: NUMBER,
    name: NAME,
  }),
  python: pattern({
    comment: String.raw`#[^\n]*`,
    string:
      String.raw`(?:\b[rbfut]{1,2})?(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)`,
    number: NUMBER,
    name: NAME,
  }),
  json: pattern({string: String.raw`"(?:\\.|[^"\\\n])*"?`, number: `-?${NUMBER}`, name: NAME}),
};

const KEYWORDS = Object.fromEntries(Object.entries(WORDS).map(([language, words]) => [language, new Set(words.split(' '))]));

/** @param {Record<string, string>} kinds */
function pattern(kinds) {
  return new RegExp(Object.entries(kinds).map(([kind, source]) => `(?<${kind}>${source})`).join('|'), 'giu');
}

/**
 * Cut a program into lines of pieces; `kind` is empty for what has no colour.
 * @param {string} code
 * @param {string | null | undefined} language
 * @returns {{kind: string, text: string}[][]}
 */
export function highlight(code, language) {
  const lines = [/** @type {{kind: string, text: string}[]} */ ([])];
  for (const piece of pieces(code, language ?? '')) {
    for (const [index, text] of piece.text.split('\n').entries()) {
      if (index) lines.push([]);
      if (text) lines[lines.length - 1].push({kind: piece.kind, text});
    }
  }
  return lines;
}

/**
 * Lines as they are when they have few pieces, and plain otherwise: each piece is an element of the page.
 * @param {{kind: string, text: string}[][]} lines
 * @param {number} most pieces of all lines
 */
export function calmed(lines, most) {
  const sum = lines.reduce((before, line) => before + line.length, 0);
  return sum <= most ? lines : lines.map((line) => [{kind: '', text: line.map(({text}) => text).join('')}]);
}

/** @param {string} code @param {string} language */
function* pieces(code, language) {
  const known = PATTERNS[language];
  let end = 0;
  for (const found of known ? code.matchAll(known) : []) {
    if (found.index > end) yield {kind: '', text: code.slice(end, found.index)};
    end = found.index + found[0].length;
    yield {kind: kindOf(found, code, language, end), text: found[0]};
  }
  if (end < code.length) yield {kind: '', text: code.slice(end)};
}

/** @param {any} found @param {string} code @param {string} language @param {number} end of what was found */
function kindOf({groups, 0: text}, code, language, end) {
  const kind = Object.keys(groups).find((name) => groups[name] !== undefined) ?? '';
  if (kind === 'string' && language === 'json') return /^\s*:/.test(code.slice(end, end + 20)) ? 'key' : 'string';
  if (kind !== 'name') return kind;
  if (KEYWORDS[language].has(text)) return 'keyword';
  if (code[end] === '(') return 'call';
  return /^\p{Lu}/u.test(text) ? 'type' : '';
}
